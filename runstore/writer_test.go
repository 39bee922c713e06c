package runstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWriter_take: outcomes wait 5 ms for others that share their transaction; what does
// not share ends the wait, and so does the last outcome that is expected. One that came alone
// does not wait.
func TestWriter_take(t *testing.T) {
	outcome, ack := &write{bytes: 1, shares: true}, &write{bytes: 1}
	large := &write{bytes: maxBatchBytes, shares: true}
	for _, c := range []struct {
		name  string
		first *write
		more  bool // the transaction before had several
		later []*write
		want  int
		took  time.Duration

		expected int64
	}{
		{"alone", outcome, false, []*write{outcome}, 1, 0, 0},
		{"an acknowledgement", ack, true, []*write{outcome}, 1, 0, 0},
		{"several", outcome, true, []*write{outcome, outcome, outcome}, 3, 5 * time.Millisecond, 0}, // after 2, 4 and 6 ms
		{"none comes", outcome, true, nil, 1, 5 * time.Millisecond, 0},
		{"an acknowledgement ends it", outcome, true, []*write{outcome, ack, outcome}, 3, 4 * time.Millisecond, 0},
		{"full", outcome, true, []*write{large, outcome}, 2, 2 * time.Millisecond, 0},
		{"all that are expected", outcome, true, []*write{outcome, outcome}, 2, 2 * time.Millisecond, 2},
		{"more are expected", outcome, true, []*write{outcome}, 2, 5 * time.Millisecond, 3},
		{"no other is expected", outcome, true, []*write{outcome}, 1, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &writer{queue: make(chan *write)}
				w.expected.Store(c.expected)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for _, one := range c.later {
						time.Sleep(2 * time.Millisecond)
						w.queue <- one
					}
				}()
				began := time.Now()
				got := len(w.take(c.first, c.more))
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
	if got := len(w.take(outcome, true)); got != 1 {
		t.Errorf("%d writes of a queue that was closed", got)
	}
}
