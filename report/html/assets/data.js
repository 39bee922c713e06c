// The blocks of JSON that the page carries.

const read = (element) => JSON.parse(element.textContent);
const meta = read(byId("meta0"));
const rows = Array.from(document.querySelectorAll("script.row"), (element, n) => {
  const row = read(element);
  row.n = n;
  row.trial = row.trial || 1;
  row.key = row.id + "/" + row.trial;
  row.haystack = (row.id + " " + row.text + " " + row.runs.map((r) => r ? (r.class || "") + " " + (r.why || "") : "").join(" ")).toLowerCase();
  row.faults = row.runs.reduce((sum, r) => sum + faultsOf(r), 0);
  return row;
});
const rowOf = new Map(rows.map((row) => [row.key, row]));
const many = meta.runs.length > 1;

function faultsOf(run) {
  return run && run.faults ? Object.values(run.faults).reduce((a, b) => a + b, 0) : 0;
}

// detailOf decodes the rest of an item when it is opened.
const detailOf = (row) => read(byId("detail" + row.n));

const primaryOf = (run) => run && meta.primary >= 0 ? run.scores[meta.primary] : null;
const failed = (row) => row.runs.some((r) => r && r.class);
const perfect = (row) => !failed(row) && row.faults === 0 && row.runs.every((r) => r && (primaryOf(r) === null || primaryOf(r) === 1));

const routeOf = (row) => "#/item/" + encodeURIComponent(row.id) + "/" + row.trial;
