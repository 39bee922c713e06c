// The SDK's runExperiment on our dataset extraction-eval, with evaluators on
// items and on the run; one item's task fails. The run is read back through the
// SDK's reads of the mode, and what it must be is written to FOLDER/theirs.json
// for the program that reads it with our client.
import { writeFileSync } from "node:fs";
import { startObservation } from "@langfuse/tracing";
import { equal, eventually, finish, has, near, refuses } from "./check.mjs";
import { all, flush, folder, langfuse, legacyReads, newReads, parsed } from "./connect.mjs";

const api = langfuse.api;
const started = new Date(Date.now() - 60_000).toISOString();
const RUN = "their run, 50% & ünï";
const dataset = await langfuse.dataset.get("extraction-eval", { fetchItemsPageSize: 10 });
equal("our dataset, in pages of 10: every item once", new Set(dataset.items.map((i) => i.id)).size, dataset.items.length);
const failing = dataset.items[3].id;

// task finds the words with a capital: a crude extractor, but a real one.
async function task({ id, input }) {
  const names = [...new Set(input.document_text.match(/\p{Lu}\p{Ll}+/gu) ?? [])];
  const call = startObservation("crude", {
    model: "capital-words", input: input.document_text.slice(0, 40), output: names,
    usageDetails: { input: 7, output: names.length }, costDetails: { total: 0.001 },
  }, { asType: "generation" });
  call.end();
  if (id === failing) throw new Error("the model is gone");
  return { entities: names.map((name) => ({ name, type: "thing" })), relationships: [] };
}

async function found({ output, expectedOutput }) {
  const names = new Set(output.entities.map((e) => e.name));
  const hits = expectedOutput.entities.filter((e) => names.has(e.name)).length;
  return [
    { name: "hits", value: hits },
    { name: "any_hit", value: hits > 0 ? 1 : 0, dataType: "BOOLEAN", comment: `${hits} found` },
    { name: "size", value: names.size > 20 ? "large" : "small", dataType: "CATEGORICAL" },
    { name: "always_zero", value: 0 },
  ];
}

const quiet = console.log;
const noise = [];
console.log = console.error = (...words) => noise.push(words.join(" ")); // the SDK reports the failing item
const result = await dataset.runExperiment({
  name: "their experiment",
  runName: RUN,
  description: "by the official SDK",
  metadata: { model: "capital-words", temperature: 0 },
  task,
  maxConcurrency: 5,
  evaluators: [found],
  runEvaluators: [
    async ({ itemResults }) => ({ name: "total_hits", value: itemResults.reduce((n, r) => n + r.evaluations[0].value, 0), comment: "summed" }),
    async ({ itemResults }) => ({ name: "items_done", value: itemResults.length }),
  ],
});
await flush();
console.log = quiet;
equal("runExperiment reports the failing item and nothing else", noise.filter((line) => !/the model is gone/.test(line)), []);
equal("runExperiment: results", result.itemResults.length, dataset.items.length - 1);
equal("runExperiment: one run id", [...new Set(result.itemResults.map((r) => r.datasetRunId))], [result.experimentId]);
equal("runExperiment: its address", result.datasetRunUrl?.endsWith(`/datasets/${dataset.id}/runs/${result.experimentId}`), true);
const project = (await api.projects.get()).data[0];
if (!legacyReads) equal("the id is the computed one", result.experimentId, await computed(project.id, dataset.id, RUN));

const runScores = Object.fromEntries(result.runEvaluations.map((e) => [e.name, e.value]));
const theirs = {
  project: project.id, dataset: dataset.id, datasetName: dataset.name, run: RUN, experiment: result.experimentId, description: "by the official SDK",
  metadata: { model: "capital-words", temperature: 0 }, started, failing, runScores,
  items: Object.fromEntries(result.itemResults.map((r) => [r.item.id, {
    trace: r.traceId, output: r.output, scores: Object.fromEntries(r.evaluations.map((e) => [e.name, e.value])),
  }])),
};
writeFileSync(`${folder}/theirs.json`, JSON.stringify(theirs));

const read = await eventually(() => all((q) => api.scoresV3.getManyV3(q), { experimentId: result.experimentId, fields: "subject,details" }), (s) => s.length >= 2);
equal("v3/scores of the run", Object.fromEntries(read.map((s) => [s.name, s.value])), runScores);
equal("their subject", read.map((s) => s.subject), read.map(() => ({ kind: "experiment", id: result.experimentId })));
const sample = result.itemResults[0];
const itemScores = await all((q) => api.scoresV3.getManyV3(q), { traceId: sample.traceId, fields: "subject" });
equal("v3/scores of an item", Object.fromEntries(itemScores.map((s) => [s.name, s.value])), asRead(sample.evaluations));
if (newReads) await readExperiment();
else await refuses("experiments", () => api.experiments.list({ fromStartTime: started }), 404, /v4 write mode/);
if (legacyReads) await readRun();
else {
  await refuses("the run", () => api.datasets.getRun(dataset.name, "their run"), 404, /events_only mode/);
  await refuses("the run items", () => api.datasetRunItems.list({ datasetId: dataset.id, runName: RUN }), 404, /events_only mode/);
  await refuses("v2/scores", () => api.scores.getMany({ datasetRunId: result.experimentId }), 404, /events_only mode/);
}
finish("experiment");

