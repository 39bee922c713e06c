package experiment

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// RescoreConfig is the configuration of Rescore. From, Name and Scorer are required.
type RescoreConfig struct {
	From   *runstore.Reader // that of OpenRun
	Name   string           // name of the new run
	Path   string           // its file; empty as in Config
	Scorer Scorer
	// Pin describes Scorer, as Header.Scorer does: without a Version, no other run can be
	// compared with the new one. Custom are the evaluators that are asked again.
	Pin outcome.Scorer
	// Gold, if set, provides the items that the results are scored against, in the version
	// GoldVersion. Rescore uses those that From also has, with the same input. It calls Left,
	// if not nil, with items whose input has changed, and with items of From that no longer
	// exist.
	Gold        Source
	GoldVersion string
	Left        func(item, why string)
	// Describe, if not nil, changes the header of the new run before it begins.
	Describe func(*outcome.Header)
	// Moved, if not nil, is called with each outcome before and after scoring, one call at a time.
	Moved func(before, after outcome.Outcome)
}

// ErrSameGold is returned by Rescore if Gold has the same items as the run.
var ErrSameGold = errors.New("the dataset still has the expected outputs that the run was scored with")

// Rescore scores the results of a run again, into a new run file, and returns its header and
// path. The task is not called: calls are copied, marked as cached, and cost nothing. Of several
// attempts, the newest is copied with its number. Scores of external evaluators are copied, unless Pin
// asks the evaluator again. If there is a file of that name, the error is a *NameTakenError; after any
// other error, or a crash, there is no new run. Langfuse is not asked: Publish refuses a name that
// another run has there.
//
// An item that failed stays failed with its class. Only failures of the classes invalid_output,
// item and internal are judged again, if there is an output. What a run file cannot hold, such as a
// score that is not a finite number, fails the item in Run, and is an error here. Rescore needs memory
// for a page of items, one outcome per processor, and 16 MiB of outcomes that are being committed.
func Rescore(ctx context.Context, cfg RescoreConfig) (h outcome.Header, path string, err error) {
	if cfg.From == nil || cfg.Name == "" || cfg.Scorer == nil {
		return h, "", cli.Usage("experiment: RescoreConfig needs From, Name and Scorer")
	}
	if h, err = cfg.From.Header(ctx); err != nil {
		return h, "", err
	}
	r := &rescorer{RescoreConfig: cfg, carry: cfg.newHeader(&h)}
	path = cmp.Or(cfg.Path, runstore.Path(Folder, h.Project, h.Dataset.Name, h.Name))
	if _, err := os.Stat(path); err == nil {
		return h, path, &NameTakenError{Name: h.Name, Where: path}
	}
	return h, path, runstore.Build(path, h, func(to *runstore.Run) error { return r.fill(ctx, to) })
}

