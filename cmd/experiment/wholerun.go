package main

import (
	"context"
	"iter"

	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

// wholeRun is a run as reports take it. Its items are read while they are
// written, one at a time, so the run must stay open.
func wholeRun(ctx context.Context, run *runstore.Reader) (report.Run, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return report.Run{}, err
	}
	summary, err := summarise(ctx, run)
	if err != nil {
		return report.Run{}, err
	}
	return report.Run{Summary: summary, Items: itemViews(ctx, run, header)}, nil
}

// itemViews yields the newest attempts of all items, by item id and trial.
func itemViews(ctx context.Context, run *runstore.Reader, header outcome.Header) iter.Seq2[report.ItemView, error] {
	return func(yield func(report.ItemView, error) bool) {
		for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true, Detail: true}) {
			if err != nil {
				yield(report.ItemView{}, err)
				return
			}
			item, err := run.Item(ctx, o.Item)
			if err != nil {
				yield(report.ItemView{}, err)
				return
			}
			view, err := newItemView(header, item, o)
			if !yield(view, err) || err != nil {
				return
			}
		}
	}
}
