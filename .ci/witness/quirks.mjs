// What running Langfuse servers were seen to do and a simpler server would not,
// through the SDK: what is acknowledged and lost, refused in part, merged,
// replaced or kept twice, and where the majors differ.
import { equal, eventually, finish, has, matches, refuses } from "./check.mjs";
import { all, langfuse, legacyReads, newReads } from "./connect.mjs";

const api = langfuse.api;
const now = Date.now();
const time = (ms) => new Date(now + ms).toISOString();
const hex = (n, digits) => n.toString(16).padStart(digits, "0");
const pause = () => new Promise((resolve) => setTimeout(resolve, 500));
const dataset = await api.datasets.create({ name: "witness quirks" });
for (const id of ["q-1", "q-2"]) await api.datasetItems.create({ datasetName: dataset.name, id, input: { text: id } });
await pause();
const pin = new Date().toISOString();
await pause();

// span makes the JSON of OTLP for a root, or for a child of parent.
const span = (trace, id, fields = {}, attributes = {}) => ({
  traceId: hex(trace, 32), spanId: hex(id, 16), name: "span", kind: 1,
  startTimeUnixNano: `${now}000000`, endTimeUnixNano: `${now + 1000}000000`,
  attributes: Object.entries(attributes).map(([key, value]) => ({ key, value: { stringValue: value } })), ...fields,
});
const send = (...spans) => api.opentelemetry.exportTraces({
  resourceSpans: [{ resource: { attributes: [] }, scopeSpans: [{ scope: { name: "witness" }, spans }] }],
});
const spansOf = async (trace) => newReads
  ? (await api.observations.getMany({ traceId: hex(trace, 32), fields: "core,basic,io" })).data
  : (await api.trace.get(hex(trace, 32)).catch(() => ({ observations: [] }))).observations;

await batches();
await spans();
await links();
await attempts();
await limits();
finish("quirks");

async function batches() {
  const event = (id, type, body, at = 0) => ({ id, type, timestamp: time(at), body });
  const subject = { traceId: hex(90, 32), name: "q" };
  const traces = await api.ingestion.batch({ batch: [event("b-1", "trace-create", { id: "old-trace", name: "old", timestamp: time(0) })] });
  if (legacyReads) {
    equal("a trace event is taken", [traces.successes.map((s) => s.id), traces.errors], [["b-1"], []]);
    has("and read", await eventually(() => api.trace.get("old-trace"), () => true), { id: "old-trace", name: "old" });
  } else {
    equal("a trace event is refused in the answer", traces.errors.map((e) => [e.id, e.status]), [["b-1", 400]]);
  }
  const lost = await api.ingestion.batch({ batch: [event("b-2", "score-create", { ...subject, value: 1 })] });
  equal("a score without an id is acknowledged", [lost.successes.map((s) => s.status), lost.errors], [[201], []]);
  await api.ingestion.batch({ batch: [event("b-3", "score-create", { ...subject, id: "q-late", value: 0.1 }, 1000)] });
  await api.ingestion.batch({ batch: [event("b-4", "score-create", { ...subject, id: "q-late", value: 0.2 }, 0)] });
  await pause();
  const rows = await eventually(() => api.scoresV3.getManyV3({ traceId: hex(90, 32) }), (p) => p.data.length > 0);
  equal("it is lost; of one id the latest time wins, not the last sent", rows.data.map((s) => [s.id, s.value]), [["q-late", 0.1]]);
  const refused = await api.ingestion.batch({ batch: [
    event("b-5", "score-create", { ...subject, id: "q-bool", value: 2, dataType: "BOOLEAN" }),
    event("b-6", "score-create", { ...subject, id: "q-text", value: "x", dataType: "NUMERIC" }),
    event("b-7", "score-create", { ...subject, id: "q-both", value: 1, datasetRunId: "r" }),
    event("b-8", "score-create", { ...subject, id: "q-null", value: null }),
    event("b-9", "score-create", { ...subject, id: "q-good", value: 1 }),
  ] });
  equal("bad scores are refused one by one", [refused.successes.map((s) => s.id), refused.errors.map((e) => e.id).sort()], [["b-9"], ["b-5", "b-6", "b-7", "b-8"]]);
}

async function spans() {
  await send(span(1, 1, { name: "first" }));
  await send(span(1, 1, { name: "second" }));
  const same = await eventually(() => spansOf(1), (s) => s.some((o) => o.name === "second"));
  equal("a span sent again: the last write wins", [...new Set(same.filter((o) => o.name === "second").map((o) => o.id))], [hex(1, 16)]);
  const bad = () => send(span(2, 2), { ...span(2, 3), spanId: undefined });
  if (newReads) {
    await refuses("one bad span beside a good one: the request is refused", bad, 400, /./);
  } else {
    await bad(); // and all is lost
  }
  await pause();
  equal("and the good span is not there", await spansOf(2), []);
  await send(span(3, 5, { status: { code: 2, message: "broken" } }, { "langfuse.observation.output": '{"a":1}' }));
  const [failed] = await eventually(() => spansOf(3), (s) => s.length > 0);
  has("a status of OTLP is a level", failed, { level: "ERROR", statusMessage: "broken" });
  equal("output: v4 gives a text of JSON, v3 what it holds", failed.output, newReads ? '{"a":1}' : { a: 1 });
  await refuses("no spans in the right form", () => api.opentelemetry.exportTraces({ resourceSpans: "none" }), 400, /error/);
}

