// The document of an item with what was expected and extracted marked in it.

const states = { ok: "matched", type: "wrong type", near: "near miss", missed: "missed", spurious: "spurious" };

// statesOf gives every entity of a side its state, by its index.
function statesOf(entities, side) {
  const found = new Map();
  for (const t of entities) if (t[side]) found.set(t[side].i, t);
  return found;
}

function documentCard(pane) {
  const expected = statesOf(pane.entities, "expected"), extracted = statesOf(pane.entities, "extracted");
  const text = el("div", { class: "document", dir: "auto", tabindex: "0", role: "region", "aria-label": "Document" });
  for (const part of pane.document) {
    if (typeof part === "string") text.append(part);
    else text.append(mark(part, expected, extracted));
  }
  if (!pane.document.length) text.append(el("span", { class: "dim" }, "no text"));
  return el("section", { class: "doc card" }, el("h3", null, "Document"), legend(pane), text,
    pane.cut ? el("p", { class: "notice warn cut" }, "… " + counted(pane.cut, "more character") + " of the document are left out of this file") : null);
}

function mark([text, inExpected, inExtracted], expected, extracted) {
  const classes = new Set(), hints = [];
  const note = (things, indices, word) => {
    for (const i of indices) {
      const t = things.get(i);
      if (!t) continue;
      classes.add(t.state);
      const s = word === "expected" ? t.expected : t.extracted;
      hints.push(word + ": " + s.name + (s.type ? " (" + s.type + ")" : "") + " – " + states[t.state]);
    }
  };
  note(expected, inExpected, "expected");
  note(extracted, inExtracted, "extracted");
  return el("mark", { class: Array.from(classes).join(" "), title: hints.join("\n"), "data-e": inExpected.join(" "), "data-x": inExtracted.join(" ") }, text);
}

// legend counts the states; its boxes hide their marks.
function legend(pane) {
  return el("div", { class: "legend" }, Object.entries(states).map(([state, title]) => {
    const n = pane.entities.filter((t) => t.state === state).length;
    const box = el("input", { type: "checkbox", checked: true, onchange: () => box.closest(".doc").classList.toggle("no-" + state, !box.checked) });
    return n ? el("label", null, box, el("mark", { class: state + " swatch" }, title), " " + n) : null;
  }));
}

// select shows which marks and rows belong together.
function select(pane, expected, extracted, from) {
  const listed = (value, i) => i !== null && value.split(" ").includes(String(i));
  let first = null;
  for (const e of pane.querySelectorAll(".sel")) e.classList.remove("sel");
  for (const e of pane.querySelectorAll(".document mark, .things.entities tr[data-e], .things.entities tr[data-x]")) {
    const hit = expected.some((i) => listed(e.dataset.e || "", i)) || extracted.some((i) => listed(e.dataset.x || "", i));
    e.classList.toggle("sel", hit);
    if (hit && !first && (e.tagName === "MARK") !== from) first = e;
  }
  if (first) first.scrollIntoView({ block: "nearest" });
}

const numbers = (value) => (value || "").split(" ").filter(Boolean).map(Number);
