package report

import (
	"slices"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/internal/printable"
)

// differenceColumn is a column of the table of differences.
type differenceColumn struct {
	column
	cell func(compare.Score) string
}

// differences draws the table of scores. Where it does not fit, columns are
// left out, the least important first.
func (p *page) differences(r compare.Result) {
	p.title("Scores")
	columns := p.differenceColumns()
	var left []string
	g := differenceGrid(columns, r.Scores)
	for _, title := range []string{"needs", "found", "+/-/=", "p (Holm)", "n", "p", "base"} {
		if _, total := g.widths(); total <= p.Width {
			break
		}
		columns = slices.DeleteFunc(columns, func(c differenceColumn) bool { return c.title == title })
		left = append(left, title)
		g = differenceGrid(columns, r.Scores)
	}
	p.grid(g)
	notes := []string{"failed items count as 0"}
	for _, note := range []struct{ title, text string }{
		{"p", "p: sign flips"}, {"p (Holm)", "Holm: over the scores below the first"},
		{"+/-/=", "+/-/=: items better, worse, equal"}, {"found", "found: the least difference found 4 times of 5"},
		{"needs", "needs: items to find the one seen"},
	} {
		if !slices.Contains(left, note.title) {
			notes = append(notes, note.text)
		}
	}
	p.wrapped(strings.Join(notes, " · "), gap, 0, p.faint)
	if len(left) > 0 {
		p.wrapped("left out for want of width: "+strings.Join(left, ", "), gap, 0, p.faint)
	}
}

func differenceGrid(columns []differenceColumn, scores []compare.Score) *grid {
	g := &grid{}
	for _, c := range columns {
		g.columns = append(g.columns, c.column)
	}
	for _, s := range scores {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.cell(s)
		}
		g.add(cells...)
	}
	return g
}

func (p *page) differenceColumns() []differenceColumn {
	return []differenceColumn{
		{column{title: "score", flex: true}, func(s compare.Score) string { return printable.Line(s.Name) }},
		{column{title: "base", right: true}, func(s compare.Score) string { return score(s.Base, 3) }},
		{column{title: "cand.", right: true}, func(s compare.Score) string { return score(s.Candidate, 3) }},
		{column{title: "diff.", right: true, paint: p.bold}, func(s compare.Score) string { return delta(s.Difference) }},
		{column{title: "95 % interval", right: true}, func(s compare.Score) string { return deltas(s.CI95) }},
		{column{title: "p", right: true}, func(s compare.Score) string { return pValue(s.P) }},
		{column{title: "p (Holm)", right: true}, func(s compare.Score) string { return pValue(s.PHolm) }},
		{column{title: "+/-/=", right: true}, func(s compare.Score) string {
			return count(s.Wins) + "/" + count(s.Losses) + "/" + count(s.Ties)
		}},
		{column{title: "n", right: true}, func(s compare.Score) string { return count(s.N) }},
		{column{title: "found", right: true}, func(s compare.Score) string { return score(s.Detectable, 3) }},
		{column{title: "needs", right: true}, func(s compare.Score) string { return optional(s.Needed) }},
	}
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
	p.grid(g)
	if !intervals {
		p.wrapped("no intervals: the bootstrap is too narrow below 60 items or clusters", gap, 0, p.faint)
	}
	if len(without) > 0 {
		p.wrapped("nothing to divide by in one of the runs: "+strings.Join(without, ", "), gap, 0, p.faint)
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
	p.grid(g)
}

// groupChanges draws one table per kind of group.
func (p *page) groupChanges(groups []compare.Group) {
	for len(groups) > 0 {
		kind := groups[0].Kind
		n := slices.IndexFunc(groups, func(g compare.Group) bool { return g.Kind != kind })
		if n < 0 {
			n = len(groups)
		}
		p.groupChangeTable(kind, groups[:n])
		groups = groups[n:]
	}
}

func (p *page) groupChangeTable(kind string, groups []compare.Group) {
	p.title("By " + label(strings.ReplaceAll(kind, "_", " ")))
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
	p.grid(g)
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