async function links() {
  const link = { runName: "links", datasetItemId: "q-1", traceId: hex(10, 32), observationId: hex(10, 16) };
  const first = await api.datasetRunItems.create({ ...link, metadata: { a: 1 }, runDescription: "first" });
  has("a link needs no trace", first, { datasetRunName: "links", datasetItemId: "q-1", traceId: hex(10, 32), observationId: hex(10, 16) });
  matches("the id of the run", first.datasetRunId, legacyReads ? /^[0-9a-f]{8}-/ : /^[0-9a-f]{16}$/);
  await refuses("a link with an unknown key", () => api.datasetRunItems.create({ ...link, mood: "good" }), 400, /Invalid request data/);
  await refuses("a link to no item", () => api.datasetRunItems.create({ ...link, datasetItemId: "nowhere" }), 404, /Dataset item not found/);
  await api.datasetItems.create({ datasetName: dataset.name, id: "q-2", status: "ARCHIVED" });
  await refuses("a link to an archived item", () => api.datasetRunItems.create({ ...link, datasetItemId: "q-2" }), 404, /Dataset item not found/);
  has("which works at a version when it was not", await api.datasetRunItems.create({ ...link, datasetItemId: "q-2", datasetVersion: pin }), { datasetItemId: "q-2" });
  const again = await api.datasetRunItems.create({ ...link, traceId: hex(11, 32), metadata: { a: 2 }, runDescription: "second" });
  equal("a second link is of the same run", again.datasetRunId, first.datasetRunId);
  if (!legacyReads) return;
  await pause();
  const run = await eventually(() => api.datasets.getRun(dataset.name, "links"), (r) => r.datasetRunItems.length === 2);
  equal("one item of one link, the newest", run.datasetRunItems.filter((i) => i.datasetItemId === "q-1").map((i) => i.traceId), [hex(11, 32)]);
  has("description and metadata are those of the first", run, { description: "first", metadata: { a: 1 } });
  const scalar = await api.datasetRunItems.create({ ...link, runName: "list", metadata: [1, 2] });
  const listed = await eventually(() => api.datasets.getRun(dataset.name, scalar.datasetRunName), () => true);
  equal("metadata that is a list is wrapped", listed.metadata, { metadata: [1, 2] });
  await api.datasets.deleteRun(dataset.name, "list");
  await refuses("a run that was deleted", () => api.datasets.getRun(dataset.name, "list"), 404, /not found/i);
}

// Two attempts at one item: where a run is made of spans both stay, where it is
// made of links the newer one is left.
async function attempts() {
  const id = (await api.datasetRunItems.create({ runName: "twice", datasetItemId: "q-1", traceId: hex(20, 32), observationId: hex(20, 16) })).datasetRunId;
  const root = (n, late) => span(n, n, { startTimeUnixNano: `${now + late}000000`, status: { code: late ? 1 : 2 } }, {
    "langfuse.experiment.id": id, "langfuse.experiment.name": "twice", "langfuse.experiment.dataset.id": dataset.id,
    "langfuse.experiment.item.id": "q-1", "langfuse.experiment.item.root_observation_id": hex(n, 16), "langfuse.environment": "sdk-experiment",
  });
  await send(root(20, 0));
  await api.datasetRunItems.create({ runName: "twice", datasetItemId: "q-1", traceId: hex(21, 32), observationId: hex(21, 16) });
  await send(root(21, 50));
  if (newReads) {
    const query = { fromStartTime: time(-60_000), experimentId: id };
    const rows = await eventually(() => all((q) => api.experiments.listItems(q), query), (r) => r.length === 2);
    equal("experiment-items: both attempts", rows.map((r) => [r.traceId, r.level]), [[hex(21, 32), "DEFAULT"], [hex(20, 32), "ERROR"]]);
    const found = await api.experiments.list({ fromStartTime: time(-60_000), id });
    equal("experiments: counts roots", found.data.map((e) => e.itemCount), [2]);
  }
  if (legacyReads) {
    const run = await eventually(() => api.datasets.getRun(dataset.name, "twice"), (r) => r.datasetRunItems.length > 0);
    equal("run items: the newest link", run.datasetRunItems.map((i) => i.traceId), [hex(21, 32)]);
  }
}

async function limits() {
  const item = (size) => ({ datasetName: dataset.name, id: `q-${size}`, input: { text: "x".repeat(size) } });
  const big = await api.datasetItems.create(item(4_400_000));
  equal("an item of 4.4 MB is stored whole", big.input.text.length, 4_400_000);
  await refuses("one of 5 MB is not, in plain text", () => api.datasetItems.create(item(5_000_000)), 413, /Body exceeded 4\.5mb limit/);
  await refuses("a wrong key", () => api.datasets.get(dataset.name, { headers: { Authorization: `Basic ${btoa("pk:sk")}` } }), 401,
    /Invalid credentials\. Confirm that you've configured the correct host\./);
  if (newReads) {
    await refuses("experiments without a start", () => api.experiments.list({}), 400, /./);
    await refuses("a score filter on observations",
      () => api.observations.getMany({ filter: JSON.stringify([{ type: "numberObject", column: "scores_avg", key: "q", operator: ">=", value: 1 }]) }), 400, /scores_avg/);
  }
}
