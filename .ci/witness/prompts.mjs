// The SDK's own calls for prompts: versions, labels, variables, placeholders,
// composition, and what is refused.
import { equal, finish, has, refuses } from "./check.mjs";
import { langfuse } from "./connect.mjs";

const fresh = { cacheTtlSeconds: 0 };
const TEXT = "witness/extract"; // a folder of prompts

const first = await langfuse.prompt.create({
  name: TEXT,
  prompt: "Extract {{types}} from: {{text}}",
  labels: ["production"],
  tags: ["extraction"],
  config: { model: "m-1", temperature: 0, schema: { type: "object" } },
  commitMessage: "the first",
});
has("prompt.create", first, {
  name: TEXT, version: 1, type: "text", tags: ["extraction"],
  config: { model: "m-1", temperature: 0, schema: { type: "object" } }, commitMessage: "the first",
});
equal("prompt.create: labels", [...first.labels].sort(), ["latest", "production"]);
const second = await langfuse.prompt.create({ name: TEXT, type: "text", prompt: "Find {{types}} in <{{text}}>", labels: ["staging"] });
equal("prompt.create again: the next version", second.version, 2);

const production = await langfuse.prompt.get(TEXT, fresh);
equal("prompt.get without a label: production", production.version, 1);
equal("compile", production.compile({ types: "a & b", text: "{{types}} stay" }), "Extract a & b from: {{types}} stay");
const staging = await langfuse.prompt.get(TEXT, { label: "staging", ...fresh });
has("prompt.get by label", staging, { version: 2, prompt: "Find {{types}} in <{{text}}>" });
equal("prompt.get by version", (await langfuse.prompt.get(TEXT, { version: 1, ...fresh })).prompt, "Extract {{types}} from: {{text}}");
equal("prompt.get of latest", (await langfuse.prompt.get(TEXT, { label: "latest", ...fresh })).version, 2);

await langfuse.prompt.update({ name: TEXT, version: 2, newLabels: ["production", "blue"] });
const moved = await langfuse.prompt.get(TEXT, fresh);
equal("prompt.update: the label moved", [moved.version, [...moved.labels].sort()], [2, ["blue", "latest", "production", "staging"]]);
equal("and left the other version", (await langfuse.prompt.get(TEXT, { version: 1, ...fresh })).labels, []);

const chat = await langfuse.prompt.create({
  name: "witness-chat",
  type: "chat",
  prompt: [
    { role: "system", content: "You know {{language}}." },
    { type: "placeholder", name: "examples" },
    { role: "user", content: "{{text}}" },
  ],
  labels: ["production"],
});
has("prompt.create of a chat", chat, { version: 1, type: "chat" });
const read = await langfuse.prompt.get("witness-chat", { type: "chat", ...fresh });
equal("compile with a placeholder", read.compile({ language: "Go", text: "hello" }, {
  examples: [{ role: "user", content: "q {{text}}" }, { role: "assistant", content: "a" }],
}), [
  { role: "system", content: "You know Go." },
  { role: "user", content: "q hello" },
  { role: "assistant", content: "a" },
  { role: "user", content: "hello" },
]);
const raw = await langfuse.api.prompts.get("witness-chat");
equal("the placeholder as the API has it", raw.prompt[1], { type: "placeholder", name: "examples" });

await langfuse.prompt.create({ name: "witness-rules", prompt: "Be exact.", labels: ["production"] });
const composed = await langfuse.prompt.create({
  name: "witness-composed", labels: ["production"],
  prompt: "Rules: @@@langfusePrompt:name=witness-rules|label=production@@@ Text: {{text}}",
});
equal("composition: version", composed.version, 1);
equal("composition is resolved", (await langfuse.prompt.get("witness-composed", fresh)).compile({ text: "t" }), "Rules: Be exact. Text: t");
equal("composition as it is written", (await langfuse.api.prompts.get("witness-composed", { resolve: false })).prompt,
  "Rules: @@@langfusePrompt:name=witness-rules|label=production@@@ Text: {{text}}");

const list = await langfuse.api.prompts.list({ name: TEXT });
equal("prompts.list by name", list.data.map((p) => [p.name, p.type, [...p.versions].sort(), [...p.labels].sort()]),
  [[TEXT, "text", [1, 2], ["blue", "latest", "production", "staging"]]]);
equal("prompts.list by label", (await langfuse.api.prompts.list({ label: "blue" })).data.map((p) => [p.name, p.versions]), [[TEXT, [2]]]);
has("prompts.list: pages of 10", (await langfuse.api.prompts.list()).meta, { page: 1, limit: 10 });
const pages = [1, 2].map((page) => langfuse.api.prompts.list({ tag: "extraction", limit: 1, page }));
equal("prompts.list by tag, in pages", (await Promise.all(pages)).map((p) => p.data.map((d) => d.name)), [[TEXT], []]);

const used = await langfuse.prompt.create({
  name: "witness model",
  type: "chat",
  prompt: [
    { role: "system", content: "Extract {{allowed_types}} as JSON." },
    { role: "user", content: "DOCUMENT:{{document_text}}" },
  ],
  labels: ["witness"],
  config: { model: "openai/gpt-4o-mini", temperature: 0 },
});
equal("the prompt of our run with a model", [used.version, used.config], [1, { model: "openai/gpt-4o-mini", temperature: 0 }]);

const quiet = console.error;
console.error = () => {}; // the SDK logs what it then throws
await refuses("an unknown label", () => langfuse.prompt.get(TEXT, { label: "nope" }), 404,
  /Prompt not found: 'witness\/extract' with label 'nope'/);
await refuses("an unknown version", () => langfuse.prompt.get(TEXT, { version: 99 }), 404, /with version 99/);
const fallback = await langfuse.prompt.get("nowhere", { fallback: "stand-in {{x}}" });
equal("the fallback of the SDK", [fallback.isFallback, fallback.compile({ x: 1 })], [true, "stand-in 1"]);
console.error = quiet;
await refuses("label and version", () => langfuse.api.prompts.get(TEXT, { label: "blue", version: 1 }), 400, /Cannot specify both version and label/);
await refuses("a change of type", () => langfuse.prompt.create({ name: TEXT, type: "chat", prompt: [{ role: "user", content: "x" }] }), 400, /./);
await refuses("a bad label", () => langfuse.prompt.create({ name: TEXT, prompt: "x", labels: ["Not OK"] }), 400, /./);
await refuses("a part that is missing",
  () => langfuse.prompt.create({ name: "witness-broken", prompt: "@@@langfusePrompt:name=nowhere|label=production@@@" }), 400, /./);

await langfuse.prompt.delete("witness-composed");
console.error = () => {};
await refuses("prompt.delete", () => langfuse.prompt.get("witness-composed", fresh), 404, /Prompt not found/);
console.error = quiet;
finish("prompts");
