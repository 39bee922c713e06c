package runstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWriter_take: outcomes wait 15 ms for others that share their transaction, and are on
// their way; 16 are enough. What does not share ends the wait.
func TestWriter_take(t *testing.T) {
	outcome, ack := &write{bytes: 1, shares: true}, &write{bytes: 1}
	large := &write{bytes: maxBatchBytes, shares: true}
	for _, c := range []struct {
		name     string
		first    *write
		expected int64
		later    []*write // one every 4 ms
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
					for _, one := range c.later {
						time.Sleep(4 * time.Millisecond)
						w.queue <- one
					}
				}()
				began := time.Now()
				got := len(w.take(c.first))
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
	if got := len(w.take(outcome)); got != 1 {
		t.Errorf("%d writes of a queue that was closed", got)
	}
}

// TestWriter_takeEnough: with 16 outcomes a transaction does not wait, and takes those that
// are there already.
func TestWriter_takeEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{queue: make(chan *write)}
		w.expected.Store(100)
		for range 20 {
			go func() { w.queue <- &write{shares: true} }()
		}
		synctest.Wait()
		began := time.Now()
		if got, took := len(w.take(&write{shares: true})), time.Since(began); got != 21 || took != 0 {
			t.Errorf("%d writes after %s, want 21 at once", got, took)
		}
	})
}
