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
