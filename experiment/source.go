package experiment

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"extraction-experiment/dataset"
)

// filePage is how many items of a file are in memory at once.
const filePage = 32

// File is a Source over a file of items, in the order of its lines.
type File string

// Pages yields the items of the file. A malformed one ends it with every
// problem of the file, each with its line.
func (path File) Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		var page []dataset.Item
		var problems dataset.Problems
		for located, err := range dataset.ReadFile(ctx, string(path)) {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if err != nil {
				problems.Add(err)
				continue
			}
			if page = append(page, located.Item); len(page) < filePage || problems.Err() != nil {
				continue
			}
			if !yield(page, nil) {
				return
			}
			page = nil
		}
		if err := problems.Err(); err != nil {
			yield(nil, err)
			return
		}
		if len(page) > 0 {
			yield(page, nil)
		}
	}
}

// Selected is a Source narrowed by a filter.
type Selected struct {
	Source Source
	Filter dataset.Filter
}

// Pages yields the items that the filter takes. Ids that were asked for and are
// not there end it with an error that names them.
func (s Selected) Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		selection := s.Filter.Start()
		for page, err := range s.Source.Pages(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			var taken []dataset.Item
			for _, item := range page {
				if selection.Take(item) {
					taken = append(taken, item)
				}
			}
			if len(taken) > 0 && !yield(taken, nil) {
				return
			}
			if selection.Full() {
				return
			}
		}
		if missing := selection.Missing(); len(missing) > 0 {
			yield(nil, &MissingItemsError{missing})
		}
	}
}

// MissingItemsError names items that were asked for and are not in the dataset,
// or not in what the other filters leave of it.
type MissingItemsError struct{ IDs []string }

// Error names the items.
func (e *MissingItemsError) Error() string {
	return fmt.Sprintf("the dataset (as filtered) has no item with the id %s", strings.Join(e.IDs, ", "))
}

// ExitCode returns 64.
func (e *MissingItemsError) ExitCode() int { return 64 }
