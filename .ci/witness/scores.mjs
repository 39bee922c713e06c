// The SDK's own calls for tracing and scores: a trace with a generation, scores
// of every type on both, one changed, one deleted, and all read back through
// the reads that the mode has.
import { propagateAttributes, startActiveObservation, startObservation } from "@langfuse/tracing";
import { equal, eventually, finish, has, near, refuses } from "./check.mjs";
import { all, flush, langfuse, legacyReads, newReads, parsed } from "./connect.mjs";

const api = langfuse.api;
const prompt = await langfuse.prompt.create({ name: "witness-traced", prompt: "Say {{x}}", labels: ["production"] });

const ids = await propagateAttributes(
  { traceName: "witness trace", userId: "ann", sessionId: "s-1", tags: ["validated", "paper"], metadata: { team: "blue" }, version: "7" },
  () => startActiveObservation("root", (span) => {
    span.update({ input: { text: "Ünï 🧪" }, output: { total: 4 }, metadata: { pages: 2, nested: { deep: true } } });
    const generation = startObservation("call", {
      model: "witness-model",
      modelParameters: { temperature: 0, max_tokens: 9 },
      input: [{ role: "user", content: "Say it" }],
      output: "four",
      usageDetails: { input: 11, output: 3, total: 14 },
      costDetails: { input: 0.25, output: 0.5, total: 0.75 },
      prompt: { name: prompt.name, version: prompt.version, isFallback: false },
    }, { asType: "generation" });
    generation.end();
    const failed = startObservation("tool", { level: "ERROR", statusMessage: "no such tool" }, { asType: "tool" });
    failed.end();
    return { trace: span.traceId, root: span.id, call: generation.id, tool: failed.id };
  }));

const scores = [
  { id: "w-zero", name: "f1", value: 0, dataType: "NUMERIC", comment: "nothing found" },
  { id: "w-half", name: "precision", value: 0.5, observationId: ids.call },
  { id: "w-yes", name: "valid", value: 1, dataType: "BOOLEAN" },
  { id: "w-no", name: "perfect", value: 0, dataType: "BOOLEAN", observationId: ids.root },
  { id: "w-word", name: "verdict", value: "partly right", dataType: "CATEGORICAL", metadata: { by: "witness" } },
];
for (const score of scores) langfuse.score.create({ traceId: ids.trace, ...score });
langfuse.score.create({ traceId: ids.trace, id: "w-changed", name: "recall", value: 0.1 });
await flush();
await new Promise((resolve) => setTimeout(resolve, 20));
langfuse.score.create({ traceId: ids.trace, id: "w-changed", name: "recall", value: 0.9 });
await flush();

const fields = "details,subject,annotation";
const read = await eventually(() => all((q) => api.scoresV3.getManyV3(q), { traceId: ids.trace, fields, limit: 2 }),
  (rows) => rows.length >= 6 && rows.some((s) => s.value === 0.9));
const byId = Object.fromEntries(read.map((s) => [s.id, s]));
equal("v3/scores of the trace, in pages of 2: each once", read.map((s) => s.id).sort(),
  ["w-changed", "w-half", "w-no", "w-word", "w-yes", "w-zero"]);
const trace = { kind: "trace", id: ids.trace };
has("a NUMERIC 0", byId["w-zero"], { name: "f1", value: 0, dataType: "NUMERIC", comment: "nothing found", source: "API", environment: "default", subject: trace });
has("a number on an observation", byId["w-half"], { value: 0.5, dataType: "NUMERIC", subject: { kind: "observation", id: ids.call, traceId: ids.trace } });
has("a BOOLEAN 1", byId["w-yes"], { value: true, dataType: "BOOLEAN", subject: trace });
has("a BOOLEAN 0 on the root", byId["w-no"], { value: false, dataType: "BOOLEAN" });
has("a CATEGORICAL", byId["w-word"], { value: "partly right", dataType: "CATEGORICAL", metadata: { by: "witness" } });
equal("the later value of one id", byId["w-changed"]?.value, 0.9);
const truths = await api.scoresV3.getManyV3({ dataType: "BOOLEAN", value: "true", name: "valid", fields: "subject" });
equal("v3/scores by value", truths.data.map((s) => [s.id, s.subject]), [["w-yes", trace]]);
await refuses("v3/scores by value without a type", () => api.scoresV3.getManyV3({ value: "true" }), 400, /./);