// newHeader turns the header of the old run into that of the new one, and returns the names of
// the evaluators' scores to copy.
func (cfg RescoreConfig) newHeader(h *outcome.Header) (carry []string) {
	oldScorers := h.Scorer.Custom
	h.Rescored = &outcome.Origin{Name: h.Name, RunUID: h.RunUID}
	if cfg.Gold != nil {
		h.Rescored.DatasetVersion = h.Dataset.Version
		h.Dataset.Version, h.Dataset.Fingerprint = cfg.GoldVersion, ""
	}
	h.Publication = h.NewPublication()
	h.Format, h.RunUID, h.Started = outcome.FormatVersion, newUID(), time.Now().UTC()
	h.Name, h.Scorer = cfg.Name, cfg.Pin
	h.Scorer.Custom = nil
	for _, c := range oldScorers {
		if slices.ContainsFunc(cfg.Pin.Custom, func(asked outcome.CustomScorer) bool { return asked.Name == c.Name }) {
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

// fill fills the new run and finishes it. The new run is as complete as the other one is at the
// beginning: outcomes of a run that goes on may be missed. If the other run has no footer, because
// it is still running or was killed, the new run is interrupted and ends at the current time.
func (r *rescorer) fill(ctx context.Context, to *runstore.Run) (err error) {
	r.to = to
	if r.footer, r.ended, err = r.From.Footer(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.addItems, r.addOutcomes, r.finish} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

type rescorer struct {
	RescoreConfig
	to     *runstore.Run
	footer outcome.Footer // of the other run, if it has ended
	ended  bool
	carry  []string   // names of the scores to copy
	mu     sync.Mutex // held during calls of Moved
}

// addItems writes the items and their fingerprint: those of the other run, or those of Gold
// that the other run has.
func (r *rescorer) addItems(ctx context.Context) error {
	header, err := r.From.Header(ctx)
	if err != nil {
		return err
	}
	// If the header had a fingerprint before they are read, these are all items.
	items := stats.Map(r.From.Items(ctx), func(item runstore.Item) dataset.Item { return item.Item })
	if r.Gold != nil {
		items = r.goldItems(ctx)
	}
	for page, err := range paginate(items) {
		if err == nil {
			err = r.to.AddItems(ctx, page)
		}
		if err != nil {
			return err
		}
	}
	fingerprint := header.Dataset.Fingerprint
	if fingerprint == "" { // the run is still being listed
		return nil
	}
	if r.Gold != nil {
		if fingerprint, err = fingerprintOf(r.to.Hashes(ctx)); err != nil {
			return err
		}
		if fingerprint == header.Dataset.Fingerprint {
			return ErrSameGold
		}
	}
	return r.to.CompleteListing(ctx, fingerprint)
}

// goldItems yields the items of Gold that the other run has with the same input.
func (r *rescorer) goldItems(ctx context.Context) iter.Seq2[dataset.Item, error] {
	return func(yield func(dataset.Item, error) bool) {
		left := func(id, why string) { callIf(r.Left != nil, func() { r.Left(id, why) }) }
		inGold := map[string]bool{}
		for page, err := range r.Gold.Pages(ctx) {
			for _, item := range page {
				inGold[item.ID] = true
				runItem, err := r.From.Item(ctx, item.ID)
				if errors.Is(err, runstore.ErrUnknown) {
					continue // new in the dataset, without an outcome
				}
				same := false
				if err == nil {
					same, err = sameInput(item, runItem.Item)
				}
				if err == nil && !same {
					left(item.ID, "its input has changed")
				} else if !yield(item, err) {
					return
				}
			}
			if err != nil {
				yield(dataset.Item{}, err)
				return
			}
		}
		for runItem, err := range r.From.Hashes(ctx) {
			if err != nil {
				yield(dataset.Item{}, err)
				return
			}
			if !inGold[runItem.ID] {
				left(runItem.ID, "it is not in the dataset any more")
			}
		}
	}
}

func sameInput(a, b dataset.Item) (bool, error) {
	x, errX := dataset.Hash(dataset.Item{Input: a.Input})
	y, errY := dataset.Hash(dataset.Item{Input: b.Input})
	return x == y, errors.Join(errX, errY)
}

// Limits of the outcomes that are committed at once, to share transactions, and of their bytes.
const maxCommits, maxCommitBytes = 64, 16 << 20

func (r *rescorer) addOutcomes(ctx context.Context) error {
	commits, ctx := errgroup.WithContext(ctx)
	commits.SetLimit(maxCommits)
	freeBytes := semaphore.NewWeighted(maxCommitBytes)
	scorers, scoreCtx := errgroup.WithContext(ctx)
	scorers.SetLimit(runtime.GOMAXPROCS(0))
	r.to.Expect(maxCommits)
	for before, err := range r.From.Outcomes(scoreCtx, runstore.Query{Newest: true, Depth: runstore.Full}) {
		if err != nil {
			scorers.Go(func() error { return err })
			break
		}
		scorers.Go(func() error {
			item, err := r.to.Item(scoreCtx, before.Item)
			if errors.Is(err, runstore.ErrUnknown) {
				return nil // not in the dataset, or listed after the items were copied
			}
			if err != nil {
				return err
			}
			after, err := r.rescoreOutcome(scoreCtx, before, item)
			if err != nil {
				return err
			}
			size := min(maxCommitBytes, sizeOf(after))
			if err := freeBytes.Acquire(scoreCtx, size); err != nil {
				return err
			}
			commits.Go(func() error {
				defer freeBytes.Release(size)
				err := r.to.Commit(ctx, after)
				r.mu.Lock()
				defer r.mu.Unlock()
				callIf(err == nil && r.Moved != nil, func() { r.Moved(before, after) })
				return err
			})
			return nil
		})
	}
	err := scorers.Wait()
	r.to.Expect(-maxCommits)
	return cmp.Or(commits.Wait(), err)
}

// sizeOf returns the approximate size of an outcome in memory, in bytes.
func sizeOf(o outcome.Outcome) int64 {
	n := len(o.Output) + len(o.Explanation)
	for _, call := range o.Calls {
		n += len(call.Input) + len(call.Output)
	}
	return int64(n)
}

// rescoreOutcome scores the output of an outcome.
func (r *rescorer) rescoreOutcome(
	ctx context.Context, before outcome.Outcome, item runstore.Item,
) (outcome.Outcome, error) {
	o := before
	o.Seq, o.Class, o.Failure, o.Scores = 0, outcome.OK, nil, nil
	o.Groups, o.Counts, o.Causes, o.Explanation = nil, nil, nil, nil
	o.CostUSD, o.Calls, o.Judging = new(float64), r.cachedCalls(before.Calls), nil
	o.Warnings = slices.DeleteFunc(slices.Clone(before.Warnings), isOfScoring) // scoring adds those that still hold
	scorer, err := itemScorerOf(r.Scorer, item.Item)
	o.NothingExpected = scorer.nothingExpected
	switch {
	case err != nil:
		o = withFailure(o, nil, outcome.FailureOf(err, outcome.Item))
	case before.Failed() && (len(before.Output) == 0 || !isScoringFailure(before.Class)):
		o = withFailure(o, scorer.ItemScorer, *before.Failure)
	default:
		if o, err = scoreOutcome(ctx, o, scorer.ItemScorer, nil); err != nil {
			return o, err
		}
	}
	o.Scores = append(o.Scores, r.carriedScores(before, o.Failed())...)
	return o, nil
}

// isOfScoring reports whether a warning is by a scorer: of the gold, or of package scoring.
func isOfScoring(warning string) bool {
	begins := func(with string) bool { return strings.HasPrefix(warning, with) }
	return slices.ContainsFunc([]string{GoldWarning, "expected: ", "extracted: "}, begins)
}

// cachedCalls returns the calls of an outcome, marked as cached and without cost. Calls of
// judging models are only kept for scores that are copied.
func (r *rescorer) cachedCalls(before []outcome.Call) []outcome.Call {
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

// carriedScores returns the scores that are copied unchanged, those of a failed item without a value.
func (r *rescorer) carriedScores(before outcome.Outcome, failed bool) []outcome.Score {
	var scores []outcome.Score
	for _, name := range r.carry {
		if s, ok := outcome.Lookup(before.Scores, name); ok {
			if failed {
				s.Value, s.Comment = nil, ""
			}
			scores = append(scores, s)
		}
	}
	return scores
}

// isScoringFailure reports whether a class of failure may be the scoring's, and not the task's.
func isScoringFailure(class outcome.Class) bool {
	return class == outcome.InvalidOutput || class == outcome.Item || class == outcome.Internal
}

// finish writes the footer.
func (r *rescorer) finish(ctx context.Context) error {
	counts, err := r.to.Counts(ctx)
	if err != nil {
		return err
	}
	footer := r.footer
	if !r.ended {
		footer = outcome.Footer{Status: outcome.Interrupted, Ended: time.Now().UTC()}
	}
	if !r.ended || r.Gold != nil {
		footer.Planned = int(counts.Planned)
	}
	return r.to.Finish(ctx, footer)
}
