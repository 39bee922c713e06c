// The assertions of the witnesses. Each prints one line with what was expected
// and what came; finish() ends the script with 1 if any did not hold, or if
// none was made.
import { isDeepStrictEqual } from "node:util";

let held = 0;
let broken = 0;

function short(value) {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 70 ? text.slice(0, 67) + "..." : text;
}

function report(holds, what, expected, came) {
  if (holds) {
    held++;
    console.log(`  ok    ${what}: expected ${short(expected)}, came ${short(came)}`);
    return;
  }
  broken++;
  console.log(`  WRONG ${what}`);
  console.log(`        expected ${typeof expected === "string" ? expected : JSON.stringify(expected)}`);
  console.log(`        came     ${typeof came === "string" ? came : JSON.stringify(came)}`);
}

/** equal compares whole JSON values; the order of keys does not matter. */
export function equal(what, came, expected) {
  report(isDeepStrictEqual(plain(came), plain(expected)), what, expected, came);
}

/** near compares numbers that went through a sum. */
export function near(what, came, expected) {
  report(typeof came === "number" && Math.abs(came - expected) < 1e-9, what, expected, came);
}

/** has compares the named fields of an object and ignores all others. */
export function has(what, came, fields) {
  const picked = Object.fromEntries(Object.keys(fields).map((key) => [key, came?.[key]]));
  equal(what, picked, fields);
}

/** matches wants a text that the pattern finds. */
export function matches(what, came, pattern) {
  report(typeof came === "string" && pattern.test(came), what, String(pattern), came);
}

/** refuses wants the call to end in an answer with the status, whose message
 * the pattern finds. */
export async function refuses(what, call, status, pattern) {
  const expected = `${status} ${pattern}`;
  try {
    report(false, what, expected, { success: await call() });
  } catch (error) {
    const body = typeof error.body === "string" ? error.body : JSON.stringify(error.body ?? error.message);
    report(error.statusCode === status && pattern.test(body), what, expected, `${error.statusCode} ${body}`);
  }
}

/** eventually asks until the answer satisfies done, for ten seconds, and
 * returns the last answer: a server that queues needs patience. */
export async function eventually(ask, done) {
  for (let left = 40; ; left--) {
    try {
      const answer = await ask();
      if (done(answer) || left === 0) return answer;
    } catch (error) {
      if (left === 0 || error.statusCode !== 404) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

/** finish prints the count and ends the process. */
export function finish(script) {
  console.log(`${script}: ${held} assertions hold, ${broken} do not`);
  process.exit(broken > 0 || held === 0 ? 1 : 0);
}

// plain is the value as JSON has it: no undefined, no prototypes.
function plain(value) {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
