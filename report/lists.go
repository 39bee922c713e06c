package report

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"time"

	"extraction-experiment/compare"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// RunRow is a run in the list of "experiment runs".
type RunRow struct {
	Name    string `json:"name"`
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
	Status  string `json:"status"`
	Items   int    `json:"items"`   // planned, not counting trials
	Trials  int    `json:"trials"`  // per item
	Failed  int    `json:"failed"`  // newest attempts that failed, over all trials
	Primary string `json:"primary"` // name of the primary score
	// Mean is the mean of the primary score over the items that did not fail; AsZero counts
	// failed items as 0 and is used to compare runs. Nil if no item has the score.
	Mean   *float64 `json:"mean"`
	AsZero *float64 `json:"mean_failures_as_zero"`
	// Unpublished counts outcomes that are not completely in Langfuse.
	Unpublished int `json:"unpublished"`
	// Weighted is the weighted_score of answers about a document; nil for other runs.
	Weighted *float64  `json:"weighted_score,omitempty"`
	Started  time.Time `json:"started"`
}

// TimesTrials returns the number of items, and of trials if there are several.
func (r RunRow) TimesTrials() string {
	return Count(r.Items) + textIf(r.Trials > 1, " × "+Count(r.Trials))
}

// Runs writes a table of runs in the given order, with times in their own zone. Failed items
// count as 0; if there are any, the mean of the others is shown too. A narrow terminal drops
// start, model, dataset and that mean, in this order, before it cuts names of runs.
func Runs(w io.Writer, runs []RunRow, opt Options) error {
	p := newPage(opt)
	if len(runs) == 0 {
		p.line("no runs")
	}
	p.table(runTable(runs))
	p.where()
	return p.writeTo(w)
}

func runTable(runs []RunRow) Table {
	const mixed = "primary" // the runs have different primary scores
	primary := mixed
	if len(runs) > 0 && !slices.ContainsFunc(runs, func(r RunRow) bool { return r.Primary != runs[0].Primary }) {
		primary = cmp.Or(textutil.Line(runs[0].Primary), mixed)
	}
	only := func(c Column, shown func(RunRow) bool) Column {
		if !slices.ContainsFunc(runs, shown) {
			c.Title = hidden
		}
		return c
	}
	failed := func(r RunRow) bool { return r.Failed > 0 }
	run := name("run").strong()
	run.whole = "names that do not fit are whole in: experiment runs | cat"
	t := Table{Columns: []Column{run,
		{Title: "dataset", flex: true, Wide: 2}, {Title: "model", flex: true, Wide: 3}, {Title: "status", flex: true},
		number("items"), number("failed"), {Title: primary, Right: primary != mixed, flex: true},
		only(number(ofScored).wide(1).hint("the mean of those that did not fail"), failed),
		only(number("weighted"), func(r RunRow) bool { return r.Weighted != nil }),
		only(number("unsent"), func(r RunRow) bool { return r.Unpublished > 0 }), {Title: "started", Wide: 4}}}
	t.note(slices.ContainsFunc(runs, failed), "failed items count as 0")
	for _, r := range runs {
		mean := strings.TrimSpace(Score(r.AsZero, 3) + textIf(primary == mixed, " "+textutil.Line(r.Primary)))
		started := cmp.Or(textIf(!r.Started.IsZero(), r.Started.Format("2006-01-02 15:04")), none)
		t.add(r.Name, textutil.Line(r.Dataset), textutil.Line(r.Model), textutil.Line(r.Status), r.TimesTrials(), Count(r.Failed), mean,
			Score(r.Mean, 3), Score(r.Weighted, 3), Count(r.Unpublished), started)
	}
	return t
}

// RankTable has a row for each run of a leaderboard. Runs with the same mean share a rank; those
// without a mean have none.
func RankTable(l compare.Leaderboard) Table {
	t := Table{Title: "Leaderboard by " + quoted(l.Metric), noun: "run", Columns: []Column{number("#"), name("run"), number("mean").strong(), interval(),
		number("vs. best").wide(5).hint("mean of the paired differences to the first run"),
		number("p (Holm)").wide(6).hint("corrected for the number of pairs"), number("failed").wide(2), number("per item").wide(4),
		number("p95").wide(7), Column{Title: "front", cyan: true, Wide: 3}.hint("no other run is at least as good and at most as expensive, " +
			"and better in one of the two")}}
	var tied []string
	for i, r := range l.Runs {
		best, front := l.ToBest(i), "unknown"
		cost := orNone(r.CostPerItem, func(cost float64) string { return textIf(r.CostPartly, "≥") + Dollars(cost) })
		p95 := orNone(r.Summary.LatencyMS, func(l outcome.Latencies) string { return Milliseconds(l.P95) })
		if r.Front != nil {
			front = textIf(*r.Front, "yes")
		}
		tied = append(tied, nonEmpty(textIf(i > 0 && r.Tied, label(r.Summary.Run.Name)))...)
		t.add(place(r), r.Summary.Run.Name, Score(r.Mean, 3), Interval(r.CI95), Delta(best.Difference), pValue(best.PHolm),
			Count(r.Summary.Items.Failed), cost, p95, front)
	}
	t.names("not shown to differ from the best", tied)
	return t
}

