// Opens the official SDK on the server that the LANGFUSE_* variables name, as
// its documentation says: a client for the API and a span processor for
// OpenTelemetry.
import { LangfuseClient } from "@langfuse/client";
import { LangfuseSpanProcessor } from "@langfuse/otel";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

/** The deployment that the server plays: v4, v4-dual or v3. */
export const mode = process.argv[2];
if (!["v4", "v4-dual", "v3"].includes(mode)) throw new Error(`usage: node ${process.argv[1]} v4|v4-dual|v3 FOLDER`);

for (const name of ["LANGFUSE_BASE_URL", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"]) {
  if (!process.env[name]) throw new Error(name + " is not set"); // else the SDK would speak to Langfuse Cloud
}

/** The folder for what one script tells the next program. */
export const folder = process.argv[3];

/** Whether experiments and observations can be read, and whether traces, runs
 * and run items can. */
export const newReads = mode !== "v3";
export const legacyReads = mode !== "v4";

export const langfuse = new LangfuseClient({ timeout: 60 });

const provider = new NodeTracerProvider({ spanProcessors: [new LangfuseSpanProcessor({ timeout: 60 })] });
provider.register();

/** flush sends all scores and spans. */
export async function flush() {
  await langfuse.flush();
  await provider.forceFlush();
}

/** all reads every page of a listing by cursor. */
export async function all(list, query) {
  const rows = [];
  for (let cursor; ; ) {
    const page = await list({ ...query, cursor });
    rows.push(...page.data);
    cursor = page.meta.cursor;
    if (!cursor) return rows;
  }
}

/** parsed returns what an input or output holds: v4 gives a text of JSON. */
export function parsed(value) {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
