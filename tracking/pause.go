package tracking

import (
	"context"
	"time"
)

// wait returns after d (0 is for ever), on a commit, or when the run finishes.
func (p *Publisher) wait(ctx context.Context, d time.Duration, more, finished <-chan struct{}) {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-ctx.Done():
	case <-after:
	case <-more:
	case <-finished:
	}
}

// fill waits until another round is worth its requests, or the run finishes; began is
// when the last one did, or when something came after a pause.
func (p *Publisher) fill(ctx context.Context, began time.Time) {
	if left := time.Until(began.Add(stride)); left > 0 {
		p.wait(ctx, left, nil, p.finished)
	}
	for ctx.Err() == nil && !isClosed(p.finished) {
		more := p.cfg.Run.Changed()
		left := time.Until(began.Add(linger))
		n, err := p.cfg.Run.Waiting(ctx, p.read, many)
		if err != nil || n >= many || left <= 0 {
			return // the round meets the error again
		}
		p.wait(ctx, left, more, p.finished)
	}
}

func pause(failures int) time.Duration {
	return min(firstPause<<min(failures-1, 10), maxPause)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
