package tracking

import (
	"context"
	"fmt"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
)

// Withdrawing the scores of an attempt that a newer one replaced. Langfuse loses
// a deletion that it handles before it has stored the score, and takes its time
// for the others, so each score is deleted once it can be read, and then looked
// for until it is gone. What is to be withdrawn stands in the run file.
const (
	withdrawPage = 50 // attempts looked at together
	// firstLook is the pause before the second look; later ones double up to
	// lookEvery.
	firstLook = 50 * time.Millisecond
	lookEvery = 2 * time.Second
	// deleteAgain is after how long a deletion that shows no effect is repeated.
	deleteAgain = time.Minute
)

// withdrawal is what this process has done to withdraw one attempt's scores.
type withdrawal struct {
	since   time.Time       // of the first look
	deleted time.Time       // when deletions were last asked for
	seen    map[string]bool // scores that could be read
}

// withdraw deletes the scores of replaced attempts and returns when they are
// gone, or how many attempts still have some when Config.Patience is over.
func (p *Publisher) withdraw(ctx context.Context) (left int, err error) {
	begun := p.cfg.Now()
	for pause := firstLook; ; pause = min(2*pause, lookEvery) {
		left, err := p.withdrawOnce(ctx)
		if err != nil || left == 0 || p.cfg.Now().Sub(begun) >= p.cfg.Patience {
			return left, err
		}
		p.wait(ctx, pause, nil, nil)
		if ctx.Err() != nil {
			return left, ctx.Err()
		}
	}
}

func (p *Publisher) withdrawOnce(ctx context.Context) (left int, err error) {
	for after := int64(0); ; {
		page, err := p.cfg.Run.Retracted(ctx, after, withdrawPage)
		if err != nil || len(page) == 0 {
			return left, err
		}
		after = page[len(page)-1].OID
		still, err := p.withdrawPage(ctx, page)
		if err != nil {
			return left, err
		}
		left += still
	}
}

// withdrawPage deletes what can be read of some attempts' scores, acknowledges
// those of which nothing can, and returns how many are left.
func (p *Publisher) withdrawPage(ctx context.Context, page []runstore.Pending) (left int, err error) {
	ids := make([][]string, len(page))
	var all []string
	for i, o := range page {
		for _, s := range (builder{header: p.header}).scores(o) {
			ids[i] = append(ids[i], s.ID)
		}
		all = append(all, ids[i]...)
	}
	readable, err := p.readable(ctx, all)
	if err != nil {
		return 0, err
	}
	var gone []runstore.Ack
	for i, o := range page {
		w := p.withdrawals[o.OID]
		if w == nil {
			w = &withdrawal{since: p.cfg.Now(), seen: map[string]bool{}}
			p.withdrawals[o.OID] = w
		}
		shown, err := p.deleteScores(ctx, ids[i], readable, w)
		if err != nil {
			return 0, err
		}
		// Gone are scores that were there; one that is late may still come.
		late := len(w.seen) < len(ids[i]) && p.cfg.Now().Sub(w.since) < p.cfg.Patience/2
		if shown || late {
			left++
			continue
		}
		delete(p.withdrawals, o.OID)
		gone = append(gone, runstore.Ack{OID: o.OID, Bits: runstore.Withdrawn})
	}
	return left, p.cfg.Run.Ack(context.WithoutCancel(ctx), gone...)
}

// deleteScores asks for the deletion of those of the scores that can be read, at
// once of those that appeared, again of others; it reports whether there are any.
func (p *Publisher) deleteScores(ctx context.Context, ids []string, readable map[string]bool, w *withdrawal) (shown bool, err error) {
	again := p.cfg.Now().Sub(w.deleted) >= deleteAgain
	for _, id := range ids {
		if !readable[id] {
			continue
		}
		shown = true
		if w.seen[id] && !again {
			continue
		}
		if err := p.cfg.Client.DeleteScore(ctx, id); err != nil {
			return shown, err
		}
		w.seen[id], w.deleted = true, p.cfg.Now()
	}
	return shown, nil
}

// readable returns those of the scores that Langfuse shows.
func (p *Publisher) readable(ctx context.Context, ids []string) (map[string]bool, error) {
	found := map[string]bool{}
	if len(ids) == 0 {
		return found, nil
	}
	for s, err := range p.cfg.Client.ReadScores(ctx, p.cfg.Server.Capabilities, langfuse.ScoresQuery{IDs: ids, Limit: 100}) {
		if err != nil {
			return nil, fmt.Errorf("looking for the scores of replaced attempts: %w", err)
		}
		found[s.ID] = true
	}
	return found, nil
}
