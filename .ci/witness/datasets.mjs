// The SDK's own calls for datasets and their items: created, listed in pages,
// read at a version, archived, deleted, and what is refused.
import { equal, finish, has, matches, refuses } from "./check.mjs";
import { langfuse } from "./connect.mjs";

const { datasets, datasetItems } = langfuse.api;
const NAME = "witness/documents"; // a folder, as datasets have them since 3.122

const created = await datasets.create({
  name: NAME,
  description: "seven of them",
  metadata: { owner: "witness", nested: { list: [1, 0.5, null] } },
  expectedOutputSchema: { type: "object", required: ["total"], properties: { total: { type: "number" } } },
});
has("datasets.create", created, {
  name: NAME,
  description: "seven of them",
  metadata: { owner: "witness", nested: { list: [1, 0.5, null] } },
  expectedOutputSchema: { type: "object", required: ["total"], properties: { total: { type: "number" } } },
  inputSchema: null,
});
matches("datasets.create: createdAt", created.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const again = await datasets.create({ name: NAME, metadata: { owner: "second" } });
has("datasets.create again updates and keeps what is left out", again, {
  id: created.id,
  description: "seven of them",
  metadata: { owner: "second" },
});
has("datasets.get of a name with a slash", await datasets.get(NAME), { id: created.id, name: NAME });
await datasets.create({ name: "witness other" });
const page = await datasets.list({ page: 2, limit: 1 });
has("datasets.list: the second page of one", page.meta, { page: 2, limit: 1 });
equal("datasets.list: newest first", page.data.map((d) => d.name), [NAME]);
await refuses("datasets.get of an unknown name", () => datasets.get("nowhere"), 404, /Dataset not found/);

const items = [1, 2, 3, 4, 5, 6, 7].map((n) => ({
  datasetName: NAME,
  id: `witness-item-${n}`,
  input: { text: `document ${n}`, deep: { list: [n, { zero: 0 }] } },
  expectedOutput: { total: n },
  metadata: { language: n % 2 ? "de" : "en" },
}));
for (const item of items) {
  const { datasetName, ...fields } = item;
  has(`createItem ${item.id}`, await langfuse.dataset.createItem(item), {
    ...fields,
    status: "ACTIVE",
    datasetId: created.id,
    datasetName: NAME,
  });
}
const pages = [];
for (let n = 1; n <= 3; n++) pages.push(await datasetItems.list({ datasetName: NAME, limit: 3, page: n }));
equal("datasetItems.list: newest first, in pages of 3", pages.map((p) => p.data.map((i) => i.id)), [
  ["witness-item-7", "witness-item-6", "witness-item-5"],
  ["witness-item-4", "witness-item-3", "witness-item-2"],
  ["witness-item-1"],
]);
equal("datasetItems.list: meta", pages[2].meta, { page: 3, limit: 3, totalItems: 7, totalPages: 3 });
await refuses("datasetItems.list: more than 100", () => datasetItems.list({ datasetName: NAME, limit: 101 }), 400, /Invalid request data/);
await refuses("datasetItems.list of an unknown dataset", () => datasetItems.list({ datasetName: "nowhere" }), 404, /Dataset not found/);

await new Promise((resolve) => setTimeout(resolve, 20));
const pin = new Date().toISOString();
await new Promise((resolve) => setTimeout(resolve, 20));
const archived = await datasetItems.create({ datasetName: NAME, id: "witness-item-1", status: "ARCHIVED" });
has("archived: content stays", archived, { status: "ARCHIVED", input: items[0].input, expectedOutput: { total: 1 } });
has("datasetItems.delete", await datasetItems.delete("witness-item-2"), { message: "Dataset item successfully deleted" });
has("datasetItems.get of the archived one", await datasetItems.get("witness-item-1"), { status: "ARCHIVED" });
await refuses("datasetItems.get of the deleted one", () => datasetItems.get("witness-item-2"), 404, /not found/i);
await datasetItems.create({ datasetName: NAME, id: "witness-item-3", expectedOutput: { total: 33 } });
has("a merge keeps what is left out", await datasetItems.get("witness-item-3"), {
  input: items[2].input,
  expectedOutput: { total: 33 },
  metadata: { language: "de" },
});

const now = await langfuse.dataset.get(NAME, { fetchItemsPageSize: 2 });
equal("dataset.get: five items left, over three pages", now.items.map((i) => i.id), [
  "witness-item-3", "witness-item-7", "witness-item-6", "witness-item-5", "witness-item-4",
]);
const then = await langfuse.dataset.get(NAME, { version: pin, fetchItemsPageSize: 3 });
equal("dataset.get at a version: all seven as they were", then.items.map((i) => [i.id, i.expectedOutput.total]),
  [7, 6, 5, 4, 3, 2, 1].map((n) => [`witness-item-${n}`, n]));
const before = await datasetItems.list({ datasetName: NAME, version: "2020-01-01T00:00:00Z" });
equal("a version before the data is empty", before.data, []);
await refuses("a version without a dataset", () => datasetItems.list({ version: pin }), 400, /./);

await langfuse.dataset.createItem({ datasetName: "witness other", id: "witness-text", input: "4", expectedOutput: '{"a": 1}' });
has("a text at the top is stored parsed", await datasetItems.get("witness-text"), { input: 4, expectedOutput: { a: 1 } });
await refuses("an item that breaks the schema",
  () => datasetItems.create({ datasetName: NAME, id: "witness-bad", input: { text: "x" }, expectedOutput: { total: "many" } }),
  400, /Dataset item validation failed/);
await refuses("an id of another dataset",
  () => datasetItems.create({ datasetName: "witness other", id: "witness-item-7", input: { text: "x" } }), 409, /./);
await refuses("an item of an unknown dataset", () => datasetItems.create({ datasetName: "nowhere", input: { a: 1 } }), 404, /Dataset nowhere not found/);
finish("datasets");
