// The page of an audit: a person decides about each finding.

const meta = JSON.parse(document.querySelector("script.meta").textContent);
const cards = Array.from(document.querySelectorAll(".finding"));
const about = new Map(meta.findings.map((f) => [f.finding, f]));
// The browser stores the decisions about a dataset by finding and gold, so that a page of a later
// audit has those about the same gold.
const store = "audit:" + meta.dataset;
const stored = remembered();
const decided = new Map(meta.findings.map((f) => [f.finding, stored[f.finding + f.gold]]).filter(([, verdict]) => verdict));
let at = -1;

// Some browsers store nothing for files; then only the open page has the decisions.
function remembered() {
  try { return JSON.parse(localStorage.getItem(store)) || {}; } catch { return {}; }
}
function remember(key, verdict) {
  const all = remembered(); // another page may have stored something since
  all[key + about.get(key).gold] = verdict || undefined;
  try { localStorage.setItem(store, JSON.stringify(all)); } catch { /* as above */ }
}

function show() {
  for (const card of cards) {
    const verdict = decided.get(card.dataset.finding);
    if (verdict) card.dataset.verdict = verdict; else delete card.dataset.verdict;
    for (const button of card.querySelectorAll("[data-verdict]")) button.setAttribute("aria-pressed", String(button.dataset.verdict === verdict));
  }
  const accepted = Array.from(decided.values()).filter((v) => v === "accepted").length;
  document.getElementById("decided").textContent = decided.size ? accepted + " accepted, " + (decided.size - accepted) + " rejected, " + (cards.length - decided.size) + " left" : "nothing decided";
  document.getElementById("save").disabled = !decided.size;
}

function decide(card, verdict) {
  const key = card.dataset.finding;
  if (verdict) decided.set(key, verdict); else decided.delete(key);
  remember(key, verdict);
  show();
}

function go(to, focus = true) {
  if (!cards.length) return;
  if (cards[at]) cards[at].classList.remove("at");
  at = Math.max(0, Math.min(cards.length - 1, to));
  cards[at].classList.add("at");
  if (!focus) return;
  cards[at].focus({ preventScroll: true });
  cards[at].scrollIntoView({ block: "start" });
}

function save() {
  if (!decided.size) return;
  const decisions = Array.from(decided, ([key, verdict]) => ({ ...about.get(key), verdict }));
  const url = URL.createObjectURL(new Blob([JSON.stringify({ dataset: meta.dataset, decisions }, null, 2) + "\n"], { type: "application/json" }));
  const a = document.createElement("a");
  a.href = url;
  a.download = "decisions.json";
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const verdictOf = { a: "accepted", r: "rejected", u: "" };

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "j") go(at + 1);
  else if (e.key === "k") go(at - 1);
  else if (e.key === "s") save();
  else if (e.key in verdictOf && cards[at]) {
    decide(cards[at], verdictOf[e.key]);
    if (verdictOf[e.key] && at < cards.length - 1) go(at + 1);
  } else return;
  e.preventDefault();
});
document.addEventListener("click", (e) => {
  const card = e.target.closest(".finding");
  if (!card) return;
  const button = e.target.closest("button[data-verdict]");
  if (cards.indexOf(card) !== at) go(cards.indexOf(card), !button);
  if (button) decide(card, decided.get(card.dataset.finding) === button.dataset.verdict ? "" : button.dataset.verdict);
});
document.addEventListener("focusin", (e) => {
  const to = cards.indexOf(e.target.closest(".finding"));
  if (to >= 0 && to !== at) go(to, false);
});
document.getElementById("save").addEventListener("click", save);
show();