async function readExperiment() {
  const query = { fromStartTime: started, id: result.experimentId, fields: "core,metadata,scores" };
  const { data } = await eventually(() => api.experiments.list(query), (p) => p.data[0]?.itemCount === dataset.items.length);
  equal("experiments: one", data.length, 1);
  has("experiments: the run", data[0], { id: result.experimentId, name: RUN, description: "by the official SDK", datasetId: dataset.id, itemCount: dataset.items.length });
  equal("experiments: metadata", data[0].metadata, { model: "capital-words", temperature: "0" });
  equal("experiments: scores of the run", Object.fromEntries(data[0].scores.map((s) => [s.name, s.value])), runScores);
  const rows = await all((q) => api.experiments.listItems(q), {
    fromStartTime: started, experimentId: result.experimentId, fields: "core,dataset,io,itemMetadata,experimentMetadata,scores", limit: 7,
  });
  equal("experiment-items, in pages of 7: every item once", rows.map((r) => r.experimentItemId).sort(), dataset.items.map((i) => i.id).sort());
  const of = Object.fromEntries(rows.map((r) => [r.experimentItemId, r]));
  equal("their traces", pick(theirs.items, (id) => of[id].traceId), pick(theirs.items, (id) => theirs.items[id].trace));
  equal("their outputs", pick(theirs.items, (id) => parsed(of[id].output)), pick(theirs.items, (id) => theirs.items[id].output));
  const inputs = Object.fromEntries(dataset.items.map((i) => [i.id, [i.input, i.expectedOutput]]));
  equal("their inputs and expected outputs", pick(theirs.items, (id) => [parsed(of[id].input), parsed(of[id].expectedOutput)]), pick(theirs.items, (id) => inputs[id]));
  equal("their scores", pick(theirs.items, (id) => Object.fromEntries(of[id].scores.map((s) => [s.name, s.value]))),
    Object.fromEntries(result.itemResults.map((r) => [r.item.id, asRead(r.evaluations)])));
  has("the failed item", of[failing], { level: "ERROR", environment: "sdk-experiment", scores: [] });
}

async function readRun() {
  const run = await eventually(() => api.datasets.getRun("extraction-eval", escaped(RUN)), (r) => r.datasetRunItems.length === dataset.items.length);
  has("the run", run, { id: result.experimentId, name: RUN, description: "by the official SDK", datasetName: "extraction-eval", metadata: { model: "capital-words", temperature: 0 } });
  const links = Object.fromEntries(run.datasetRunItems.map((i) => [i.datasetItemId, i.traceId]));
  equal("its items: every one once", [run.datasetRunItems.length, Object.keys(links).sort()], [dataset.items.length, dataset.items.map((i) => i.id).sort()]);
  equal("its traces", pick(theirs.items, (id) => links[id]), pick(theirs.items, (id) => theirs.items[id].trace));
  const page = await api.datasetRunItems.list({ datasetId: dataset.id, runName: RUN, limit: 10, page: 2 });
  equal("dataset-run-items, the second page of 10", [page.data.length, page.meta.totalItems], [10, dataset.items.length]);
  const runs = await api.datasets.getRuns("extraction-eval", { limit: 50 });
  equal("the runs of the dataset", runs.data.filter((r) => r.name === RUN).map((r) => r.id), [result.experimentId]);
  const scored = await api.scores.getMany({ datasetRunId: result.experimentId });
  equal("v2/scores of the run", Object.fromEntries(scored.data.map((s) => [s.name, s.value])), runScores);
  const trace = await eventually(() => api.trace.get(sample.traceId), (t) => t.scores.length === 4);
  equal("the trace of an item: output", trace.output, sample.output);
  equal("the trace of an item: scores", Object.fromEntries(trace.scores.map((s) => [s.name, s.dataType === "CATEGORICAL" ? s.stringValue : s.value])),
    Object.fromEntries(sample.evaluations.map((e) => [e.name, e.value])));
  near("the trace of an item: cost", trace.totalCost, 0.001);
  const root = trace.observations.find((o) => o.parentObservationId === null);
  has("the trace of an item: its root", root, { name: "experiment-item-run", environment: "sdk-experiment" });
  equal("the link names it", run.datasetRunItems.find((i) => i.traceId === sample.traceId).observationId, root.id);
  const failed = await api.trace.get(links[failing]);
  equal("the failed item", failed.observations.find((o) => o.parentObservationId === null).level, "ERROR");
}

// A name stands in a path decoded twice; the SDK escapes it once.
function escaped(name) {
  return encodeURIComponent(name);
}

function asRead(evaluations) {
  return Object.fromEntries(evaluations.map((e) => [e.name, e.dataType === "BOOLEAN" ? e.value === 1 : e.value]));
}

function pick(items, value) {
  return Object.fromEntries(Object.keys(items).sort().map((id) => [id, value(id)]));
}

async function computed(...parts) {
  const text = JSON.stringify(["langfuse-experiment-v1", ...parts]);
  const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Buffer.from(sum).toString("hex").slice(0, 16);
}
