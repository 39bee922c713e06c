// A pipeline for --pipeline (docs/pipeline-protocol.md), so that our run has
// what a language model's has: calls with messages, usage and cost. Now and then
// a call fails before it succeeds, and a document with the word in WITNESS_FAILS
// cannot be done.
import { createInterface } from "node:readline";

const word = process.env.WITNESS_FAILS;
let seen = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const { id, document_text, allowed_types } = JSON.parse(line);
  const types = allowed_types.length > 0 ? allowed_types : ["Thing"];
  const names = [...new Set(document_text.match(/\p{Lu}\p{Ll}+/gu) ?? [])];
  const call = {
    name: "ask", kind: "model", model: "witness-model-2026", parameters: { temperature: 0 },
    input: [{ role: "user", content: document_text.slice(0, 60) }], output: `found ${names.length}`,
    usage: { input: document_text.length, output: names.length }, cost_usd: 0.002,
  };
  seen++;
  const answer = word && document_text.includes(word)
    ? { error: { class: "rate_limited", message: "429 from the model" }, calls: [{ ...call, output: "", error: "429" }] }
    : {
        entities: names.map((name) => ({ name, type: types[0] })),
        relationships: [],
        calls: seen % 5 === 0 ? [{ ...call, output: "", error: "overloaded" }, call] : [call],
      };
  console.log(JSON.stringify({ id, ...answer }));
}
