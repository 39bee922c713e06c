// The list of items: filters, sorting, pages. Its state is in the address, so that going back
// restores it.

const pageSize = 100;
const list = { q: "", state: "", cause: "", against: "", sort: "", down: false, page: 0, at: null, found: rows };
const chosen = ["q", "state", "cause", "against"];

function readList(parameters) {
  for (const key of chosen) list[key] = parameters.get(key) || "";
  list.sort = columns.some((c) => c.key === parameters.get("sort")) ? parameters.get("sort") : firstSort;
  list.down = parameters.get("down") === "1";
  list.page = Math.max(0, parseInt(parameters.get("page") || "1", 10) - 1 || 0);
  find();
}

function listRoute() {
  const p = new URLSearchParams();
  for (const key of chosen) if (list[key]) p.set(key, list[key]);
  if (list.sort !== firstSort) p.set("sort", list.sort);
  if (list.down) p.set("down", "1");
  if (list.page) p.set("page", list.page + 1);
  const query = p.toString();
  return "#/items" + (query ? "?" + query : "");
}

// find filters and sorts. Items without a value come last; among equal values failed items come
// first, then the order of the file decides.
function find() {
  const words = list.q.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = Object.hasOwn(wantedBy, list.state) ? wantedBy[list.state] : () => true;
  const column = columns.find((c) => c.key === list.sort) || columns[0];
  const caused = (r) => !list.cause || sides(r).some((x) => x && x.faults && x.faults[list.cause]);
  list.found = rows.filter((r) => wanted(r) && caused(r) && words.every((w) => r.haystack.includes(w)));
  const values = new Map(list.found.map((r) => [r, column.value(r)]));
  const sign = list.down ? -1 : 1;
  list.found.sort((a, b) => {
    const x = values.get(a), y = values.get(b);
    if ((x === null) !== (y === null)) return x === null ? 1 : -1;
    if (x === y) return failed(b) - failed(a) || a.n - b.n;
    return sign * (x < y ? -1 : 1);
  });
  list.page = Math.min(list.page, Math.max(0, Math.ceil(list.found.length / pageSize) - 1));
}

function change(part) {
  Object.assign(list, { page: 0, at: null }, part);
  find();
  visit(listRoute(), true);
}

function sortBy(key) {
  const column = columns.find((c) => c.key === key);
  change(list.sort === key ? { down: !list.down } : { sort: key, down: !!column.worstHigh });
}

function showList() {
  const inRows = byId("list").tBodies[0].contains(document.activeElement);
  const inHead = byId("list").tHead.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  if (byId("search").value !== list.q && document.activeElement !== byId("search")) byId("search").value = list.q;
  for (const key of ["state", "cause", "against"]) if (byId(key)) byId(key).value = list[key];
  byId("list").tHead.replaceChildren(el("tr", null, columns.map((c) => el("th", {
    scope: "col", class: (c.number ? "num " : "") + (c.extra ? "extra" : ""),
    "aria-sort": c.key === list.sort ? (list.down ? "descending" : "ascending") : null,
  }, el("button", { type: "button", "data-key": c.key, onclick: () => sortBy(c.key) }, bdi(c.title))))));
  const from = list.page * pageSize;
  const shown = list.found.slice(from, from + pageSize);
  byId("list").tBodies[0].replaceChildren(...shown.map(listRow));
  const noun = rows.some((r) => r.trial > 1) ? "outcome" : "item";
  byId("found").textContent = list.found.length === rows.length ? counted(rows.length, noun)
    : count(list.found.length) + " of " + counted(rows.length, noun);
  if (noun === "outcome") byId("found").append(" of " + counted(new Set(list.found.map((r) => r.id)).size, "item"));
  byId("found").append(foundNote());
  showPages(from, shown.length);
  if (inRows) showAt();
  if (inHead) for (const b of byId("list").tHead.querySelectorAll("button")) if (b.dataset.key === inHead) b.focus();
}

function listRow(row) {
  const bad = sides(row).find((r) => r && r.class);
  const name = el("a", { href: routeOf(row) }, bdi(row.id), row.trial > 1 ? " #" + row.trial : "");
  const text = bad ? el("span", { class: "text bad" }, (many ? meta.runs[row.runs.indexOf(bad)].name + ": " : "") + bad.class + (bad.why ? ": " + bad.why : "")) : el("span", { class: "text", dir: "auto" }, row.text);
  return el("tr", { class: row.key === list.at ? "at" : "", "data-key": row.key, onclick: (e) => { if (!e.target.closest("a")) visit(routeOf(row)); } },
    columns.map((c) => c.key === "id" ? el("td", { class: "what" }, name, text) : cell(c, c.value(row), row)));
}

function cell(c, v, row) {
  const tone = c.signed && v ? (v > 0 ? " up" : " down") : "";
  const meter = !c.meter || many || v === null ? null : svg("svg", { viewBox: "0 0 52 8", class: "meter", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 52, height: 8, rx: 2 }), svg("rect", { class: "fill", width: 52 * Math.min(1, Math.max(0, v)), height: 8, rx: 2 }));
  return el("td", { class: "num" + tone + (c.meter ? " strong" : "") + (c.extra ? " extra" : "") }, meter, c.show(v, row));
}

function showPages(from, shown) {
  const last = Math.ceil(list.found.length / pageSize) - 1;
  const step = (by, text) => el("button", { type: "button", class: "button", disabled: list.page + by < 0 || list.page + by > last, onclick: () => {
    change({ page: list.page + by });
    scrollTo(0, 0);
  } }, text);
  byId("pages").hidden = last < 1;
  byId("pages").replaceChildren(step(-1, "← Previous"), el("span", { class: "dim" }, count(from + 1) + "–" + count(from + shown) + " of " + count(list.found.length)), step(1, "Next →"));
}

// move goes to another row of the list, across pages.
function move(by) {
  if (!list.found.length) return;
  const now = list.found.findIndex((r) => r.key === list.at);
  const next = Math.min(list.found.length - 1, Math.max(0, now < 0 ? list.page * pageSize : now + by));
  const page = Math.floor(next / pageSize);
  list.at = list.found[next].key;
  if (page !== list.page) {
    list.page = page;
    visit(listRoute(), true);
  }
  showAt();
}

function showAt() {
  for (const tr of byId("list").tBodies[0].rows) {
    const here = tr.dataset.key === list.at;
    tr.classList.toggle("at", here);
    if (here) {
      tr.querySelector("a").focus({ preventScroll: true });
      tr.scrollIntoView({ block: "nearest" });
    }
  }
}
