package experiment

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// RescoreConfig says which run is scored again. Gold, GoldVersion, Left and Describe may be left out.
type RescoreConfig struct {
	From   *runstore.Reader
	Name   string         // of the new run
	Pin    outcome.Scorer // how it is scored; Custom are the evaluators that are asked again
	Scorer Scorer
	// Gold, if set, provides the items that the results are scored against, in the version
	// GoldVersion. It uses items that From also has, with the same input. Left is told
	// about the others, and about items of From that no longer exist.
	Gold        Source
	GoldVersion string
	Left        func(item, why string)
	// Describe changes the header of the new run before it begins; nil leaves it as it is.
	Describe func(*outcome.Header)
	// Moved is called with each outcome before and after, one call at a time.
	Moved func(before, after outcome.Outcome)
}

// ErrSameGold is returned by Rescore if Gold is the same as that of the run.
var ErrSameGold = errors.New("the dataset still has the expected outputs that the run was scored with")

// Rescore scores the results of a run again, into a new run file beside the old one, and
// returns its path. The task is not called: the calls are copied, marked as cached, and
// cost nothing. Of several attempts, the newest becomes attempt 1. Scores of external
// evaluators are copied, unless Pin asks the evaluator again. If the name is taken, the
// error is a *NameTakenError; after any other error, or a crash, there is no new run.
//
// An item that failed stays failed with its class. Only the classes invalid_output, item
// and internal are judged again, if there is an output. Memory: a page of items, one
// outcome per processor, and 16 MiB of outcomes that are being committed.
func Rescore(ctx context.Context, cfg RescoreConfig) (h outcome.Header, path string, err error) {
	if h, err = cfg.From.Header(ctx); err != nil {
		return h, "", err
	}
	carry := cfg.describe(&h)
	path = runstore.Path(Folder, h.Project, h.Dataset.Name, h.Name)
	if _, err := os.Stat(path); err == nil {
		return h, path, &NameTakenError{Name: h.Name, Where: path}
	}
	return h, path, runstore.Build(path, h, func(to *runstore.Run) error { return rescore(ctx, cfg, to, carry) })
}

// describe makes the header of the new run of that of the old one, and returns the
// scores of evaluators that are taken over.
func (cfg RescoreConfig) describe(h *outcome.Header) (carry []string) {
	before := h.Scorer.Custom
	h.Rescored = &outcome.Origin{Name: h.Name, RunUID: h.RunUID}
	if cfg.Gold != nil {
		h.Rescored.DatasetVersion = h.Dataset.Version
		h.Dataset.Version, h.Dataset.Fingerprint = cfg.GoldVersion, ""
	}
	h.Publication = h.PublishedAnew()
	h.Format, h.RunUID, h.Started = outcome.FormatVersion, newUID(), time.Now().UTC()
	h.Name, h.Scorer = cfg.Name, cfg.Pin
	h.Scorer.Custom = nil
	for _, c := range before {
		if slices.ContainsFunc(cfg.Pin.Custom, func(a outcome.CustomScorer) bool { return a.Name == c.Name }) {
			continue
		}
		c.Carried = cmp.Or(c.Carried, h.Rescored.Name)
		h.Scorer.Custom, carry = append(h.Scorer.Custom, c), append(carry, c.Name)
	}
	h.Scorer.Custom = append(h.Scorer.Custom, cfg.Pin.Custom...)
	if cfg.Describe != nil {
		cfg.Describe(h)
	}
	return carry
}

// rescore fills the new run and finishes it; the scores that carry names are taken
// over.
func rescore(ctx context.Context, cfg RescoreConfig, to *runstore.Run, carry []string) error {
	r := &rescoring{RescoreConfig: cfg, to: to, carry: carry}
	err := r.items(ctx)
	if err == nil {
		err = r.outcomes(ctx)
	}
	if err == nil {
		err = r.finish(ctx)
	}
	return err
}

type rescoring struct {
	RescoreConfig
	to    *runstore.Run
	carry []string   // the scores that are taken over
	mu    sync.Mutex // while Moved is told
}

// items lists the items and the fingerprint: those of the other run, or those of
// the gold that it has.
func (r *rescoring) items(ctx context.Context) error {
	header, err := r.From.Header(ctx)
	if err != nil {
		return err
	}
	source := r.copied(ctx)
	if r.Gold != nil {
		source = r.golden(ctx)
	}
	for page, err := range inPages(source) {
		if err == nil {
			err = r.to.AddItems(ctx, page, dataset.Hash)
		}
		if err != nil {
			return err
		}
	}
	fingerprint := header.Dataset.Fingerprint
	if fingerprint == "" { // it is still being listed
		return nil
	}
	if r.Gold != nil {
		if fingerprint, err = fingerprintOf(ctx, r.to.Reader); err != nil {
			return err
		}
		if fingerprint == header.Dataset.Fingerprint {
			return ErrSameGold
		}
	}
	return r.to.CompleteListing(ctx, fingerprint)
}

// copied are the items of the other run. A fingerprint that is there before they are
// read speaks of all of them.
func (r *rescoring) copied(ctx context.Context) iter.Seq2[dataset.Item, error] {
	return func(yield func(dataset.Item, error) bool) {
		for item, err := range r.From.Items(ctx) {
			if !yield(item.Item, err) || err != nil {
				return
			}
		}
	}
}

