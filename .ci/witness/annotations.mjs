// The SDK's own calls for what people do to traces: score configs, annotations,
// corrections, queues and comments; and the cost of a generation.
import { startActiveObservation, startObservation } from "@langfuse/tracing";
import { equal, eventually, finish, has, matches, near, refuses } from "./check.mjs";
import { flush, langfuse, legacyReads, newReads } from "./connect.mjs";

const api = langfuse.api;
const project = (await api.projects.get()).data[0];
const health = await api.health.health();
matches("health: the version of the mode", health.version, newReads ? /^4\./ : /^3\./);

const ids = await startActiveObservation("judged", (span) => {
  span.update({ input: { text: "x" }, output: { total: 1 } });
  const call = startObservation("call", { model: "witness-model", usageDetails: { input: 10, output: 5 }, costDetails: { input: 0.1, output: 0.5 } }, { asType: "generation" });
  call.end();
  return { trace: span.traceId, root: span.id, call: call.id };
});
await flush();
near("a cost is the sum of its parts", await costOf(ids), 0.1 + 0.5);

const valid = await api.scoreConfigs.create({ name: "validated", dataType: "BOOLEAN", description: "by a person" });
has("scoreConfigs.create of a BOOLEAN", valid, { name: "validated", dataType: "BOOLEAN", isArchived: false, description: "by a person" });
equal("its categories", valid.categories, [{ label: "True", value: 1 }, { label: "False", value: 0 }]);
const stars = await api.scoreConfigs.create({ name: "stars", dataType: "NUMERIC", minValue: 1, maxValue: 5 });
has("scoreConfigs.getById", await api.scoreConfigs.getById(stars.id), { name: "stars", minValue: 1, maxValue: 5 });
equal("scoreConfigs.get", (await api.scoreConfigs.get({ limit: 100 })).data.map((c) => c.name).sort(), ["stars", "validated"]);
await refuses("a name over 35 characters", () => api.scoreConfigs.create({ name: "x".repeat(36), dataType: "NUMERIC" }), 400, /./);

const about = { traceId: ids.trace, observationId: ids.root };
langfuse.score.create({ ...about, id: "a-valid", name: "validated", value: 1, dataType: "BOOLEAN", configId: valid.id, source: "ANNOTATION" });
langfuse.score.create({ ...about, id: "a-named", name: "another name", value: 4, configId: stars.id });
langfuse.score.create({ ...about, id: "a-range", name: "stars", value: 9, configId: stars.id });
langfuse.score.create({ ...about, id: "a-correct", name: "whatever", value: '{"total": 2}', dataType: "CORRECTION" });
langfuse.score.create({ ...about, id: "a-text", name: "remark", value: "quite good", dataType: "TEXT" });
await flush();
const fields = "details,subject,annotation";
const read = await eventually(() => api.scoresV3.getManyV3({ traceId: ids.trace, fields }), (p) => p.data.length >= 4);
const of = Object.fromEntries(read.data.map((s) => [s.id, s]));
equal("a value out of its config's range is lost without a word", Object.keys(of).sort(), ["a-correct", "a-named", "a-text", "a-valid"]);
const subject = { kind: "observation", id: ids.root, traceId: ids.trace };
has("an annotation by the API has no author", of["a-valid"], { value: true, source: "ANNOTATION", configId: valid.id, authorUserId: null, subject });
has("a config's name wins", of["a-named"], { name: "stars", value: 4 });
has("a correction", of["a-correct"], { name: "output", value: '{"total": 2}', dataType: "CORRECTION", subject });
has("a text", of["a-text"], { value: "quite good", dataType: "TEXT" });
const human = await api.scoresV3.getManyV3({ source: "ANNOTATION", name: "validated", dataType: "BOOLEAN", value: "true", fields });
equal("what was validated", human.data.map((s) => s.id), ["a-valid"]);
await refuses("an annotation without a config", () => api.scores.create({ traceId: ids.trace, name: "free", value: 1, source: "ANNOTATION" }), 400, /./);

const queue = await api.annotationQueues.createQueue({ name: "to judge", scoreConfigIds: [valid.id] });
has("annotationQueues.createQueue", queue, { name: "to judge", scoreConfigIds: [valid.id] });
const entry = await api.annotationQueues.createQueueItem(queue.id, { objectId: ids.trace, objectType: "TRACE" });
has("createQueueItem", entry, { queueId: queue.id, objectId: ids.trace, objectType: "TRACE", status: "PENDING", completedAt: null });
const done = await api.annotationQueues.updateQueueItem(queue.id, entry.id, { status: "COMPLETED" });
matches("updateQueueItem: completedAt", done.completedAt, /^\d{4}-/);
const direct = await api.annotationQueues.createQueueItem(queue.id, { objectId: ids.call, objectType: "OBSERVATION", status: "COMPLETED" });
matches("an item that is completed from the start", direct.completedAt, /^\d{4}-/);
const finished = await api.annotationQueues.listQueueItems(queue.id, { status: "COMPLETED" });
equal("listQueueItems, newest first", finished.data.map((i) => i.id), [direct.id, entry.id]);
equal("listQueues", (await api.annotationQueues.listQueues()).data.map((q) => q.id), [queue.id]);
await refuses("a queue that is not there", () => api.annotationQueues.listQueueItems("nowhere"), 404, /./);

const comment = await eventually(() => api.comments.create({ projectId: project.id, objectType: "TRACE", objectId: ids.trace, content: "seen" }), () => true);
const comments = await api.comments.get({ objectType: "TRACE", objectId: ids.trace });
equal("comments", comments.data.map((c) => [c.id, c.content]), [[comment.id, "seen"]]);
await refuses("a comment on nothing", () => api.comments.create({ projectId: project.id, objectType: "TRACE", objectId: "0".repeat(32), content: "x" }), 404, /./);
await refuses("an unknown key in a comment", () => api.comments.create({ projectId: project.id, objectType: "TRACE", objectId: ids.trace, content: "x", mood: "good" }), 400, /./);
finish("annotations");

async function costOf({ trace, call }) {
  if (legacyReads) {
    const found = await eventually(() => api.trace.get(trace), (t) => t.observations.length === 2);
    return found.totalCost;
  }
  const rows = await eventually(() => api.observations.getMany({ traceId: trace, fields: "core,basic,usage,metrics" }), (p) => p.data.length === 2);
  return Number(rows.data.find((o) => o.id === call).totalCost);
}
