package report

import (
	"slices"
	"strings"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// layout is one way to draw the table of scores.
type layout struct {
	bar       int // cells; 0 for none
	span      bool
	plusMinus bool // the interval as ±
	pooled    bool
}

// layouts lists them from the richest to the narrowest.
var layouts = [...]layout{
	{bar: 24, span: true, pooled: true},
	{bar: 16, span: true, pooled: true},
	{bar: 10, span: true, pooled: true},
	{bar: 10, span: true, pooled: true, plusMinus: true},
	{bar: 6, span: true, pooled: true, plusMinus: true},
	{span: true, pooled: true, plusMinus: true},
	{bar: 6, pooled: true, plusMinus: true},
	{plusMinus: true, pooled: true},
	{plusMinus: true},
}

func (p *page) scoreTable(scores outcome.Stats) {
	if len(scores) == 0 {
		return
	}
	p.title("Scores")
	var l layout
	var g *grid
	hasPooled := slices.ContainsFunc(scores, func(s outcome.Stat) bool { return s.Pooled != nil })
	for _, next := range layouts {
		if p.Whole && !(next.span && next.pooled) {
			break // it would leave numbers out
		}
		l = next
		l.pooled = l.pooled && hasPooled
		g = p.scoreGrid(scores, l)
		if _, total := g.widths(); total <= p.Width {
			break
		}
	}
	p.grid(g)
	var notes []string
	if scores.AnyFailed() {
		note := "failed items count as 0"
		if slices.ContainsFunc(scores, func(s outcome.Stat) bool { return s.Unanswered > 0 }) {
			note += ", and those that an evaluator gave no score for"
		}
		notes = append(notes, note, ofScored+": the mean of the others, n of them")
	}
	if l.pooled {
		notes = append(notes, "pooled: over the counts of all scored items")
	}
	p.wrapped(strings.Join(notes, " · "), gap, 0, p.faint)
	if left := leftOut(l, hasPooled); left != "" {
		p.wrapped("left out for want of width: "+left, gap, 0, p.faint)
	}
}

// leftOut names the numbers that a layout does without.
func leftOut(l layout, hasPooled bool) string {
	var names []string
	if !l.span {
		names = append(names, "range")
	}
	if hasPooled && !l.pooled {
		names = append(names, "pooled")
	}
	return strings.Join(names, ", ")
}

func (p *page) scoreGrid(scores outcome.Stats, l layout) *grid {
	g := &grid{columns: []column{{title: "score", flex: true}}}
	if l.bar > 0 {
		g.columns = append(g.columns, column{paint: p.cyan})
	}
	g.columns = append(g.columns, column{title: "mean", right: true, paint: p.bold})
	if l.plusMinus {
		g.columns = append(g.columns, column{title: "±95 %", right: true})
	} else {
		g.columns = append(g.columns, column{title: "95 % interval", right: true})
	}
	if scores.AnyFailed() {
		g.columns = append(g.columns, column{title: ofScored, right: true})
	}
	if l.span {
		g.columns = append(g.columns, column{title: "range", right: true})
	}
	g.columns = append(g.columns, column{title: "n", right: true})
	if l.pooled {
		g.columns = append(g.columns, column{title: "pooled", right: true})
	}
	for _, s := range scores {
		g.add(scoreCells(scores, s, l)...)
	}
	return g
}

func scoreCells(scores outcome.Stats, s outcome.Stat, l layout) []string {
	cells := []string{printable.Line(s.Name)}
	mean, ci := scores.Lead(s)
	if l.bar > 0 {
		cells = append(cells, bar(mean, l.bar))
	}
	cells = append(cells, score(mean, 3), interval(ci, mean, l.plusMinus))
	if scores.AnyFailed() {
		cells = append(cells, score(s.Mean, 3))
	}
	if l.span {
		cells = append(cells, span(s.Min, s.Max))
	}
	cells = append(cells, count(s.N))
	if l.pooled {
		cells = append(cells, score(s.Pooled, 3))
	}
	return cells
}

// interval shows both ends, or the way from the mean to the farther one: the
// nearer one may be cut at a bound of the score.
func interval(ci *[2]float64, mean *float64, plusMinus bool) string {
	if ci == nil {
		return none
	}
	if plusMinus && mean != nil {
		half := max(ci[1]-*mean, *mean-ci[0])
		return score(&half, 3)
	}
	return ends(score(&ci[0], 3), score(&ci[1], 3))
}

// span shows the least and the largest value.
func span(least, top *float64) string {
	if least == nil || top == nil {
		return none
	}
	return ends(score(least, 2), score(top, 2))
}

// ends joins two numbers with a dash; a minus sign would run into it.
func ends(from, to string) string {
	if strings.HasPrefix(to, "-") {
		return from + " to " + to
	}
	return from + "–" + to
}