// golden are the items of the gold that the other run has with the same input.
func (r *rescoring) golden(ctx context.Context) iter.Seq2[dataset.Item, error] {
	return func(yield func(dataset.Item, error) bool) {
		there := map[string]bool{}
		for page, err := range r.Gold.Pages(ctx) {
			for _, item := range page {
				there[item.ID] = true
				had, err := r.From.Item(ctx, item.ID)
				if errors.Is(err, runstore.ErrUnknown) {
					continue // new in the dataset: the run knows nothing of it
				}
				var same bool
				if err == nil {
					same, err = sameInput(item, had.Item)
				}
				if err == nil && !same {
					r.left(item.ID, "its input has changed")
					continue
				}
				if !yield(item, err) || err != nil {
					return
				}
			}
			if err != nil {
				yield(dataset.Item{}, err)
				return
			}
		}
		for had, err := range r.From.Hashes(ctx) {
			if err != nil {
				yield(dataset.Item{}, err)
				return
			}
			if !there[had.ID] {
				r.left(had.ID, "it is not in the dataset any more")
			}
		}
	}
}

func (r *rescoring) left(id, why string) { call(r.Left != nil, func() { r.Left(id, why) }) }

func sameInput(a, b dataset.Item) (bool, error) {
	x, errX := dataset.Hash(dataset.Item{Input: a.Input})
	y, errY := dataset.Hash(dataset.Item{Input: b.Input})
	return x == y, errors.Join(errX, errY)
}

// Bounds of the outcomes that are committed at once, to share transactions, and of their bytes.
const committedAtOnce, committedBytes = 64, 16 << 20

func (r *rescoring) outcomes(ctx context.Context) error {
	committing, ctx := errgroup.WithContext(ctx)
	committing.SetLimit(committedAtOnce)
	room := semaphore.NewWeighted(committedBytes)
	scoring, inner := errgroup.WithContext(ctx)
	scoring.SetLimit(runtime.GOMAXPROCS(0))
	r.to.Expect(committedAtOnce)
	for before, err := range r.From.Outcomes(inner, runstore.Query{Newest: true, Detail: true}) {
		if err != nil {
			scoring.Go(func() error { return err })
			break
		}
		scoring.Go(func() error {
			item, err := r.to.Item(inner, before.Item)
			if errors.Is(err, runstore.ErrUnknown) {
				return nil // no longer in the dataset, or listed after the items were copied
			}
			if err != nil {
				return err
			}
			after, err := r.again(inner, before, item)
			if err != nil {
				return err
			}
			size := min(committedBytes, sizeOf(after))
			if err := room.Acquire(inner, size); err != nil {
				return err
			}
			committing.Go(func() error {
				defer room.Release(size)
				if err := r.to.Commit(ctx, after); err != nil {
					return err
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				r.Moved(before, after)
				return nil
			})
			return nil
		})
	}
	err := scoring.Wait()
	r.to.Expect(-committedAtOnce)
	return cmp.Or(committing.Wait(), err)
}

// sizeOf is about how many bytes an outcome has in memory.
func sizeOf(o outcome.Outcome) int64 {
	n := len(o.Output) + len(o.Explanation)
	for _, call := range o.Calls {
		n += len(call.Input) + len(call.Output)
	}
	return int64(n)
}

// again scores what an outcome holds.
func (r *rescoring) again(ctx context.Context, before outcome.Outcome, item runstore.Item) (outcome.Outcome, error) {
	o := before
	o.Seq, o.Attempt, o.Class, o.Failure, o.Scores = 0, 1, outcome.OK, nil, nil
	o.Groups, o.Counts, o.Causes, o.Explanation = nil, nil, nil, nil
	o.CostUSD, o.Calls, o.Judging = new(float64), r.calls(before.Calls), nil
	judge, err := guard(func() (Judge, error) { return r.Scorer.Judge(item.Item) })
	o.NothingExpected = err == nil && nothingExpected(judge)
	switch {
	case err != nil:
		o = fail(o, nil, outcome.FailureOf(err, outcome.Item))
	case before.Failed() && (len(before.Output) == 0 || paid(before.Class)):
		o = fail(o, judge, *before.Failure)
	default:
		if o, err = judged(ctx, o, judge, nil); err != nil {
			return o, err
		}
	}
	o.Scores = append(o.Scores, r.carried(before)...)
	return o, nil
}

// calls are those that come along: they cost nothing. Those of judging models
// belong to scores that are carried over.
func (r *rescoring) calls(before []outcome.Call) []outcome.Call {
	var calls []outcome.Call
	for _, call := range before {
		if call.Kind == outcome.JudgingKind && !slices.Contains(r.carry, call.Name) {
			continue
		}
		call.Cached, call.CostUSD = true, new(float64)
		calls = append(calls, call)
	}
	return calls
}

// carried are the scores that are taken over as they are.
func (r *rescoring) carried(before outcome.Outcome) []outcome.Score {
	var scores []outcome.Score
	for _, name := range r.carry {
		if s, ok := outcome.Lookup(before.Scores, name); ok {
			scores = append(scores, s)
		}
	}
	return scores
}

// paid reports whether a class of failure is of the task, not of the scoring.
func paid(class outcome.Class) bool {
	return class == outcome.Timeout || class == outcome.RateLimited || class == outcome.Provider
}

// finish writes the footer: the new run is as complete as the other one. Of one
// that has no footer, because it goes on or was killed, it is an interrupted one
// that ended now.
func (r *rescoring) finish(ctx context.Context) error {
	footer, ended, err := r.From.Footer(ctx)
	if err != nil {
		return err
	}
	counts, err := r.to.Counts(ctx)
	if err != nil {
		return err
	}
	if !ended {
		footer = outcome.Footer{Status: outcome.Interrupted, Ended: time.Now().UTC()}
	}
	if !ended || r.Gold != nil {
		footer.Planned = int(counts.Planned)
	}
	return r.to.Finish(ctx, footer)
}
