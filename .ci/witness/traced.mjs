// What our `seed` made of the SDK's own trace: the item has the structure of the
// specification, the corrected output, and leads back to the trace.
import { readFileSync } from "node:fs";
import { equal, finish, has } from "./check.mjs";
import { folder, langfuse } from "./connect.mjs";

const { trace, root, input, right } = JSON.parse(readFileSync(`${folder}/produced.json`, "utf8"));
const dataset = await langfuse.dataset.get("seeded/from traces");
equal("seeded twice, one item", dataset.items.length, 1);
const item = dataset.items[0];
equal("its input", item.input, input);
equal("its expected output: the correction", item.expectedOutput, right);
equal("it leads back to trace and observation", [item.sourceTraceId, item.sourceObservationId], [trace, root]);
has("the evidence", item.metadata, { evidence: { ...item.metadata?.evidence, kind: "correction", id: "c-" + trace } });
finish("traced");