func place(r compare.Ranked) string { return cmp.Or(textIf(r.Rank > 0, Count(r.Rank)), none) }

// PairTable compares every pair of runs of a leaderboard.
func PairTable(l compare.Leaderboard) Table {
	t := Table{Title: "All pairs of runs", noun: "pair", Columns: []Column{
		{Title: "first", Name: true, flex: true}, {Title: "second", Name: true, flex: true},
		{Title: "difference", Right: true, Strong: true, Diff: true, Wide: 2},
		interval(), number("p").wide(4), number("p (Holm)").wide(3).hint("corrected for the number of pairs"),
		{Title: "second is", Pill: true}, {Below: true}}}
	places := map[string]string{}
	for _, r := range l.Runs {
		places[r.Summary.Run.Name] = place(r) + " "
	}
	for _, pair := range l.Pairs {
		says, state := verdictState(pair.Verdict, pair.Verdict, len(pair.Incompatible) > 0)
		reasons := cli.Each(pair.Reasons(), quoted)
		t.add(places[pair.First]+label(pair.First), places[pair.Second]+label(pair.Second), Delta(pair.Difference), Deltas(pair.CI95),
			pValue(pair.P), pValue(pair.PHolm), says, strings.Join(reasons, "\n")).State = state
	}
	return t
}

// verdictState returns the word for a verdict and the state of its row.
func verdictState(verdict, marked compare.Verdict, incompatible bool) (says, state string) {
	if incompatible {
		return "incompatible", string(compare.Worse)
	}
	return string(verdict), string(marked)
}

// Leaderboard writes runs ordered by their metric: the mean with its interval, the comparison
// with the best run, cost and latency, and whether the run is on the Pareto front of quality and
// cost; then every pair of runs, the rules of each gate, and warnings.
func Leaderboard(w io.Writer, l compare.Leaderboard, opt Options) error {
	p := newPage(opt)
	p.table(RankTable(l), PairTable(l).First(20))
	for _, r := range l.Runs {
		p.table(gateTable(" of "+quoted(r.Summary.Run.Name), r.Gate))
	}
	p.warnings(l.Warnings, 0)
	p.where()
	return p.writeTo(w)
}

// MovesText writes the scores and items that moved.
func MovesText(w io.Writer, r compare.MovesResult, opt Options) error {
	p := newPage(opt)
	p.line(p.bold(textutil.Line(r.Name)) + " · " + textutil.Line(r.From.Name) + " scored again, " + textutil.Counted(r.Items, "result"))
	t := Table{Title: "Changed scores", Notes: []string{
		"means of single results that have the score, each trial by itself, failures left out; experiment show has those of the run",
	}, Columns: []Column{{Title: "score"}, number("before"), number("after"), number("difference"),
		number("up"), number("down"), number("n")}}
	for _, s := range r.Scores {
		if s.Up+s.Down+s.Defined+s.Undefined == 0 {
			continue
		}
		t.add(textutil.Line(s.Score), Score(s.Before, 3), Score(s.After, 3), difference(s.Before, s.After),
			Count(s.Up), Count(s.Down), beforeAfter(Count(s.NOld), Count(s.NNew)))
	}
	if len(t.Rows) == 0 {
		p.line("no score changed")
		return p.writeTo(w)
	}
	still := len(r.Scores) - len(t.Rows)
	p.table(t)
	p.notes(textIf(still > 0, textutil.Counted(still, "other score")+" did not change"))
	p.table(movedTable(r))
	return p.writeTo(w)
}

func movedTable(r compare.MovesResult) Table {
	t := Table{Title: "Largest changes, by " + textutil.Line(r.Scorer.Primary), Columns: []Column{name("item"),
		number("before"), number("after"), number("difference")}}
	for _, item := range r.Moved {
		t.add(item.Item, ratio(item.Before), ratio(item.After), difference(&item.Before, &item.After)).Trial = item.Trial
	}
	return t
}
