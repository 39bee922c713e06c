package report

import (
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/internal/printable"
	"extraction-experiment/internal/stats"
)

// differences draws the table of scores.
func (p *page) differences(r compare.Result) {
	p.title("Scores")
	g := &grid{columns: []column{
		{title: "score", flex: true, key: true}, {title: "base", right: true}, {title: "cand.", right: true}, {title: "diff.", right: true, paint: p.bold},
		{title: intervals, right: true}, {title: "p", right: true}, {title: "p (Holm)", right: true}, {title: "+/-/=", right: true},
		{title: "n", right: true}, {title: "found", right: true}, {title: "needs", right: true},
	}}
	for _, s := range r.Scores {
		g.add(printable.Line(s.Name), score(s.Base, 3), score(s.Candidate, 3), delta(s.Difference), deltas(s.CI95), pValue(s.P), pValue(s.PHolm),
			count(s.Wins)+"/"+count(s.Losses)+"/"+count(s.Ties), count(s.N), score(s.Detectable, 3), optional(s.Needed))
	}
	dropped := p.fit(g, "needs", "found", "n", "+/-/=", "p (Holm)", "p", "base", "cand.")
	p.grid(g)
	notes := []string{"failed items count as 0"}
	for _, note := range []struct{ title, text string }{
		{"p", "p: sign flips"}, {"p (Holm)", "Holm: over the scores below the first that differ"},
		{"+/-/=", "+/-/=: items better, worse, equal"}, {"found", "found: the least difference found 4 times of 5"},
		{"needs", "needs: items to find the one seen"},
	} {
		if !slices.Contains(dropped, note.title) {
			notes = append(notes, note.text)
		}
	}
	p.wrapped(strings.Join(notes, " · "), gap, 0, p.faint)
	p.leftOut(dropped)
}

func optional(n *int) string {
	if n == nil {
		return none
	}
	return count(*n)
}

// pooled draws the values over the counts of all items.
func (p *page) pooled(r compare.Result) {
	g := &grid{columns: []column{{title: "score", flex: true, key: true}, {title: "base", right: true}, {title: "cand.", right: true},
		{title: "diff.", right: true, paint: p.bold}, {title: intervals, right: true}, {title: "n", right: true}}}
	bootstrapped := false
	var without, alike []string
	for _, s := range r.Scores {
		v := s.Pooled
		switch {
		case slices.ContainsFunc(r.YesNo, func(y compare.YesNo) bool { return y.Name == s.Name }):
			alike = append(alike, printable.Line(s.Name))
			continue
		case v == nil:
			without = append(without, printable.Line(s.Name))
			continue
		}
		g.add(printable.Line(s.Name), ratio(v.Base), ratio(v.Candidate), delta(&v.Difference), deltas(v.CI95), count(v.N))
		bootstrapped = bootstrapped || v.CI95 != nil
	}
	if len(g.rows) == 0 {
		return
	}
	p.title("Pooled over the counts of " + counts(r))
	p.narrow(g, "n", "base", "cand.")
	if !bootstrapped {
		p.wrapped(noIntervals(), gap, 0, p.faint)
	}
	if len(without) > 0 {
		p.wrapped("without counts, or with nothing to divide by in one of the runs: "+strings.Join(without, ", "), gap, 0, p.faint)
	}
	if len(alike) > 0 {
		p.wrapped("yes or no, where every item counts the same: "+strings.Join(alike, ", "), gap, 0, p.faint)
	}
}

// counts says which items have counts: those that failed have none.
func counts(r compare.Result) string {
	if r.Scored == r.Items {
		return "all items"
	}
	return fmt.Sprintf("%s of %s: the others failed", count(r.Scored), counted(r.Items, "item"))
}

// noIntervals says why pooled values have none.
func noIntervals() string {
	return fmt.Sprintf("no intervals: the bootstrap is too narrow below %d items or clusters, and knows nothing where nothing varies", stats.LeastResampled)
}

func (p *page) yesNo(list []compare.YesNo) {
	if len(list) == 0 {
		return
	}
	p.title("Yes or no")
	g := &grid{columns: []column{{title: "score", flex: true, key: true}, {title: "no → yes", right: true}, {title: "yes → no", right: true},
		{title: "both", right: true}, {title: "neither", right: true}, {title: "p (McNemar)", right: true}}}
	for _, y := range list {
		g.add(printable.Line(y.Name), count(y.Gained), count(y.Lost), count(y.Both), count(y.None), pValue(y.P))
	}
	if list[0].P == nil { // with clusters
		g.drop("p (McNemar)")
	}
	p.narrow(g, "neither", "both")
}

// groupChanges draws one table per kind of group.
func (p *page) groupChanges(r compare.Result) {
	for _, list := range Kinds(r.Groups, func(g compare.Group) string { return g.Kind }) {
		p.groupChangeTable(list[0].Kind, list)
	}
	if len(r.Groups) > 0 && r.Scored < r.Items {
		p.wrapped("types are over the counts of "+counts(r), gap, 0, p.faint)
	}
}

func (p *page) groupChangeTable(kind string, groups []compare.Group) {
	p.title("By " + label(plainWords(kind)))
	g := &grid{columns: []column{{title: "type", flex: true}, {title: "expected", right: true}, {title: "matched", right: true},
		{title: "extracted", right: true}, {title: "base F1", right: true}, {title: "cand. F1", right: true}, {title: "diff.", right: true, paint: p.bold}}}
	shown := groups
	if p.Groups >= 0 && len(groups) > p.Groups {
		shown = groups[:p.Groups]
	}
	for _, s := range shown {
		g.add(label(s.Name), count(s.Candidate.Expected), arrow(s.Base.Matched, s.Candidate.Matched),
			arrow(s.Base.Extracted, s.Candidate.Extracted), score(s.Base.F1, 3), score(s.Candidate.F1, 3), delta(s.Difference))
	}
	p.narrow(g, "extracted", "expected")
	if more := len(groups) - len(shown); more > 0 {
		p.line("  " + p.faint("and "+counted(more, "more type")))
	}
}

// arrow shows what a count became; once if it stayed.
func arrow(before, after int64) string {
	if before == after {
		return count(after)
	}
	return count(before) + "→" + count(after)
}
