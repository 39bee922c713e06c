// Reads a run of ours with the official SDK and compares it with the file that
// `experiment export` wrote: FOLDER/ours.jsonl. Nothing here knows how we
// publish; what is in the file must be there, once, with its value.
import { readFileSync } from "node:fs";
import { equal, eventually, finish, has, matches, near } from "./check.mjs";
import { all, folder, langfuse, legacyReads, newReads, parsed } from "./connect.mjs";

const api = langfuse.api;
const lines = readFileSync(`${folder}/ours.jsonl`, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const [header] = lines.filter((l) => l.kind === "header");
const [experiment] = lines.filter((l) => l.kind === "experiment");
const items = lines.filter((l) => l.kind === "item").sort(byId);
const outcomes = newest(lines.filter((l) => l.kind === "outcome"));
const attempts = lines.filter((l) => l.kind === "outcome").length;
console.log(`  run ${header.name}: ${items.length} items, ${attempts} attempts`);
equal("an outcome for every item", Object.keys(outcomes).sort(), items.map((i) => i.id));
const failed = items.map((i) => i.id).filter((id) => outcomes[id].failure);
const from = new Date(Date.parse(header.started) - 60_000).toISOString();

const dataset = await langfuse.dataset.get(header.dataset.name, { version: header.dataset.version });
equal("the dataset", dataset.id, header.dataset.id);
const pinned = Object.fromEntries(dataset.items.map((i) => [i.id, [i.input, i.expectedOutput, i.metadata]]));
equal("its items at the version of the run", each((id) => pinned[id]), Object.fromEntries(items.map((i) => [i.id, [i.input, i.expectedOutput, i.metadata]])));
matches("the address of the run", experiment.url, new RegExp(`/project/${header.project}/datasets/${dataset.id}/runs/${experiment.id}$`));

const roots = {}; // of every item: trace, root, scores and more, of the newest attempt
if (legacyReads) await readRun();
if (newReads) await readExperiment();
await readScores();
finish("ours");

async function readExperiment() {
  const { data } = await eventually(() => api.experiments.list({ fromStartTime: from, id: experiment.id, fields: "core,metadata,scores" }), (p) => p.data[0]?.itemCount >= items.length);
  equal("experiments: one", data.length, 1);
  has("experiments: the run", data[0], { id: experiment.id, name: header.name, datasetId: dataset.id, itemCount: attempts });
  has("experiments: metadata", data[0].metadata, { model: header.system.model, dataset_version: header.dataset.version, scorer_version: header.scorer.version });
  const rows = await all((q) => api.experiments.listItems(q), { fromStartTime: from, experimentId: experiment.id, fields: "core,dataset,io,itemMetadata,scores", limit: 20 });
  equal("experiment-items: a root for every attempt", rows.length, attempts);
  const of = {};
  for (const row of rows) if (!(of[row.experimentItemId]?.startTime > row.startTime)) of[row.experimentItemId] = row;
  for (const [id, row] of Object.entries(of)) roots[id] = { trace: row.traceId, root: row.id };
  equal("experiment-items: every item", Object.keys(of).sort(), items.map((i) => i.id));
  equal("their input and expected output", each((id) => [parsed(of[id].input), parsed(of[id].expectedOutput)]),
    Object.fromEntries(items.map((i) => [i.id, [i.input, i.expectedOutput]])));
  equal("their outputs", each((id) => parsed(of[id].output)), each((id) => output(id)));
  equal("those that failed", each((id) => of[id].level === "ERROR"), each((id) => failed.includes(id)));
  equal("their scores", each((id) => Object.fromEntries(of[id].scores.map((s) => [s.name, s.value]))), each((id) => scores(id)));
  equal("their start", each((id) => of[id].startTime), each((id) => outcomes[id].started.slice(0, 23) + "Z"));
  equal("the version of the dataset", [...new Set(rows.map((r) => r.experimentItemVersion))], [header.dataset.version]);
  const seen = {};
  for (const row of await all((q) => api.observations.getMany(q), { fromStartTime: from, limit: 100, fields: "core,basic,io,model,usage,prompt,metrics", environment: header.environment })) {
    seen[row.traceId] = { ...seen[row.traceId], [row.id]: row };
  }
  equal("the calls of every item", each((id) => tally(Object.values(seen[roots[id].trace]).filter((o) => o.id !== roots[id].root))), each((id) => tally(outcomes[id].calls ?? [])));
  const cost = Object.values(roots).flatMap((r) => Object.values(seen[r.trace])).reduce((sum, o) => sum + Number(o.totalCost ?? 0), 0);
  near("the cost of the run", cost, spent());
}

// A server decodes names in a path twice, and the SDK escapes them once.
async function readRun() {
  const run = await eventually(() => api.datasets.getRun(encodeURIComponent(dataset.name), encodeURIComponent(header.name)), (r) => r.datasetRunItems.length === items.length);
  has("the run", run, { id: experiment.id, name: header.name, datasetId: dataset.id });
  has("its metadata", run.metadata, { model: header.system.model, dataset_version: header.dataset.version, scorer_version: header.scorer.version });
  equal("its items: every one once", run.datasetRunItems.map((i) => i.datasetItemId).sort(), items.map((i) => i.id));
  const traces = {};
  await Promise.all(run.datasetRunItems.map(async (link) => {
    roots[link.datasetItemId] = { trace: link.traceId, root: link.observationId };
    traces[link.datasetItemId] = await eventually(() => api.trace.get(link.traceId),
      (t) => t.scores.length >= Object.keys(scores(link.datasetItemId)).length);
  }));
  const rootOf = (id) => traces[id].observations.find((o) => o.parentObservationId === null);
  equal("the root of every trace is the one that is linked", each((id) => rootOf(id).id), each((id) => roots[id].root));
  equal("their inputs", each((id) => traces[id].input), Object.fromEntries(items.map((i) => [i.id, i.input])));
  equal("their outputs", each((id) => traces[id].output), each((id) => output(id)));
  equal("those that failed, by the trace", each((id) => rootOf(id).level === "ERROR"), each((id) => failed.includes(id)));
  equal("their scores, in the trace", each((id) => Object.fromEntries(traces[id].scores.map((s) => [s.name, s.dataType === "BOOLEAN" ? s.value === 1 : s.value]))), each((id) => scores(id)));
  equal("each once", each((id) => traces[id].scores.length), each((id) => Object.keys(scores(id)).length));
  equal("the calls of every trace", each((id) => tally(traces[id].observations.filter((o) => o.parentObservationId !== null))), each((id) => tally(outcomes[id].calls ?? [])));
  near("the cost of the traces", Object.values(traces).reduce((sum, t) => sum + t.totalCost, 0), spent());
}

async function readScores() {
  const expected = each((id) => scores(id));
  const wanted = Object.values(expected).reduce((n, s) => n + Object.keys(s).length, 0);
  const query = { environment: header.publication.score_environment, fields: "subject,details", limit: 100 };
  const ofItems = (rows) => rows.filter((s) => s.subject.kind !== "experiment");
  const rows = await eventually(() => all((q) => api.scoresV3.getManyV3(q), query), (r) => ofItems(r).length === wanted);
  const item = Object.fromEntries(Object.entries(roots).map(([id, r]) => [r.root, id]));
  const came = each(() => ({}));
  for (const row of ofItems(rows)) (came[item[row.subject.id]] ??= {})[row.name] = row.value;
  equal("v3/scores on the roots", came, expected);
  equal("each of them once, and none of a superseded attempt", ofItems(rows).length, wanted);

  const onRun = rows.filter((s) => s.subject.kind === "experiment");
  equal("the scores of the run are its own", [...new Set(onRun.map((s) => s.subject.id))], [experiment.id]);
  const totals = Object.fromEntries(onRun.map((s) => [s.name, s.value]));
  equal("the scores of the run, each once", onRun.length, Object.keys(totals).length);
  has("the counts on the run", totals, { items_planned: items.length, items_failed: failed.length, items_scored: items.length - failed.length });
  const defined = Object.values(outcomes).map((o) => o.scores.find((s) => s.name === "entity_f1")).filter((s) => s.value !== null);
  const failedWithGold = failed.filter((id) => outcomes[id].scores.some((s) => s.name === "entity_f1")).length;
  near("the mean on the run, failed items as 0", totals.entity_f1_as_zero, defined.reduce((sum, s) => sum + s.value, 0) / (defined.length + failedWithGold));
  near("the pooled value on the run", totals.entity_f1_pooled,
    defined.reduce((sum, s) => sum + s.ratio.num, 0) / defined.reduce((sum, s) => sum + s.ratio.den, 0));
}

// newest keeps the last attempt of every item.
function newest(all) {
  const of = {};
  for (const o of all) if (!(of[o.item]?.attempt > o.attempt)) of[o.item] = o;
  return of;
}

// output is what the root of an item shows: the extraction without mentions that were
// only looked up, or why there is none.
function output(id) {
  const { output, failure } = outcomes[id];
  if (failure) return { error: { class: failure.class, message: failure.message } };
  const entities = output.entities?.map(({ mentions, ...entity }) => {
    const given = (mentions ?? []).filter((m) => !m.looked_up);
    return given.length ? { ...entity, mentions: given } : entity;
  });
  return entities ? { ...output, entities } : output;
}

// scores are the defined scores of an item that are published, as v3/scores writes them.
function scores(id) {
  const published = ["entity_precision", "entity_recall", "entity_f1", "relationship_accuracy", "relationship_recall", "relationship_f1", "type_accuracy", "error"];
  const defined = outcomes[id].scores.filter((s) => s.value !== null && published.includes(s.name));
  return Object.fromEntries(defined.map((s) => [s.name.replaceAll(".", "_"), s.boolean ? s.value === 1 : s.value]));
}

// tally lists what an outcome's calls and a trace's observations both know.
function tally(calls) {
  return calls.map((c) => {
    const type = (c.type ?? c.kind).toUpperCase();
    return canonical({
      name: c.name, type, level: c.level ?? (c.error || c.warnings ? "WARNING" : "DEFAULT"),
      input: parsed(c.input) || null, output: parsed(c.output) || null,
      model: type === "GENERATION" ? (c.model ?? c.providedModelName) : null,
      parameters: c.parameters ?? c.modelParameters ?? {},
      prompt: c.kind ? asked(type) : c.promptName ? [c.promptName, c.promptVersion] : null,
      usage: [(c.usage ?? c.usageDetails)?.input ?? 0, (c.usage ?? c.usageDetails)?.output ?? 0],
      cost: Number(c.cost_usd ?? c.totalCost ?? c.calculatedTotalCost ?? 0),
    });
  }).sort();
}

// asked is the prompt that a call of our run must be linked to.
function asked(type) {
  const { prompt } = header.system;
  return prompt && type === "GENERATION" ? [prompt.name, prompt.version] : null;
}

// canonical is JSON with the keys in order.
function canonical(value) {
  return JSON.stringify(value, (_, v) => v && typeof v === "object" && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort()) : v);
}

function spent() {
  return Object.values(outcomes).reduce((sum, o) => sum + (o.cost_usd ?? 0), 0);
}

function each(value) {
  return Object.fromEntries(items.map((i) => [i.id, value(i.id)]));
}

function byId(a, b) {
  return a.id < b.id ? -1 : 1;
}
