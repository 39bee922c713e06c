package experiment

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Rescore fills a new run with the results of another one, scored again, and
// finishes it. The task is not called: the calls come along marked as cached,
// and cost nothing. Of several attempts the newest one is taken, as attempt 1.
// moved is told what each outcome was and is, one call at a time.
//
// An item that failed stays failed with its class, but for class
// invalid_output, item and internal, which are judged anew where there is an
// output. Memory: a page of items, and one outcome for each processor.
func Rescore(ctx context.Context, from *runstore.Reader, to *runstore.Run, scorer Scorer, moved func(before, after outcome.Outcome)) (outcome.Footer, error) {
	r := &rescoring{from: from, to: to, scorer: scorer, moved: moved}
	if err := r.items(ctx); err != nil {
		return outcome.Footer{}, err
	}
	if err := r.outcomes(ctx); err != nil {
		return outcome.Footer{}, err
	}
	return r.finish(ctx)
}

// A page of items that is copied at once ends with the one that reaches a bound.
const (
	pageItems = 500
	pageBytes = 4 << 20
)

type rescoring struct {
	from   *runstore.Reader
	to     *runstore.Run
	scorer Scorer

	mu    sync.Mutex
	moved func(before, after outcome.Outcome)
}

// items copies the items and the fingerprint.
func (r *rescoring) items(ctx context.Context) error {
	var page []dataset.Item
	size := 0
	for item, err := range r.from.Items(ctx) {
		if err != nil {
			return err
		}
		page = append(page, item.Item)
		if size += len(item.Input) + len(item.Expected); size < pageBytes && len(page) < pageItems {
			continue
		}
		if err := r.to.AddItems(ctx, page, dataset.Hash); err != nil {
			return err
		}
		page, size = nil, 0
	}
	if err := r.to.AddItems(ctx, page, dataset.Hash); err != nil {
		return err
	}
	header, err := r.from.Header(ctx)
	if err != nil {
		return err
	}
	return r.to.CompleteListing(ctx, header.Dataset.Fingerprint)
}

func (r *rescoring) outcomes(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for before, err := range r.from.Outcomes(inner, runstore.Query{Newest: true, Detail: true}) {
		if err != nil {
			group.Go(func() error { return err })
			break
		}
		group.Go(func() error {
			item, err := r.from.Item(inner, before.Item)
			if err != nil {
				return err
			}
			after := again(before, item, r.scorer)
			if err := r.to.Commit(inner, after); err != nil {
				return err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.moved(before, after)
			return nil
		})
	}
	return group.Wait()
}

// again scores what an outcome holds.
func again(before outcome.Outcome, item runstore.Item, scorer Scorer) outcome.Outcome {
	o := before
	o.Seq, o.Attempt, o.Class, o.Failure, o.Scores = 0, 1, outcome.OK, nil, nil
	o.Groups, o.Counts, o.Causes, o.Explanation = nil, nil, nil, nil
	o.CostUSD, o.Calls = new(float64), make([]outcome.Call, len(before.Calls))
	for i, call := range before.Calls {
		call.Cached, call.CostUSD = true, new(float64)
		o.Calls[i] = call
	}
	judge, err := guard(func() (Judge, error) { return scorer.Judge(item.Item) })
	if err != nil {
		return fail(o, nil, outcome.FailureOf(err, outcome.Item))
	}
	if before.Failed() && (len(before.Output) == 0 || paid(before.Class)) {
		return fail(o, judge, *before.Failure)
	}
	return judged(o, judge)
}

// paid reports whether a class of failure is of the task, not of the scoring.
func paid(class outcome.Class) bool {
	return class == outcome.Timeout || class == outcome.RateLimited || class == outcome.Provider
}

// finish writes the footer: the new run is as complete as the other one.
func (r *rescoring) finish(ctx context.Context) (outcome.Footer, error) {
	footer, ok, err := r.from.Footer(ctx)
	if err != nil {
		return footer, err
	}
	if !ok {
		counts, err := r.from.Counts(ctx)
		if err != nil {
			return footer, err
		}
		footer = outcome.Footer{Status: outcome.Interrupted, Planned: int(counts.Planned)}
	}
	return footer, r.to.Finish(ctx, footer)
}
