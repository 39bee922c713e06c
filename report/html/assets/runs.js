// The columns of the list and the panes of one run, or of several side by side.

const many = meta.runs.length > 1;
const partHeading = many ? "h3" : "h2"; // the headings of the parts of an item; several runs have one each
const sides = (row) => row.runs;
const wantedBy = { wrong: (r) => failed(r) || scored(r) && !perfect(r), perfect, failed };

const columns = [{ key: "id", title: "item", value: (r) => r.id }];
for (const score of many ? [meta.primary].filter((p) => p >= 0) : meta.shown) {
  meta.runs.forEach((run, i) => {
    columns.push({
      key: "s" + score + (many ? "." + i : ""), title: many ? run.name : meta.scores[score], number: true,
      extra: !many && score !== meta.primary, meter: score === meta.primary,
      value: (r) => r.runs[i] ? r.runs[i].scores[score] : null, show: (v) => ratio(v),
    });
  });
  if (meta.runs.length === 2) {
    columns.push({
      key: "delta", title: "difference", number: true, signed: true,
      value: (r) => r.runs.every((x) => x && x.scores[score] !== null) ? r.runs[1].scores[score] - r.runs[0].scores[score] : null,
      show: signed,
    });
  }
}
columns.push({ key: "faults", title: many ? "faults in all" : "faults", number: true, worstHigh: true, value: (r) => failed(r) && !r.faults ? null : r.faults, show: (v) => v === null ? "–" : count(v) });
if (!many) columns.push({ key: "ms", title: "latency", number: true, worstHigh: true, extra: true, value: (r) => r.runs[0] ? r.runs[0].ms : null, show: milliseconds });
if (!many && rows.some((r) => r.runs[0] && r.runs[0].cost)) {
  columns.push({ key: "cost", title: "cost", number: true, worstHigh: true, extra: true, value: (r) => r.runs[0] ? r.runs[0].cost : null, show: dollars });
}
const firstSort = meta.runs.length === 2 && meta.primary >= 0 ? "delta" : meta.primary >= 0 && !many ? "s" + meta.primary : "id";

const foundNote = () => many && meta.primary >= 0 ? " · " + meta.scores[meta.primary] + " by run" : "";

const routeOf = (row) => "#/item/" + encodeURIComponent(row.id) + "/" + row.trial;

// itemBody shows a pane for each run.
function itemBody(row, detail) {
  const panes = detail.runs;
  return el("div", { class: "panes " + (many ? "many" : "one") }, meta.runs.map((run, i) => paneOf(run, row.runs[i], panes[i])));
}
