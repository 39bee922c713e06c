// The page of one item of a comparison: the document once, and the results of base and candidate
// in one table, with changes first.

const changes = {
  lost: "lost", broken: "type lost", stray: "newly spurious", gained: "gained", mended: "type gained", gone: "spurious no more",
  missed: "missed by both", spurious: "spurious in both", ok: "as before",
  unjudged: "not judged", alone: "not compared",
};
const matched = (t) => t && (t.state === "ok" || t.state === "type");

function itemBody(row, detail) {
  const i = against();
  const panes = [detail.runs[base], detail.runs[i]];
  if (!detail.runs.length) return el("p", { class: "notice warn" }, "There was no room for this item in the file: experiment show RUN ITEM shows it.");
  const entities = joined(panes, "entities"), relationships = joined(panes, "relationships"), terms = joined(panes, "terms");
  const failed = panes.every((p) => !p || p.failure);
  return selecting(el("section", { class: "pane panes one changing" }, verdictOf(row), failuresOf(panes), scoresOf(panes, i),
    panes.some((p) => p && p.shorter) ? el("p", { class: "notice warn cut" }, "Parts of this item are left out to keep the file small.") : null,
    el("div", { class: "split" }, documentCard(detail, changes, tallied(entities.map((t) => t.change)), changesIn(entities, i), whose()),
      el("div", null, meta.answers ? changeTable("Terms", terms, "terms", failed)
        : [changeTable("Entities", entities, "entities", failed), changeTable("Relationships", relationships, "relationships", failed)])),
    el("div", { class: "columns" }, panes.map((pane, k) => el("div", null, el("h2", null, sideName(k, i)), answerOf(pane), pane ? callList(pane, "h3") : el("p", { class: "notice" }, "This run has no such " + (trials.get(row.id).some((r) => sides(r)[k]) ? "trial." : "item.")))))));
}

// answerOf returns the answer of a run to a question.
function answerOf(pane) {
  if (!meta.answers || !pane || !pane.output || pane.output.cut) return null;
  try {
    return el("pre", { dir: "auto", class: "answer" }, String(JSON.parse(pane.output.text).answer));
  } catch {
    return null; // it is shown below as it is
  }
}

const whose = () => meta.answers ? el("p", { class: "dim" }, "The answer is that of the base; both stand below.") : el("p", { class: "lines" }, el("span", { class: "sample of-base" }, "line above"), ": extracted by the base; ",
  el("span", { class: "sample of-candidate" }, "line below"), ": by the candidate");

const sideName = (k, i) => [k ? "Candidate " : "Base ", el("span", { class: "dim" }, bdi(meta.runs[k ? i : base].name))];

function verdictOf(row) {
  const d = differenceOf(row), gain = gainOf(row);
  if (d === null) return null;
  return el("p", { class: "verdictline" }, meta.scores[meta.primary] + (trials.get(row.id).length > 1 ? ", mean of the trials: " : " "), el("b", null, ratio(valueIn(row, base))), " → ", el("b", null, ratio(valueIn(row, against()))), " ",
    el("b", { class: gain > 0 ? "up" : gain < 0 ? "down" : "dim" }, d === 0 ? "no difference" : signed(d)));
}

function failuresOf(panes) {
  return panes.map((p, k) => p && p.failure ? el("p", { class: "notice bad" }, el("strong", null, (k ? "The candidate" : "The base") + " failed: " + p.failure.class), "\n" + p.failure.message) : null);
}

// scoresOf shows the scores of both runs side by side.
function scoresOf(panes, i) {
  const values = panes.map((p) => new Map((p ? p.scores : []).map((s) => [s.name, s.value])));
  const names = unique(values.flatMap((m) => Array.from(m.keys())));
  if (!names.length) return null;
  const row = (name) => {
    const [b, c] = values.map((m) => m.get(name) ?? null);
    return el("tr", { class: name === meta.scores[meta.primary] ? "primary" : "" }, el("th", { scope: "row" }, bdi(name)),
      el("td", { class: "num" }, ratio(b)), el("td", { class: "num" }, ratio(c)), el("td", { class: "num strong" }, b === null || c === null ? "–" : signed(c - b)));
  };
  return el("details", null, el("summary", null, el("strong", null, "Scores")), el("div", { class: "inner scroll" }, el("table", { class: "scores" },
    el("thead", null, el("tr", null, ["score", "base", "candidate", "difference"].map((t, k) => el("th", { scope: "col", class: k ? "num" : null }, t)))),
    el("tbody", null, names.map(row)))));
}

