package report

import (
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/internal/printable"
	"extraction-experiment/internal/stats"

	"github.com/jedib0t/go-pretty/v6/text"
)

// differences draws the table of scores.
func (p *page) differences(r compare.Result) {
	p.title("Scores")
	g := &grid{columns: []column{
		{title: "score"}, {title: "base", right: true}, {title: "cand.", right: true}, {title: "diff.", right: true, paint: p.bold},
		{title: "95 % interval", right: true}, {title: "p", right: true}, {title: "p (Holm)", right: true}, {title: "+/-/=", right: true},
		{title: "n", right: true}, {title: "found", right: true}, {title: "needs", right: true},
	}}
	for _, s := range r.Scores {
		g.add(text.Snip(printable.Line(s.Name), p.Width/3, "…"), score(s.Base, 3), score(s.Candidate, 3), delta(s.Difference), deltas(s.CI95), pValue(s.P), pValue(s.PHolm),
			count(s.Wins)+"/"+count(s.Losses)+"/"+count(s.Ties), count(s.N), score(s.Detectable, 3), optional(s.Needed))
	}
	dropped := g.shorten(p.Width, "needs", "found", "n", "+/-/=", "p (Holm)", "p", "base", "cand.")
	p.grid(g)
	notes := []string{"failed items count as 0"}
	for _, note := range []struct{ title, text string }{
		{"p", "p: sign flips"}, {"p (Holm)", "Holm: over the scores below the first"},
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
	g := &grid{columns: []column{{title: "score", flex: true}, {title: "base", right: true}, {title: "cand.", right: true},
		{title: "diff.", right: true, paint: p.bold}, {title: "95 % interval", right: true}, {title: "n", right: true}}}
	intervals := false
	var without []string
	for _, s := range r.Scores {
		v := s.Pooled
		switch {
		case slices.ContainsFunc(r.YesNo, func(y compare.YesNo) bool { return y.Name == s.Name }):
			continue // every item counts the same
		case v == nil:
			without = append(without, printable.Line(s.Name))
			continue
		}
		g.add(printable.Line(s.Name), ratio(v.Base), ratio(v.Candidate), delta(&v.Difference), deltas(v.CI95), count(v.N))
		intervals = intervals || v.CI95 != nil
	}
	if len(g.rows) == 0 {
		return
	}
	p.title("Pooled over the counts of all items")
	p.narrow(g, "n", "base", "cand.")
	if !intervals {
		p.wrapped(fmt.Sprintf("no intervals: the bootstrap is too narrow below %d items or clusters", stats.LeastResampled), gap, 0, p.faint)
	}
	if len(without) > 0 {
		p.wrapped("without counts, or with nothing to divide by in one of the runs: "+strings.Join(without, ", "), gap, 0, p.faint)
	}
}

func (p *page) yesNo(list []compare.YesNo) {
	if len(list) == 0 {
		return
	}
	p.title("Yes or no")
	g := &grid{columns: []column{{title: "score", flex: true}, {title: "no → yes", right: true}, {title: "yes → no", right: true},
		{title: "both", right: true}, {title: "neither", right: true}, {title: "p (McNemar)", right: true}}}
	for _, y := range list {
		g.add(printable.Line(y.Name), count(y.Gained), count(y.Lost), count(y.Both), count(y.None), pValue(&y.P))
	}
	p.narrow(g, "neither", "both")
}

// groupChanges draws one table per kind of group.
func (p *page) groupChanges(groups []compare.Group) {
	for _, list := range Kinds(groups, func(g compare.Group) string { return g.Kind }) {
		p.groupChangeTable(list[0].Kind, list)
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
			arrow(s.Base.Extracted, s.Candidate.Extracted), ratio(s.Base.F1), ratio(s.Candidate.F1), delta(&s.Difference))
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
