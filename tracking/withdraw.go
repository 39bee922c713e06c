package tracking

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Withdrawing the scores of an attempt that a newer one replaced. Langfuse loses
// a deletion that it handles before it has stored the score, and takes its time
// for the others, so each score is deleted once it can be read, and then looked
// for until it is gone. What is to be withdrawn, and what was seen of it, is in
// the run file.
const (
	withdrawPage = 50 // attempts looked at together
	// firstLook is the pause before the second look; later ones double up to
	// lookEvery.
	firstLook = 50 * time.Millisecond
	lookEvery = 2 * time.Second
	// deleteAgain is after how long a deletion that shows no effect is repeated.
	deleteAgain = time.Minute
	// lostAfter is how long ago the attempt must have ended whose scores Langfuse
	// shows, for those of the attempt before it, sent earlier and never seen, to be
	// taken for lost.
	lostAfter = time.Hour
)

// withdrawal is what is known of one attempt's scores.
type withdrawal struct {
	since   time.Time       // of this process's first look
	deleted time.Time       // when it last asked for deletions
	seen    map[string]bool // scores that could be read, also by processes before
}

// withdraw deletes the scores of replaced attempts and returns when they are
// gone, or when Config.Patience is over.
func (p *publisher) withdraw(ctx context.Context) error {
	defer p.cfg.Withdrawing(0)
	wait := langfuse.Wait{Timeout: p.cfg.Patience, First: firstLook, Most: lookEvery}
	err := wait.Until(ctx, func(ctx context.Context) (bool, error) {
		left, err := p.withdrawOnce(ctx)
		if left > 0 {
			p.cfg.Withdrawing(left)
		}
		return left == 0, err
	})
	if _, late := errors.AsType[*langfuse.NotYetError](err); late {
		return nil
	}
	return err
}

// withdrawOnce deletes what can be read of the scores of replaced attempts, acknowledges
// those of which nothing can and nothing will, and returns how many are left.
func (p *publisher) withdrawOnce(ctx context.Context) (left int, err error) {
	for after := int64(0); ; {
		page, err := p.cfg.Run.Retracted(ctx, after, withdrawPage)
		if err != nil || len(page) == 0 {
			return left, err
		}
		after = page[len(page)-1].OID
		ids := cli.Each(page, func(o runstore.Pending) []string { return scoreIDs(p.header, o) })
		readable, err := p.cfg.readable(ctx, slices.Concat(ids...))
		if err != nil {
			return left, err
		}
		var gone []runstore.Pending
		for i, o := range page {
			some, err := p.withdrawOf(ctx, o, ids[i], readable)
			if err != nil {
				return left, err
			}
			if some {
				left++
				continue
			}
			delete(p.withdrawals, o.OID)
			gone = append(gone, o)
		}
		if err := p.ack(ctx, runstore.Withdrawn, gone); err != nil {
			return left, err
		}
	}
}

// withdrawOf deletes what can be read of one attempt's scores: at once when some
// appeared, again when they stay. It reports whether some are left, or may still come.
func (p *publisher) withdrawOf(
	ctx context.Context, o runstore.Pending, ids []string, readable map[string]bool,
) (left bool, err error) {
	w, err := p.withdrawal(ctx, o.OID)
	if err != nil {
		return false, err
	}
	unseen := func(id string) bool { return !w.seen[id] }
	shown := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !readable[id] })
	grown := slices.ContainsFunc(shown, unseen)
	if grown { // noted before the deletion: another process must not wait for what is gone
		for _, id := range shown {
			w.seen[id] = true
		}
		if err := p.cfg.Run.SetDeleting(ctx, o.OID, slices.Sorted(maps.Keys(w.seen))); err != nil {
			return true, err
		}
	}
	if grown || len(shown) > 0 && time.Since(w.deleted) >= deleteAgain {
		w.deleted = time.Now()
		if err := p.cfg.deleteScores(ctx, shown); err != nil {
			return true, err
		}
	}
	if len(shown) > 0 || !slices.ContainsFunc(ids, unseen) {
		return len(shown) > 0, nil
	}
	return p.late(ctx, o, w)
}

// withdrawal returns what is known of an attempt's scores.
func (p *publisher) withdrawal(ctx context.Context, oid int64) (*withdrawal, error) {
	if w := p.withdrawals[oid]; w != nil {
		return w, nil
	}
	before, err := p.cfg.Run.Deleting(ctx, oid)
	if err != nil {
		return nil, err
	}
	w := &withdrawal{since: time.Now(), seen: map[string]bool{}}
	for _, id := range before {
		w.seen[id] = true
	}
	p.withdrawals[oid] = w
	return w, nil
}

// late reports whether scores of an attempt that were never seen may still come.
// What Langfuse has accepted is behind others in its queue, for tens of minutes
// now and then; what it did not may never have been sent.
func (p *publisher) late(ctx context.Context, o runstore.Pending, w *withdrawal) (bool, error) {
	if !o.Published.Has(runstore.Scores) {
		return time.Since(w.since) < p.cfg.Patience/2, nil
	}
	attempts, err := p.cfg.Run.Attempts(ctx, o.Item, o.Trial)
	if err != nil || len(attempts) == 0 {
		return true, err
	}
	newest := attempts[len(attempts)-1]
	if time.Since(newest.Ended) < lostAfter {
		return true, nil
	}
	ids := scoreIDs(p.header, newest)
	readable, err := p.cfg.readable(ctx, ids)
	if err != nil || len(readable) < len(ids) {
		return true, err
	}
	readable, err = p.cfg.readable(ctx, scoreIDs(p.header, o)) // which may have come since they were looked for
	return len(readable) > 0, err
}

// scoreIDs returns the ids of an attempt's scores.
func scoreIDs(h outcome.Header, o runstore.Pending) []string {
	return cli.Each(builder{header: h}.scores(o), func(s langfuse.ScoreCreate) string { return s.ID })
}

// readable returns those of the scores that Langfuse shows.
func (s Site) readable(ctx context.Context, ids []string) (map[string]bool, error) {
	found := map[string]bool{}
	if len(ids) == 0 {
		return found, nil
	}
	for score, err := range s.Client.ReadScores(ctx, s.Server.Capabilities, langfuse.ScoresQuery{IDs: ids, Limit: 100}) {
		if err != nil {
			return nil, fmt.Errorf("looking for scores to delete: %w", err)
		}
		found[score.ID] = true
	}
	return found, nil
}
