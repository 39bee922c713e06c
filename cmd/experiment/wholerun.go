package main

import (
	"context"
	"iter"

	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

// depth says how much of its items a report needs.
type depth int

const (
	explained    depth = iota // with documents, matches and misses
	outcomesOnly              // a third of the time
)

// wholeRun is a run as reports take it. Its items are read while they are
// written, one at a time, so the run must stay open.
func wholeRun(ctx context.Context, run *runstore.Reader, d depth) (report.Run, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return report.Run{}, err
	}
	summary, err := summarise(ctx, run)
	if err != nil {
		return report.Run{}, err
	}
	return report.Run{Summary: summary, Items: itemViews(ctx, run, header, d)}, nil
}

// itemViews yields the newest attempts of all items, by item id and trial.
func itemViews(ctx context.Context, run *runstore.Reader, header outcome.Header, d depth) iter.Seq2[report.ItemView, error] {
	return func(yield func(report.ItemView, error) bool) {
		for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true, Detail: true}) {
			if err != nil {
				yield(report.ItemView{}, err)
				return
			}
			view, err := itemViewOf(ctx, run, header, o, d)
			if !yield(view, err) || err != nil {
				return
			}
		}
	}
}

func itemViewOf(ctx context.Context, run *runstore.Reader, header outcome.Header, o outcome.Outcome, d depth) (report.ItemView, error) {
	if d == outcomesOnly {
		return report.ItemView{Run: header.Name, Dataset: header.Dataset.Name, Outcome: o}, nil
	}
	item, err := run.Item(ctx, o.Item)
	if err != nil {
		return report.ItemView{}, err
	}
	return newItemView(header, item, o)
}
