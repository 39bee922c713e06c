// The SDK deletes our run in FOLDER/ours.jsonl from the list of runs: its links
// are gone, its traces stay. `experiment verify` must find it, and --repair make
// it whole under the id that the server then gives it.
import { readFileSync } from "node:fs";
import { equal, finish, has, refuses } from "./check.mjs";
import { folder, langfuse } from "./connect.mjs";

const header = JSON.parse(readFileSync(`${folder}/ours.jsonl`, "utf8").split("\n")[0]);
const names = [header.dataset.name, header.name].map(encodeURIComponent); // decoded twice, escaped once by the SDK
has("datasets.deleteRun", await langfuse.api.datasets.deleteRun(...names), { message: "Dataset run successfully deleted" });
await refuses("the run", () => langfuse.api.datasets.getRun(...names), 404, /not found/i);
const left = await langfuse.api.datasetRunItems.list({ datasetId: header.dataset.id, runName: header.name }).catch(() => ({ data: [] }));
equal("its links", left.data, []);
finish("deleted");
