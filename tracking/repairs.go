package tracking

import (
	"context"
	"errors"
	"fmt"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
)

// repairs gathers what would mend the differences of a page.
type repairs struct {
	resets  []runstore.Reset
	gone    map[int64][]string // scores of withdrawn attempts, some of which are back
	deletes []string           // ids of scores
	trials  map[int]time.Time
	moved   map[int]string // trials to the new ids of their runs
}

// again has a part of an outcome sent again, unchanged.
func (r *repairs) again(oid int64, part runstore.Published) {
	r.resets = append(r.resets, runstore.Reset{OID: oid, Bits: part})
}

// scores has the scores of an outcome sent again; at a later time where they
// were changed.
func (r *repairs) scores(oid int64, later time.Time) {
	r.resets = append(r.resets, runstore.Reset{OID: oid, Bits: runstore.Scores, Corrected: later})
}

// withdraw has those scores of a replaced attempt deleted again that are not gone.
func (r *repairs) withdraw(oid int64, gone []string) {
	if r.gone == nil {
		r.gone = map[int64][]string{}
	}
	r.gone[oid] = gone
	r.resets = append(r.resets, runstore.Reset{OID: oid, Bits: runstore.Withdrawn})
}

// doubled has scores deleted that should not be there.
func (r *repairs) doubled(ids []string) { r.deletes = append(r.deletes, ids...) }

// totals has the scores on the run of a trial sent again.
func (r *repairs) totals(trial int, later time.Time) {
	if r.trials == nil {
		r.trials = map[int]time.Time{}
	}
	r.trials[trial] = latest(r.trials[trial], later)
}

// move gives a trial the id that Langfuse has given it, and sends the scores on
// the run there.
func (r *repairs) move(trial int, id string) {
	if r.moved == nil {
		r.moved = map[int]string{}
	}
	r.moved[trial] = id
	r.totals(trial, time.Now())
}

// apply writes the repairs into the run file, for the publisher to carry out,
// and deletes doubled scores. Without v.mend it only forgets them.
func (r *repairs) apply(ctx context.Context, v *verifier) error {
	todo := *r
	*r = repairs{}
	if v.mend == nil {
		return nil
	}
	for oid, gone := range todo.gone {
		if err := v.mend.Run.SetDeleting(ctx, oid, gone); err != nil {
			return err
		}
	}
	if err := v.mend.Run.Reset(ctx, todo.resets...); err != nil {
		return err
	}
	for trial, id := range todo.moved {
		e := runstore.Experiment{Trial: trial, ID: id, URL: pageOf(*v.mend, v.header, id)}
		if err := v.mend.Run.ReplaceExperiment(ctx, e); err != nil {
			return err
		}
	}
	for trial, later := range todo.trials {
		if err := resetTotals(ctx, v.mend.Run, trial, later); err != nil {
			return err
		}
	}
	// Each of them could be read; whether it goes, the verification that follows sees.
	for _, id := range todo.deletes {
		if err := v.cfg.Client.DeleteScore(ctx, id); err != nil && !errors.Is(err, langfuse.ErrNotFound) {
			return fmt.Errorf("deleting doubled scores: %w", err)
		}
	}
	return nil
}

// resetTotals has the scores of a trial sent again; a zero time is the one that
// they had.
func resetTotals(ctx context.Context, run *runstore.Run, trial int, later time.Time) error {
	said, before, err := run.Totals(ctx, trial)
	if err != nil || !before {
		return err // never said: the publisher will
	}
	said.Acknowledged = false
	if !later.IsZero() {
		said.At = latest(later, said.At.Add(time.Millisecond))
	}
	return run.SetTotals(ctx, said)
}
