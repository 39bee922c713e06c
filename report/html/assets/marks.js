// A document with marks for what was expected and extracted, and the table rows that belong to
// the marks.

const states = { ok: "matched", type: "wrong type", near: "near miss", missed: "missed", spurious: "spurious", unjudged: "not judged" };

// documentCard marks the parts of a document. marksIn returns the marks of a part, as {row,
// state, hint, who}, and counts has the number of each state, for the legend.
function documentCard(doc, titles, counts, marksIn, note) {
  const text = el("div", { class: "document", dir: "auto", tabindex: "0", role: "region", "aria-label": "Document" });
  for (const part of doc.document) text.append(typeof part === "string" ? part : mark(part, marksIn(part)));
  if (!doc.document.length) text.append(el("span", { class: "dim" }, "no text"));
  return el("section", { class: "doc card" }, el(partHeading, null, meta.answers ? "Question and answer" : "Document"), legend(titles, counts), note, text,
    doc.cut ? el("p", { class: "notice warn cut" }, "… " + counted(doc.cut, "more character") + " of the document are left out of this file") : null);
}

const unique = (values) => Array.from(new Set(values));

function mark([text], found) {
  return el("mark", { class: unique(found.map((f) => f.state)).join(" "), title: unique(found.map((f) => f.hint)).join("\n"),
    "data-r": unique(found.map((f) => f.row)).join(" "), "data-who": unique(found.map((f) => f.who).filter(Boolean)).join(" ") || null }, text);
}

// marksOf returns a function that returns the marks of one run in a part of its document.
function marksOf(entities) {
  const sideOf = (side) => new Map(entities.flatMap((t, row) => t[side] ? [[t[side].i, { row, state: t.state, side: t[side] }]] : []));
  const expected = sideOf("expected"), extracted = sideOf("extracted");
  const hits = (indices, from, word) => indices.map((i) => from.get(i)).filter(Boolean)
    .map((f) => ({ row: f.row, state: f.state, hint: word + ": " + nameOf(f.side) + " – " + states[f.state] }));
  return ([, inExpected, inExtracted]) => [...hits(inExpected, expected, "expected"), ...hits(inExtracted, extracted, "extracted")];
}

const nameOf = (side) => side.name + (side.type ? " (" + side.type + ")" : "");

const tallied = (list) => list.reduce((counts, state) => ({ ...counts, [state]: (counts[state] || 0) + 1 }), {});

// legend shows the counts of the states, with boxes that hide the marks of a state.
function legend(titles, counts) {
  return el("div", { class: "legend" }, Object.entries(titles).map(([state, title]) => {
    const box = el("input", { type: "checkbox", checked: true, onchange: () => box.closest(".doc").classList.toggle("no-" + state, !box.checked) });
    return counts[state] ? el("label", null, box, el("mark", { class: state + " swatch" }, title), " " + counts[state]) : null;
  }));
}

const selectable = ".document mark, .things.entities tr[data-r]";

// select highlights the marks and rows that belong together.
function select(section, wanted, from) {
  let first = null;
  for (const e of section.querySelectorAll(selectable)) {
    const hit = wanted.some((r) => e.dataset.r.split(" ").includes(r));
    e.classList.toggle("sel", hit);
    if (hit && !first && e.tagName !== from) first = e;
  }
  if (first) first.scrollIntoView({ block: "nearest" });
}

function selecting(section) {
  section.addEventListener("click", (e) => {
    const from = e.target.closest(selectable);
    if (from) select(section, from.dataset.r.split(" "), from.tagName);
  });
  return section;
}
