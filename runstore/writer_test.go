package runstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWriter_takeBatch: a transaction waits up to 15 ms for expected outcomes, until it has 16. A
// write of another kind ends the wait.
func TestWriter_takeBatch(t *testing.T) {
	outcome, ack := &write{bytes: 1, expectsMore: true}, &write{bytes: 1}
	large := &write{bytes: maxBatchBytes, expectsMore: true}
	for _, c := range []struct {
		name     string
		first    *write
		expected int64
		later    []*write // arrive one every 4 ms
		want     int
		took     time.Duration
	}{
		{"nothing is said", outcome, 0, []*write{outcome}, 1, 0},
		{"no other is expected", outcome, 1, []*write{outcome}, 1, 0},
		{"an acknowledgement", ack, 9, []*write{outcome}, 1, 0},
		{"several", outcome, 9, []*write{outcome, outcome, outcome, outcome}, 4, 15 * time.Millisecond}, // after 4, 8, 12 and 16 ms
		{"none comes", outcome, 9, nil, 1, 15 * time.Millisecond},
		{"an acknowledgement ends it", outcome, 9, []*write{outcome, ack, outcome}, 3, 8 * time.Millisecond},
		{"full", outcome, 9, []*write{large, outcome}, 2, 4 * time.Millisecond},
		{"all that are expected", outcome, 2, []*write{outcome, outcome}, 2, 4 * time.Millisecond},
		{"more are expected", outcome, 3, []*write{outcome}, 2, 15 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &writer{queue: make(chan *write)}
				w.expected.Store(c.expected)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for _, next := range c.later {
						time.Sleep(4 * time.Millisecond)
						w.queue <- next
					}
				}()
				began := time.Now()
				got := len(w.takeBatch(c.first))
				if took := time.Since(began); got != c.want || took != c.took {
					t.Errorf("%d writes after %s, want %d after %s", got, took, c.want, c.took)
				}
				for range len(c.later) - got + 1 {
					<-w.queue
				}
				<-ended
			})
		})
	}
	w := &writer{queue: make(chan *write)}
	close(w.queue)
	w.expected.Store(2)
	if got := len(w.takeBatch(outcome)); got != 1 {
		t.Errorf("%d writes of a queue that was closed", got)
	}
}

// TestWriter_takeBatch_full: with 16 outcomes a transaction does not wait, but takes all writes
// that are queued.
func TestWriter_takeBatch_full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{queue: make(chan *write)}
		w.expected.Store(100)
		for range 20 {
			go func() { w.queue <- &write{expectsMore: true} }()
		}
		synctest.Wait()
		began := time.Now()
		if got, took := len(w.takeBatch(&write{expectsMore: true})), time.Since(began); got != 21 || took != 0 {
			t.Errorf("%d writes after %s, want 21 at once", got, took)
		}
	})
}
