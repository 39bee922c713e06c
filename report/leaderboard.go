package report

import (
	"io"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// shownPairs is how many pairs a leaderboard shows; JSON has all.
const shownPairs = 20

// Leaderboard writes runs in order of their metric: what each is, its mean with
// interval, how it compares with the best one, cost and latency, whether it is on
// the Pareto front of quality against cost; then every two runs, the rules of each
// run's gate, and what to read with care. Lines fit Options.Width: what does not is left out, and named.
//
// It writes once; the error is that of the writer.
func Leaderboard(w io.Writer, l compare.Leaderboard, opt Options) error {
	p := newPage(opt)
	p.title("Leaderboard by " + label(l.Metric))
	p.rankGrid(l)
	p.pairGrid(l)
	for _, r := range l.Runs {
		p.gateOf(" of "+label(r.Summary.Run.Name), r.Gate)
	}
	p.incompatible(l.Pairs)
	if len(l.Warnings) > 0 {
		p.title("Read with care")
		for _, warning := range l.Warnings {
			p.wrapped(printable.Line(warning), 2, 0, p.yellow)
		}
	}
	p.where()
	return p.writeTo(w)
}

func (p *page) rankGrid(l compare.Leaderboard) {
	g := &grid{columns: []column{{title: "#", right: true}, {title: "run", flex: true, key: true}, {title: "mean", right: true, paint: p.bold},
		{title: intervals, right: true}, {title: "to the best", right: true}, {title: "p (Holm)", right: true}, {title: "failed", right: true},
		{title: "per item", right: true}, {title: "p95", right: true}, {title: "front", paint: p.cyan}}}
	for i, r := range l.Runs {
		best := l.ToBest(i)
		g.add(rankOf(r), label(r.Summary.Run.Name), score(r.Mean, 3), interval(r.CI95, r.Mean, false), delta(best.Difference), pValue(best.PHolm),
			count(r.Summary.Items.Failed), costOf(r), p95(r.Summary.LatencyMS), frontWord(r))
	}
	p.narrow(g, "p95", "p (Holm)", "to the best", "per item", "front", "failed")
	p.wrapped("front: no other run is at least as good and at most as dear, and better in one of the two", gap, 0, p.faint)
	if names := tied(l); len(names) > 0 {
		p.wrapped("not shown to differ from the best: "+strings.Join(names, ", "), gap, 0, nil)
	}
}

// rankOf is the place of a run: those of the same mean share one, and those
// without a mean have none.
func rankOf(r compare.Ranked) string {
	if r.Rank == 0 {
		return none
	}
	return count(r.Rank)
}

// tied lists the runs that the best one is not shown to differ from.
func tied(l compare.Leaderboard) (names []string) {
	for i, r := range l.Runs {
		if i > 0 && r.Tied {
			names = append(names, label(r.Summary.Run.Name))
		}
	}
	return names
}

func costOf(r compare.Ranked) string {
	switch {
	case r.CostPerItem == nil:
		return none
	case r.CostPartly:
		return "≥" + dollars(*r.CostPerItem)
	}
	return dollars(*r.CostPerItem)
}

func p95(l *outcome.Latencies) string {
	if l == nil {
		return none
	}
	return milliseconds(l.P95)
}

func frontWord(r compare.Ranked) string {
	switch {
	case r.Front == nil:
		return "unknown"
	case *r.Front:
		return "yes"
	}
	return ""
}

func (p *page) pairGrid(l compare.Leaderboard) {
	if len(l.Pairs) == 0 {
		return
	}
	p.title("Every two runs")
	g := &grid{columns: []column{{title: "first", flex: true}, {title: "second", flex: true}, {title: "difference", right: true, paint: p.bold},
		{title: intervals, right: true}, {title: "p", right: true}, {title: "p (Holm)", right: true}, {title: "second is"}}}
	shown := l.Pairs[:min(shownPairs, len(l.Pairs))]
	place := map[string]string{}
	for _, r := range l.Runs {
		place[r.Summary.Run.Name] = rankOf(r) + " "
	}
	for _, pair := range shown {
		says := string(pair.Verdict)
		if len(pair.Incompatible) > 0 {
			says = "incompatible"
		}
		g.add(place[pair.First]+label(pair.First), place[pair.Second]+label(pair.Second), delta(pair.Difference), deltas(pair.CI95), pValue(pair.P), pValue(pair.PHolm), says)
	}
	p.narrow(g, "p", "p (Holm)", "difference")
	if more := len(l.Pairs) - len(shown); more > 0 {
		p.line("  " + p.faint("and "+counted(more, "more pair")+" (--json)"))
	}
}

// incompatible says why runs could not be compared.
func (p *page) incompatible(pairs []compare.Pair) {
	titled := false
	for _, pair := range pairs {
		if len(pair.Incompatible) == 0 {
			continue
		}
		if !titled {
			p.title("Cannot be compared")
			titled = true
		}
		p.wrapped(label(pair.First)+" and "+label(pair.Second), gap, 0, p.red)
		for _, reason := range pair.Reasons() {
			p.wrapped(printable.Line(reason), 2*gap, 0, nil)
		}
	}
}