// joined returns the things of both runs as one list: first the expected ones, by index, then
// the others, which are joined if name and type are the same.
function joined(panes, kind) {
  const rows = [], expected = new Map(), stray = new Map();
  panes.forEach((pane, k) => {
    for (const t of pane && pane[kind] || []) {
      const found = t.expected ? expected : stray;
      const s = t.expected || t.extracted;
      const key = t.expected ? s.i : [s.name, s.type, s.target].join("\n").toLowerCase();
      let row = found.get(key);
      if (!row || !t.expected && row.sides[k]) rows.push(row = { expected: t.expected || null, sides: [null, null] });
      found.set(key, row);
      if (t.state === "unjudged") row.unjudged = true;
      if (t.state !== "unjudged" || !t.expected) row.sides[k] = t;
    }
  });
  // A run that does not know what it matched, as one that is only in Langfuse, has no rows about what was expected.
  const unknown = rows.some((row) => row.expected) && panes.some((p) => p && !p.failure && !(p[kind] || []).length);
  for (const row of rows) row.change = panes.some((p) => !p) ? "alone" : unknown ? "unjudged" : changeOf(row);
  const order = Object.keys(changes);
  return rows.sort((a, b) => order.indexOf(a.change) - order.indexOf(b.change));
}

function changeOf({ expected, sides: [b, c], unjudged }) {
  if (unjudged && (!expected || !b && !c)) return "unjudged";
  if (!expected && !matched(b) && !matched(c)) return b && c ? "spurious" : b ? "gone" : "stray"; // a record of the bench may quote something that is not expected
  if (!matched(b) && !matched(c)) return "missed";
  if (!matched(b) || !matched(c)) return matched(c) ? "gained" : "lost";
  return b.state === c.state ? "ok" : c.state === "ok" ? "mended" : "broken";
}

// changesIn returns a function that returns the marks of the rows in a part of the document. The
// second entry of a part is about what was expected, the others are about the runs in order.
function changesIn(rows, i) {
  const places = [new Map(), new Map(), new Map()];
  rows.forEach((t, row) => [t.expected, ...t.sides.map((s) => s && s.extracted)].forEach((s, k) => {
    if (s) places[k].set(s.i, { row, state: t.change, name: nameOf(s) });
  }));
  const who = ["", "base", "candidate"], words = ["expected", "base", "candidate"];
  return (part) => [part[1], part[2 + base], part[2 + i]].flatMap((indices, k) => (indices || []).map((n) => places[k].get(n)).filter(Boolean)
    .map((f) => ({ row: f.row, state: f.state, who: who[k], hint: words[k] + ": " + f.name + " – " + changes[f.state] })));
}

function changeTable(title, rows, kind, failed) {
  if (!rows.length) return el("div", null, el(partHeading, null, title), noThings(failed));
  return el("div", null, el(partHeading, null, title + " ", el("span", { class: "count" }, String(rows.length))),
    el("div", { class: "card scroll" }, el("table", { class: "things changes " + kind },
      el("thead", null, el("tr", null, ["expected", "base", "candidate", "change"].map((t) => el("th", { scope: "col" }, t)))),
      el("tbody", null, rows.map((t, n) => el("tr", { "data-r": String(n), class: t.change },
        el("td", { "data-title": "expected" }, t.expected ? sideOf(t.expected) : el("span", { class: "dim" }, "–")),
        t.sides.map((s, k) => el("td", { "data-title": k ? "candidate" : "base" }, foundBy(s))),
        el("td", { class: "kind" }, el("span", { class: "pill " + t.change }, changes[t.change]))))))));
}

// foundBy shows what a run extracted, and how it was judged.
function foundBy(t) {
  if (!t) return el("span", { class: "dim" }, "–");
  if (!t.extracted) return [el("span", { class: "dim" }, "nothing"), t.nearest ? el("span", { class: "note" }, "nearest: ", bdi(t.nearest)) : null];
  const judged = t.state === "ok" ? t.kind + (t.similarity && t.similarity < 1 ? " " + ratio(t.similarity, 2) : "") : t.state === "spurious" || t.state === "unjudged" ? null : t.state === "type" ? "wrong type" : t.kind;
  return [sideOf(t.extracted), judged ? el("span", { class: "note" }, judged) : null];
}
