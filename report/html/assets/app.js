// Views by address: #/ is the overview, #/items?… the list, #/item/ID/TRIAL an item.

let view = "", shown = "";
const pageTitle = document.title;

// visit changes the address of the page and shows it at once, even if the browser refuses
// further addresses.
function visit(route, replace) {
  try {
    if (replace) history.replaceState(null, "", route);
    else location.hash = route;
  } catch { /* shown anyway */ }
  go(route);
}

function go(route) {
  shown = route;
  const [path, query] = route.replace(/^#/, "").split("?");
  const parts = path.split("/");
  const before = view;
  view = parts[1] === "items" || parts[1] === "item" ? parts[1] : "overview";
  for (const name of ["overview", "items", "item"]) byId(name).hidden = name !== view;
  for (const a of document.querySelectorAll(".bar nav a")) {
    if (a.dataset.view === view || view === "item" && a.dataset.view === "items") a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  document.title = pageTitle;
  if (view === "items") {
    readList(new URLSearchParams(query || ""));
    showList();
    if (list.at && before === "item") showAt();
  } else if (view === "item") {
    if (list.against !== (parts[4] || "")) {
      list.against = parts[4] || "";
      find();
    }
    openItem(parts[2] || "", parts[3] || "1");
    scrollTo(0, 0);
  } else if (before) {
    scrollTo(0, 0);
  }
}

async function openItem(id, trial) {
  try { id = decodeURIComponent(id); } catch { /* an address that this page did not make */ }
  const row = rowOf.get(id + "/" + trial), route = shown;
  if (row) {
    const detail = await detailOf(row);
    if (shown === route) showItem(row, detail); // unless another item was opened meanwhile
    return;
  }
  byId("item").replaceChildren(el("p", { class: "notice warn" }, "There is no item ", bdi(id), " in this file. ", el("a", { href: "#/items" }, "List of items")));
}

for (const cause of meta.causes) byId("cause").append(el("option", { value: cause }, cause));
byId("search").addEventListener("input", (e) => change({ q: e.target.value }));
for (const key of ["state", "cause", "against"]) {
  if (byId(key)) byId(key).addEventListener("change", (e) => change({ [key]: e.target.value }));
}
byId("filters").addEventListener("submit", (e) => e.preventDefault());
document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); byId("main").focus(); });
document.addEventListener("keydown", onKey);
addEventListener("hashchange", () => { if (location.hash !== shown) go(location.hash); });
readList(new URLSearchParams());
go(location.hash);
document.documentElement.dataset.ready = "";
