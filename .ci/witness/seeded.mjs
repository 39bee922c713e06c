// What our seed writes from a file is what the SDK reads, and what our seed
// exports is what the SDK made: FOLDER/seed.jsonl and FOLDER/exported.jsonl.
import { readFileSync } from "node:fs";
import { equal, finish, has } from "./check.mjs";
import { folder, langfuse } from "./connect.mjs";

const lines = (name) => readFileSync(`${folder}/${name}`, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const fields = ({ id, input, expectedOutput, metadata = null }) => [id, { input, expectedOutput, metadata }];

const ours = await langfuse.dataset.get("seeded/by us", { fetchItemsPageSize: 2 });
has("the dataset that seed made", ours, { name: "seeded/by us", description: "from a file" });
equal("its items", Object.fromEntries(ours.items.map(fields)), Object.fromEntries(lines("seed.jsonl").map(fields)));
const theirs = await langfuse.dataset.get("witness/documents");
equal("what seed exported of the SDK's dataset", Object.fromEntries(lines("exported.jsonl").map(fields)), Object.fromEntries(theirs.items.map(fields)));
finish("seeded");
