package tracking

import (
	"testing"
	"testing/synctest"
)

func newBatch() *round {
	return &round{linked: make(chan struct{}), done: make(chan struct{})}
}

// TestPublisher_waitReady: a fourth round starts when the links of the third are done and
// the first is complete, so that at most three are in memory. The last round starts at once.
func TestPublisher_waitReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := []*round{newBatch(), newBatch(), newBatch()}
		p := &publisher{rounds: rounds}
		ready := make(chan bool, 1)
		go func() { ready <- p.waitReady(nil) }()
		for _, step := range []struct {
			what string
			left chan struct{}
			ok   bool
		}{
			{"the links of the newest", rounds[2].linked, false},
			{"the scores of the second", rounds[1].done, false},
			{"the scores of the first", rounds[0].done, true},
		} {
			close(step.left)
			synctest.Wait()
			if got := len(ready) == 1; got != step.ok {
				t.Errorf("after %s: %v, want %v", step.what, got, step.ok)
			}
		}
		if !<-ready {
			t.Error("the links are there")
		}
	})
	finished := make(chan struct{})
	close(finished)
	if !(&publisher{rounds: []*round{newBatch(), newBatch(), newBatch()}}).waitReady(finished) {
		t.Error("the last round waits")
	}
	failed := newBatch()
	failed.linksFailed = true
	close(failed.linked)
	if (&publisher{rounds: []*round{failed}}).waitReady(nil) || !(&publisher{}).waitReady(nil) {
		t.Error("the next round starts behind links that failed, or not at all")
	}
}
