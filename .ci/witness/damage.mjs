// Does to our run in FOLDER/ours.jsonl what a person or a program may do to it,
// with the official SDK: one score is deleted, one gets another value. `experiment
// verify` must find both, and mend them. (A second score of the same name is
// somebody else's; verify tells it and leaves it alone, see tracking.)
import { readFileSync } from "node:fs";
import { equal, eventually, finish } from "./check.mjs";
import { flush, folder, langfuse } from "./connect.mjs";

const api = langfuse.api;
const lines = readFileSync(`${folder}/ours.jsonl`, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const environment = lines.find((l) => l.kind === "header").publication.score_environment;
const read = (query) => api.scoresV3.getManyV3({ environment, fields: "subject,details", limit: 100, ...query });
const [deleted, changed] = (await read({ name: "entity_f1" })).data;

await api.legacy.scoreV1.delete(deleted.id);
const subject = (score) => ({ traceId: score.subject.traceId, observationId: score.subject.id, environment, name: score.name });
langfuse.score.create({ ...subject(changed), id: changed.id, value: changed.value + 0.125, comment: "I think it is better" });
await flush();
const left = await eventually(() => read({ name: "entity_f1" }), ({ data }) =>
  !data.some((s) => s.id === deleted.id) && data.some((s) => s.id === changed.id && s.value !== changed.value));
equal("one score is gone", left.data.filter((s) => s.id === deleted.id), []);
equal("one has another value", left.data.find((s) => s.id === changed.id)?.value, changed.value + 0.125);
finish("damage");
