package report

import "extraction-experiment/compare"

// FormatDelta shows a difference of scores with its sign; what is not 0 never
// looks so. Nil is a dash.
func FormatDelta(v *float64) string { return delta(v) }

// FormatDeltas shows both ends of an interval of a difference; nil is a dash.
func FormatDeltas(ci *[2]float64) string { return deltas(ci) }

// FormatP shows a p-value; below 0.001 only that. Nil is a dash.
func FormatP(p *float64) string { return pValue(p) }

// FormatEvidence says what a verdict goes by, interval and p-values; it is empty
// without an interval.
func FormatEvidence(s compare.Score) string { return evidence(s) }

// FormatAlike says of equal scores whether the results are identical, too.
func FormatAlike(r compare.Result) string { return alike(r) }

// FormatVerdict says the verdict of a score in words.
func FormatVerdict(s compare.Score) string { return verdict(s) }

// FormatCounts says which items pooled values and types are over: those that
// failed have no counts.
func FormatCounts(r compare.Result) string { return counts(r) }

// FormatNoIntervals says why pooled values have no intervals.
func FormatNoIntervals() string { return noIntervals() }

// FormatGate says in words what a gate comes to.
func FormatGate(g compare.GateResult) string { return gateWord(g) }

// FormatRank shows the place of a ranked run; a dash for one without a mean.
func FormatRank(r compare.Ranked) string { return rankOf(r) }

// FormatPerItem shows what one item of a ranked run costs; "≥" where that is only
// partly known.
func FormatPerItem(r compare.Ranked) string { return costOf(r) }

// FormatFront says whether a ranked run is on the Pareto front; empty for no.
func FormatFront(r compare.Ranked) string { return frontWord(r) }

// FormatConsumption lists what is known of cost and latency in both runs, one
// line each; it is empty where nothing is.
func FormatConsumption(base Run, r compare.Result) []string {
	var lines []string
	if bought(base.Summary, r.Candidate.Summary) {
		lines = append(lines, amountLine("cost per item", r.Cost, dollars))
	}
	if base.Summary.LatencyMS != nil && r.Candidate.Summary.LatencyMS != nil {
		lines = append(lines, amountLine("latency per item", r.Latency, milliseconds))
	}
	return lines
}
