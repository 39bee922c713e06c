package tracking

import (
	"context"
	"errors"
	"slices"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Withdrawing means deleting the scores of an attempt that a newer one replaced. Langfuse
// loses a deletion that it handles before it has stored the score, and may take long for
// other deletions. Therefore the publisher deletes a score only when Langfuse shows it, and
// then polls until it is gone. The run file records which attempts are to be withdrawn, and
// which of their scores Langfuse has shown.
const (
	withdrawPage = 50 // attempts in one look
	// lookDelayMin is the pause before the second look. Later pauses double up to
	// lookDelayMax.
	lookDelayMin = 50 * time.Millisecond
	lookDelayMax = 2 * time.Second
	// deleteRetryAfter is the time after which a deletion without effect is repeated.
	deleteRetryAfter = time.Minute
	// lostAfter is the time after the end of the newest attempt after which scores of an
	// earlier attempt count as lost, if Langfuse never showed them and shows those of the
	// newest attempt, which were sent later.
	lostAfter = time.Hour
)

// withdrawal is the state of deleting one attempt's scores in this process.
type withdrawal struct {
	firstLook  time.Time
	lastDelete time.Time // time of the last requests for deletion
}

// withdraw deletes the scores of replaced attempts. It returns when they are gone, or after
// Config.Patience.
func (p *publisher) withdraw(ctx context.Context) error {
	wait := langfuse.Wait{Timeout: p.cfg.Patience, MinPause: lookDelayMin, MaxPause: lookDelayMax}
	err := wait.Until(ctx, func(ctx context.Context) (bool, error) {
		left, err := p.withdrawOnce(ctx)
		return left == 0, err
	})
	if _, late := errors.AsType[*langfuse.NotYetError](err); late {
		return nil
	}
	return err
}

// withdrawOnce deletes the scores of replaced attempts that Langfuse shows. It acknowledges
// the attempts whose scores are gone and cannot appear, and returns the number of the others.
func (p *publisher) withdrawOnce(ctx context.Context) (left int, err error) {
	for after := int64(0); ; {
		page, err := p.cfg.Run.ToWithdraw(ctx, after, withdrawPage)
		if err != nil || len(page) == 0 {
			return left, err
		}
		after = page[len(page)-1].OID
		ids := cli.Each(page, func(o runstore.Pending) []string { return scoreIDs(p.header, o) })
		readable, err := p.cfg.readableScores(ctx, slices.Concat(ids...))
		if err != nil {
			return left, err
		}
		var gone []runstore.Pending
		for i, o := range page {
			remains, err := p.withdrawAttempt(ctx, o, ids[i], readable)
			if err != nil {
				return left, err
			}
			if remains {
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

// withdrawAttempt deletes the scores of one attempt that Langfuse shows: at once if some have
// just appeared, and again after deleteRetryAfter. It reports whether some are left or may
// still appear.
func (p *publisher) withdrawAttempt(
	ctx context.Context, o runstore.Pending, ids []string, readable map[string]bool,
) (left bool, err error) {
	seen, err := p.cfg.Run.SeenScores(ctx, o.OID)
	if err != nil {
		return false, err
	}
	w := p.withdrawals[o.OID]
	if w == nil {
		w = &withdrawal{firstLook: time.Now()}
		p.withdrawals[o.OID] = w
	}
	unseen := func(id string) bool { return !slices.Contains(seen, id) }
	visible := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !readable[id] })
	hasNew := slices.ContainsFunc(visible, unseen)
	if hasNew { // stored before the deletion, so that another process does not wait for deleted scores
		seen = slices.Compact(slices.Sorted(slices.Values(append(seen, visible...))))
		if err := p.cfg.Run.SetSeenScores(ctx, o.OID, seen); err != nil {
			return true, err
		}
	}
	if hasNew || len(visible) > 0 && time.Since(w.lastDelete) >= deleteRetryAfter {
		w.lastDelete = time.Now()
		if err := p.cfg.deleteScores(ctx, visible); err != nil {
			return true, err
		}
	}
	if len(visible) > 0 || !slices.ContainsFunc(ids, unseen) {
		return len(visible) > 0, nil
	}
	return p.mayAppear(ctx, o, w)
}

// mayAppear reports whether scores of an attempt that Langfuse never showed may still appear.
// Accepted scores can be in the queue of Langfuse for tens of minutes. Scores without an
// acknowledgement may never have been sent.
func (p *publisher) mayAppear(ctx context.Context, o runstore.Pending, w *withdrawal) (bool, error) {
	if !o.Published.Has(runstore.Scores) {
		return time.Since(w.firstLook) < p.cfg.Patience/2, nil
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
	readable, err := p.cfg.readableScores(ctx, ids)
	if err != nil || len(readable) < len(ids) {
		return true, err
	}
	readable, err = p.cfg.readableScores(ctx, scoreIDs(p.header, o)) // they may have appeared since the last look
	return len(readable) > 0, err
}

// scoreIDs returns the ids of the published scores of an attempt.
func scoreIDs(h outcome.Header, o runstore.Pending) []string {
	return cli.Each(scoreRequests(h, o), func(s langfuse.ScoreCreate) string { return s.ID })
}
