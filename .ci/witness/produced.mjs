// A production trace made by the SDK, corrected through its API. Its ids go to
// FOLDER/produced.json, for our `seed` to make a dataset item of.
import { writeFileSync } from "node:fs";
import { propagateAttributes, startActiveObservation, startObservation } from "@langfuse/tracing";
import { equal, eventually, finish } from "./check.mjs";
import { flush, folder, langfuse } from "./connect.mjs";

const input = {
  document_text: "Ada Lovelace wrote to Charles Babbage from London.",
  object_schemas: { Person: { name: "Person", description: "a person" } },
  relationship_schemas: { wrote_to: { name: "wrote_to", description: "wrote", source_types: ["Person"], target_types: ["Person"] } },
};
const wrong = { entities: [{ name: "Ada", type: "Person" }], relationships: [] };
const right = {
  entities: [{ name: "Ada Lovelace", type: "Person" }, { name: "Charles Babbage", type: "Person" }],
  relationships: [{ source_name: "Ada Lovelace", target_name: "Charles Babbage", relationship_type: "wrote_to" }],
};
const ids = await propagateAttributes({ traceName: "production", tags: ["letters"] }, () => startActiveObservation("extract", (span) => {
  span.update({ input, output: wrong });
  startObservation("llm", { model: "witness-model", input: "Extract", output: JSON.stringify(wrong) }, { asType: "generation" }).end();
  return { trace: span.traceId, root: span.id };
}));
langfuse.score.create({ traceId: ids.trace, observationId: ids.root, id: "c-" + ids.trace, name: "output", value: JSON.stringify(right), dataType: "CORRECTION" });
await flush();
const read = await eventually(() => langfuse.api.scoresV3.getManyV3({ traceId: ids.trace }), (page) => page.data.length > 0);
equal("the correction is there", read.data.map((s) => s.dataType), ["CORRECTION"]);
writeFileSync(`${folder}/produced.json`, JSON.stringify({ ...ids, input, right }));
finish("produced");
