package main

import (
	"context"
	"iter"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// runSource is a run file as package compare reads it.
type runSource struct {
	run      *runstore.Reader
	metadata bool // the items' metadata is wanted
}

func (s runSource) Where() string { return s.run.Path() }

func (s runSource) Header(ctx context.Context) (outcome.Header, error) { return s.run.Header(ctx) }

func (s runSource) Footer(ctx context.Context) (outcome.Footer, bool, error) {
	return s.run.Footer(ctx)
}

func (s runSource) Outcomes(ctx context.Context) iter.Seq2[outcome.Outcome, error] {
	return s.run.Outcomes(ctx, runstore.Query{Newest: true, Detail: true})
}

// Items reads whole items only for their metadata: documents can be large.
func (s runSource) Items(ctx context.Context) iter.Seq2[compare.Item, error] {
	return func(yield func(compare.Item, error) bool) {
		if s.metadata {
			for item, err := range s.run.Items(ctx) {
				if !yield(compare.Item{ID: item.ID, Hash: item.Hash, Metadata: item.Metadata}, err) {
					return
				}
			}
			return
		}
		for h, err := range s.run.Hashes(ctx) {
			if !yield(compare.Item{ID: h.ID, Hash: h.Hash}, err) {
				return
			}
		}
	}
}
