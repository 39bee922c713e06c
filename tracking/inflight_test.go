package tracking

import (
	"errors"
	"testing"
	"testing/synctest"
)

func newBatch() *inFlightBatch {
	f := &inFlightBatch{}
	for stage := range f.done {
		f.done[stage] = make(chan struct{})
	}
	return f
}

// TestInFlightBatches_waitReady: a fourth round starts when the links of the third are done and
// the first is complete, so that at most three are in memory. The last round starts at once.
func TestInFlightBatches_waitReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := inFlightBatches{newBatch(), newBatch(), newBatch()}
		ready := make(chan bool, 1)
		go func() { ready <- rounds.waitReady(nil) }()
		for _, step := range []struct {
			what string
			left chan struct{}
			ok   bool
		}{
			{"the links of the newest", rounds[2].done[stageLinks], false},
			{"the scores of the second", rounds[1].done[stageScores], false},
			{"the scores of the first", rounds[0].done[stageScores], true},
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
	if !(inFlightBatches{newBatch(), newBatch(), newBatch()}).waitReady(finished) {
		t.Error("the last round waits")
	}
	failed := newBatch()
	failed.errs[stageLinks] = errors.New("gone")
	close(failed.done[stageLinks])
	if (inFlightBatches{failed}).waitReady(nil) || !(inFlightBatches{}).waitReady(nil) {
		t.Error("the next round starts behind links that failed, or not at all")
	}
}
