// The page of one item: its head, and the parts of a pane.

function showItem(row, detail) {
  const at = list.found.indexOf(row);
  const order = at < 0 ? rows : list.found;
  const place = at < 0 ? row.n : at;
  const step = (to, text, label) => order[to] ? el("a", { class: "button", href: routeOf(order[to]), "data-step": label, "aria-label": label }, text)
    : el("span", { class: "button", "aria-disabled": "true" }, text);
  list.at = row.key;
  byId("item").replaceChildren(
    el("div", { class: "itemhead" },
      el("h1", null, bdi(row.id), row.trial > 1 ? " #" + row.trial : ""),
      el("div", { class: "steps" }, el("a", { class: "button", href: listRoute(), "data-step": "list" }, "List"),
        step(place - 1, "← Previous", "previous"), el("span", { class: "dim place" }, count(place + 1) + " of " + count(order.length)), step(place + 1, "Next →", "next"))),
    itemBody(row, detail));
  document.title = row.id + " · " + meta.runs.map((r) => r.name).join(" · ");
}

function paneOf(run, part, pane) {
  const head = many ? el("h2", null, bdi(run.name)) : null;
  if (!part) return el("section", { class: "pane" }, head, el("p", { class: "notice" }, "This run has no such item."));
  if (!pane) return el("section", { class: "pane" }, head, el("p", { class: "notice warn" }, "There was no room for this item in the file: experiment show " + run.name + " ITEM shows it."));
  return selecting(el("section", { class: "pane" }, head,
    pane.failure ? el("p", { class: "notice bad" }, el("strong", null, pane.failure.class), "\n" + pane.failure.message) : null,
    scoreChips(pane),
    pane.warnings.map((w) => el("p", { class: "notice warn" }, w)),
    pane.shorter ? el("p", { class: "notice warn cut" }, "Parts of this item are left out to keep the file small.") : null,
    el("div", { class: "split" }, documentCard(pane, states, tallied(pane.entities.map((t) => t.state)), marksOf(pane.entities)),
      el("div", null, meta.answers ? thingTable("Terms", pane.terms || [], "terms", pane.failure)
        : [thingTable("Entities", pane.entities, "entities", pane.failure), thingTable("Relationships", pane.relationships, "relationships", pane.failure)])),
    callList(pane, partHeading)));
}

function scoreChips(pane) {
  return el("ul", { class: "chips", "aria-label": "Scores" }, pane.scores.map((s, i) => el("li", {
    title: s.note || null, class: meta.scores[meta.primary] === s.name ? "primary" : "",
  }, s.name, el("b", null, ratio(s.value)))));
}

const noThings = (failed) => el("p", { class: "dim" }, failed ? meta.answers ? "not judged: it failed" : "none expected" : meta.answers ? "none asked for, none forbidden" : "none expected, none extracted");

function thingTable(title, things, kind, failed) {
  if (!things.length) return el("div", null, el(partHeading, null, title), noThings(failed));
  const order = ["near", "type", "missed", "spurious", "ok", "unjudged"];
  const sorted = things.map((t, row) => ({ ...t, row })).sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
  return el("div", null, el(partHeading, null, title + " ", el("span", { class: "count" }, String(things.length))),
    el("div", { class: "card scroll" }, el("table", { class: "things " + kind },
      el("thead", null, el("tr", null, el("th", { scope: "col", class: "half" }, "expected"), el("th", { scope: "col", class: "half" }, meta.answers ? "in the answer" : "extracted"), el("th", { scope: "col" }, "result"), el("th", { scope: "col", class: "num sim" }, "sim."))),
      el("tbody", null, sorted.map(thingRow)))));
}

function thingRow(t) {
  const near = t.expected && t.extracted || !t.nearest ? null : el("span", { class: "note" }, "nearest: ", bdi(t.nearest));
  const why = t.why && t.why !== t.kind ? el("span", { class: "note" }, t.why) : null;
  return el("tr", { "data-r": String(t.row), class: t.state },
    el("td", null, t.expected ? sideOf(t.expected) : near), el("td", null, t.extracted ? sideOf(t.extracted) : near),
    el("td", { class: "kind" }, el("span", { class: "pill " + t.state }, t.kind), why),
    el("td", { class: "num sim" }, t.similarity ? ratio(t.similarity, 2) : ""));
}

function sideOf(s) {
  if (s.plain) return bdi(s.name);
  if (s.target !== undefined) return el("span", null, bdi(s.name), el("span", { class: "arrow" }, " – "), el("i", null, bdi(s.type || "(no type)")), el("span", { class: "arrow" }, " → "), bdi(s.target));
  return el("span", null, el("button", { type: "button", class: "name" }, bdi(s.name || "(no name)")), " ", s.type ? el("span", { class: "tag type" }, s.type) : null);
}

// callList shows the calls and the output below a heading of this level.
function callList(pane, heading) {
  const parts = (pane.calls || []).map((c) => {
    const facts = [c.model, c.ms ? milliseconds(c.ms) : "", c.input || c.output ? count(c.input || 0) + " tokens in, " + count(c.output || 0) + " out" : "",
      c.cost ? dollars(c.cost) : "", c.attempts > 1 ? c.attempts + " attempts" : "", c.finish ? "finish: " + c.finish : ""].filter(Boolean);
    return el("details", { class: "call" }, el("summary", null, el("strong", null, c.name || c.kind), " ", el("span", { class: "dim" }, facts.join(" · "))),
      el("div", { class: "inner" },
        c.error ? el("p", { class: "notice bad" }, c.error) : null,
        c.parameters && c.parameters !== "{}" ? el("p", { class: "dim" }, el("code", null, c.parameters)) : null,
        c.messages.map((m) => el("div", { class: "message" }, el("div", { class: "role" }, m.role || "input"), quoted(m))),
        c.answer ? el("div", { class: "message" }, el("div", { class: "role" }, "answer"), quoted(c.answer)) : null));
  });
  const output = pane.output ? el("details", { class: "output" }, el("summary", null, el("strong", null, meta.answers ? "Answer" : "Extraction"), " ", el("span", { class: "dim" }, "as JSON")), el("div", { class: "inner" }, quoted(pane.output))) : null;
  const trace = pane.trace ? el("p", null, el("a", { href: pane.trace }, "Trace of this item")) : null;
  return parts.length || output || trace ? el("div", null, el(heading, null, "Prompt and answer"), parts, output, trace) : null;
}

function quoted(q) {
  return [el("pre", { dir: "auto", tabindex: "0" }, q.text), q.cut ? el("p", { class: "notice warn cut" }, "… " + counted(q.cut, "more character")) : null];
}
