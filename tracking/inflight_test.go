package tracking

import (
	"errors"
	"testing"
	"testing/synctest"
)

func newBatch() *inFlightBatch {
	f := &inFlightBatch{}
	for stage := range f.left {
		f.left[stage] = make(chan struct{})
	}
	return f
}

// TestInFlightBatches_ready: a fourth round starts when the links of the third are there
// and the first has arrived, so that no more than three are in memory; the last one
// starts at once.
func TestInFlightBatches_ready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := inFlightBatches{newBatch(), newBatch(), newBatch()}
		cleared := make(chan bool, 1)
		go func() { cleared <- all.ready(nil) }()
		for _, step := range []struct {
			what string
			left chan struct{}
			ok   bool
		}{
			{"the links of the newest", all[2].left[linked], false},
			{"the scores of the second", all[1].left[scored], false},
			{"the scores of the first", all[0].left[scored], true},
		} {
			close(step.left)
			synctest.Wait()
			if got := len(cleared) == 1; got != step.ok {
				t.Errorf("after %s: %v, want %v", step.what, got, step.ok)
			}
		}
		if !<-cleared {
			t.Error("the links are there")
		}
	})
	finished := make(chan struct{})
	close(finished)
	if !(inFlightBatches{newBatch(), newBatch(), newBatch()}).ready(finished) {
		t.Error("the last round waits")
	}
	failed := newBatch()
	failed.errs[linked] = errors.New("gone")
	close(failed.left[linked])
	if (inFlightBatches{failed}).ready(nil) || !(inFlightBatches{}).ready(nil) {
		t.Error("the next round starts behind links that failed, or not at all")
	}
}
