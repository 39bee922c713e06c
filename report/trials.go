package report

import (
	"fmt"
	"strconv"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"

	"github.com/jedib0t/go-pretty/v6/text"
)

// trials writes what the repetitions of a run say: each by itself, how much the
// scores vary where nothing was changed, and the items that vary most.
func (p *page) trials(s outcome.Summary) {
	t := s.Trials
	if t == nil {
		return
	}
	p.title("Trials")
	g := &grid{columns: []column{{title: "trial", right: true}, {title: "run", flex: true, key: true}, {title: "scored", right: true},
		{title: "failed", right: true}, {title: text.Snip(label(s.Run.Primary), 20, "…"), right: true, paint: p.bold}}}
	for _, run := range t.Runs {
		g.add(strconv.Itoa(run.Trial), printable.Line(run.Name), count(run.Scored), count(run.Failed), score(run.Mean, 3))
	}
	p.narrow(g, "scored")
	if t.Uneven > 0 {
		p.wrapped(counted(t.Uneven, "item")+" not run in every trial", gap, 0, p.yellow)
	}
	p.spread(t.Scores)
	p.flaky(s)
}

// spread draws how much each score varies.
func (p *page) spread(scores []outcome.Spread) {
	p.title("Spread where nothing was changed")
	g := &grid{columns: []column{{title: "score", flex: true}, {title: "trials", right: true}, {title: "sd of trials", right: true, paint: p.bold},
		{title: "sd within items", right: true}, {title: "items the same", right: true}}}
	for _, s := range scores {
		means, same := spreadParts(s)
		g.add(printable.Line(s.Name), means, score(s.Between, 3), score(s.Within, 3), same)
	}
	p.narrow(g, "trials", "sd within items")
	p.wrapped("failed trials count as 0 · an item's value is the mean over its trials · the difference of two trials has the sd of trials times √2", gap, 0, p.faint)
}

// spreadParts shows the least and the largest mean of a trial, and how many items
// are the same in all trials.
func spreadParts(s outcome.Spread) (means, same string) {
	means, same = none, none
	if s.Least != nil && s.Top != nil {
		means = ends(score(s.Least, 3), score(s.Top, 3))
	}
	if s.N > 0 {
		same = count(s.Consistent) + "/" + count(s.N)
	}
	return means, same
}

// flaky lists the items that vary most.
func (p *page) flaky(s outcome.Summary) {
	t := s.Trials
	if t.Flaky == 0 {
		return
	}
	p.title(fmt.Sprintf("Flaky by %s: %s of %s", label(s.Run.Primary), count(t.Flaky), counted(t.Items, "item")))
	g := &grid{columns: []column{{flex: true}, {title: "least", right: true}, {title: "most", right: true}, {title: "mean", right: true, paint: p.bold}, {title: "failed", right: true}}}
	for _, item := range t.FlakyItems {
		g.add(label(item.ID), ratio(item.Least), ratio(item.Top), ratio(item.Mean), count(item.Failed)+"/"+count(item.Trials))
	}
	p.grid(g)
	if more := t.Flaky - len(t.FlakyItems); more > 0 {
		p.line("  " + p.faint("and "+counted(more, "more item")))
	}
}
