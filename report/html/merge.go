package html

import (
	"cmp"
	"iter"

	"extraction-experiment/report"
)

// merging is one item in one trial, as each of the runs has it; nil where a run
// has it not.
type merging struct {
	id    string
	trial int
	views []*report.ItemView
}

// merged walks through several runs at once, each of which yields its items by
// id and trial. One item of each is in memory.
func merged(runs []report.Run) iter.Seq2[merging, error] {
	return func(yield func(merging, error) bool) {
		next := make([]*report.ItemView, len(runs))
		pulls := make([]func() (report.ItemView, error, bool), len(runs))
		for i, r := range runs {
			pull, stop := iter.Pull2(r.Items)
			defer stop()
			pulls[i] = pull
		}
		advance := func(i int) error {
			next[i] = nil
			v, err, ok := pulls[i]()
			if err == nil && ok {
				next[i] = &v
			}
			return err
		}
		for i := range runs {
			if err := advance(i); err != nil {
				yield(merging{}, err)
				return
			}
		}
		for {
			row, ok := least(next)
			if !ok || !yield(row, nil) {
				return
			}
			for i, v := range row.views {
				if v == nil {
					continue
				}
				if err := advance(i); err != nil {
					yield(merging{}, err)
					return
				}
			}
		}
	}
}

// least gathers the views of the first item that any run comes to.
func least(next []*report.ItemView) (merging, bool) {
	var first *report.ItemView
	for _, v := range next {
		if v != nil && (first == nil || compareViews(v, first) < 0) {
			first = v
		}
	}
	if first == nil {
		return merging{}, false
	}
	row := merging{first.Outcome.Item, first.Outcome.Trial, make([]*report.ItemView, len(next))}
	for i, v := range next {
		if v != nil && compareViews(v, first) == 0 {
			row.views[i] = v
		}
	}
	return row, true
}

func compareViews(a, b *report.ItemView) int {
	return cmp.Or(cmp.Compare(a.Outcome.Item, b.Outcome.Item), cmp.Compare(a.Outcome.Trial, b.Outcome.Trial))
}
