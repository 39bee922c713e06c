// The data of the page: JSON, most of it compressed.

const meta = JSON.parse(byId("meta0").textContent);

// unpack decompresses a bundle, which is a list of values.
function unpack(bundle) {
  const packed = Uint8Array.from(atob(bundle.textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

if (!self.DecompressionStream) byId("main").prepend(el("p", { class: "notice warn" }, "The items cannot be shown: this browser is older than 2023."));
const rows = (await Promise.all(Array.from(document.querySelectorAll("script.rows"), unpack))).flat();
rows.forEach((row, n) => {
  row.n = n;
  row.trial = row.trial || 1;
  row.key = row.id + "/" + row.trial;
  row.haystack = (row.id + " " + row.text + " " + row.runs.map((r) => r && r.class ? "class:" + r.class + " " + (r.why || "") : "").join(" ")).toLowerCase();
  row.faults = row.runs.reduce((sum, r) => sum + faultsOf(r), 0);
});
const rowOf = new Map(rows.map((row) => [row.key, row]));

function faultsOf(run) {
  return run && run.faults ? Object.values(run.faults).reduce((a, b) => a + b, 0) : 0;
}

// detailOf reads the details of an item and of its neighbours when it is opened.
const bundles = Array.from(document.querySelectorAll("script.details"));
const opened = { bundle: null, details: [] };

async function detailOf(row) {
  const bundle = bundles.findLast((b) => Number(b.dataset.first) <= row.n);
  if (opened.bundle !== bundle) Object.assign(opened, { details: await unpack(bundle), bundle });
  return opened.details[row.n - Number(bundle.dataset.first)];
}

const primaryOf = (run) => run && meta.primary >= 0 ? run.scores[meta.primary] : null;
const failed = (row) => sides(row).some((r) => r && r.class);
const scored = (row) => meta.primary < 0 || sides(row).some((r) => r && primaryOf(r) !== null);
const perfect = (row) => scored(row) && !failed(row) && row.faults === 0 && sides(row).every((r) => r && (primaryOf(r) === null || primaryOf(r) === 1));
