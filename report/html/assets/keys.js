// The keyboard. The browser handles keys with a modifier and text typed into a field.

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
  const field = e.target.closest("input[type=search], select, textarea");
  if (field) {
    if (e.key === "Escape") { field.blur(); e.preventDefault(); }
    if (e.key === "Enter" && field.id === "search" && list.found.length) { field.blur(); move(0); e.preventDefault(); }
    return;
  }
  const action = (keys[view] || {})[e.key] || keys.any[e.key];
  if (action && action(e) !== false) e.preventDefault();
}

const follow = (step) => {
  const a = byId("item").querySelector('a[data-step="' + step + '"]');
  if (a) visit(a.getAttribute("href"), true);
};
// Arrow keys scroll a focused document or text.
const inScroller = (e) => e.target.closest(".document, pre");

const keys = {
  any: {
    "/": () => { if (view !== "items") visit(listRoute()); byId("search").focus(); byId("search").select(); },
  },
  overview: {
    j: () => { visit(listRoute()); },
  },
  items: {
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    Enter: (e) => {
      if (e.target.closest("a, button")) return false;
      if (list.at && rowOf.has(list.at)) visit(routeOf(rowOf.get(list.at)));
    },
    Escape: () => { visit("#/"); },
  },
  item: {
    j: () => follow("next"), k: () => follow("previous"),
    ArrowRight: (e) => inScroller(e) ? false : follow("next"), ArrowLeft: (e) => inScroller(e) ? false : follow("previous"),
    Escape: () => { visit(listRoute()); },
  },
};
