// The columns of the list for a base and a candidate. With several candidates one is chosen; its
// index among the runs is in the address.

const many = true;
const partHeading = "h2"; // the headings of the parts of an item
const base = 0;
const against = () => Number(list.against) > 0 && Number(list.against) < meta.runs.length ? Number(list.against) : 1;
const sides = (row) => [row.runs[base], row.runs[against()]];
const trials = new Map(); // of an item: its rows
for (const row of rows) trials.has(row.id) ? trials.get(row.id).push(row) : trials.set(row.id, [row]);
const smallest = 1e-9; // the smallest difference that counts

// valueIn returns the primary score of an item in a run, the mean of its trials.
function valueIn(row, i) {
  const values = trials.get(row.id).map((r) => primaryOf(r.runs[i])).filter((v) => v !== null && v !== undefined);
  return values.length ? values.reduce((a, b) => a + b) / values.length : null;
}

function differenceOf(row) {
  const b = valueIn(row, base), c = valueIn(row, against());
  return b === null || c === null ? null : Math.abs(c - b) <= smallest ? 0 : c - b;
}

// gainOf returns a positive number if the candidate is better.
function gainOf(row) {
  const d = differenceOf(row);
  return d && meta.lower ? -d : d;
}

const wantedBy = {
  changed: (r) => !!gainOf(r), better: (r) => gainOf(r) > 0, worse: (r) => gainOf(r) < 0,
  same: (r) => gainOf(r) === 0, failed, "failed-candidate": (r) => !!(r.runs[against()] && r.runs[against()].class),
};

const faultsIn = (run) => run && !run.class ? faultsOf(run) : null;

const columns = [
  { key: "id", title: "item", value: (r) => r.id },
  { key: "base", title: "base", number: true, extra: true, value: (r) => valueIn(r, base), show: (v) => ratio(v) },
  { key: "candidate", title: "candidate", number: true, extra: true, value: (r) => valueIn(r, against()), show: (v) => ratio(v) },
  { key: "delta", title: "difference", number: true, signed: true, value: gainOf, show: (v, r) => signed(differenceOf(r)) },
  { key: "faults", title: "faults", number: true, worstHigh: true, extra: true,
    value: (r) => { const [b, c] = sides(r).map(faultsIn); return b === null || c === null ? null : c - b; },
    show: (v, r) => sides(r).map(faultsIn).map((n) => n === null ? "–" : count(n)).join(" → ") },
];
const firstSort = "delta";

const foundNote = () => (meta.primary >= 0 ? " · " + meta.scores[meta.primary] : "") + ", " + meta.runs[against()].name + " against " + meta.runs[base].name;

const routeOf = (row) => "#/item/" + encodeURIComponent(row.id) + "/" + row.trial + (list.against ? "/" + list.against : "");