await api.legacy.scoreV1.delete("w-zero");
const left = await eventually(() => api.scoresV3.getManyV3({ id: "w-zero" }), (page) => page.data.length === 0);
equal("a deleted score is gone", left.data, []);
const single = await api.scores.create({ traceId: ids.trace, name: "single", value: 2 });
const stored = await eventually(() => api.scoresV3.getManyV3({ id: single.id }), (page) => page.data.length > 0);
equal("scores.create without an id makes one", stored.data.map((s) => [s.name, s.value]), [["single", 2]]);
const answer = await api.ingestion.batch({ batch: [
  { id: "e-1", type: "score-create", timestamp: new Date().toISOString(), body: { id: "w-bad", traceId: ids.trace, name: "x", value: 2, dataType: "BOOLEAN" } },
  { id: "e-2", type: "score-create", timestamp: new Date().toISOString(), body: { id: "w-good", traceId: ids.trace, name: "x", value: 1, dataType: "BOOLEAN" } },
] });
equal("a batch is judged event by event", [answer.successes, answer.errors.map((e) => [e.id, e.status])], [[{ id: "e-2", status: 201 }], [["e-1", 400]]]);

if (newReads) await readObservations();
else await refuses("observations v2", () => api.observations.getMany({ traceId: ids.trace }), 404, /./);
if (legacyReads) await readTrace();
else await refuses("the trace", () => api.trace.get(ids.trace), 404, /events_only mode/);
finish("scores");

async function readObservations() {
  const groups = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context";
  const rows = await eventually(() => all((q) => api.observations.getMany(q), { traceId: ids.trace, fields: groups, limit: 2 }), (r) => r.length === 3);
  const of = Object.fromEntries(rows.map((o) => [o.id, o]));
  equal("observations of the trace", Object.keys(of).sort(), [ids.root, ids.call, ids.tool].sort());
  const [root, call] = [of[ids.root], of[ids.call]];
  has("the root", root, { name: "root", type: "SPAN", parentObservationId: null, level: "DEFAULT", userId: "ann", sessionId: "s-1", traceName: "witness trace", version: "7" });
  equal("its input and output, texts of JSON", [typeof root.input, parsed(root.input), parsed(root.output)], ["string", { text: "Ünï 🧪" }, { total: 4 }]);
  equal("its tags", [...root.tags].sort(), ["paper", "validated"]);
  has("the generation", call, { name: "call", type: "GENERATION", parentObservationId: ids.root, promptName: "witness-traced", promptVersion: 1 });
  equal("its model", call.model ?? call.providedModelName, "witness-model");
  has("its usage", call.usageDetails, { input: 11, output: 3, total: 14 });
  near("its cost", Number(call.totalCost ?? call.costDetails?.total), 0.75);
  has("the failed tool", of[ids.tool], { type: "TOOL", level: "ERROR", statusMessage: "no such tool" });
  const roots = await api.observations.getMany({ traceId: ids.trace, isRootObservation: true });
  equal("the root alone", roots.data.map((o) => o.id), [ids.root]);
  const tagged = await api.observations.getMany({
    filter: JSON.stringify([{ type: "arrayOptions", column: "tags", operator: "any of", value: ["validated"] }]), isRootObservation: true,
  });
  equal("found by tag", tagged.data.some((o) => o.traceId === ids.trace), true);
}

async function readTrace() {
  const found = await eventually(() => api.trace.get(ids.trace), (t) => t.observations.length === 3 && t.scores.length >= 7);
  has("the trace", found, {
    id: ids.trace, name: "witness trace", userId: "ann", sessionId: "s-1", version: "7",
    input: { text: "Ünï 🧪" }, output: { total: 4 },
  });
  equal("its tags, parsed", [...found.tags].sort(), ["paper", "validated"]);
  near("its cost", found.totalCost, 0.75);
  const of = Object.fromEntries(found.observations.map((o) => [o.id, o]));
  has("its root", of[ids.root], { name: "root", type: "SPAN", parentObservationId: null });
  has("its generation", of[ids.call], {
    type: "GENERATION", parentObservationId: ids.root, model: "witness-model", promptName: "witness-traced", promptVersion: 1, output: "four",
    input: [{ role: "user", content: "Say it" }], modelParameters: { temperature: 0, max_tokens: 9 },
  });
  has("its failed tool", of[ids.tool], { level: "ERROR", statusMessage: "no such tool" });
  equal("its scores", found.scores.map((s) => [s.id, s.dataType === "CATEGORICAL" ? s.stringValue : s.value]).filter(([id]) => id.startsWith("w-")).sort(), [
    ["w-changed", 0.9], ["w-good", 1], ["w-half", 0.5], ["w-no", 0], ["w-word", "partly right"], ["w-yes", 1],
  ]);
  const listed = await api.trace.list({ tags: "validated", limit: 10 });
  equal("traces by tag", listed.data.some((t) => t.id === ids.trace), true);
  const page = await api.scores.getMany({ traceId: ids.trace, name: "verdict" });
  equal("v2/scores of the trace", page.data.map((s) => [s.id, s.value, s.stringValue]), [["w-word", 0, "partly right"]]);
  const one = await api.legacy.observationsV1.get(ids.call);
  has("the observation by id", one, { id: ids.call, traceId: ids.trace, name: "call" });
}
