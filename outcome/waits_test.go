package outcome

import (
	"testing"
	"time"
)

func TestWaitsOf(t *testing.T) {
	start := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	call := func(waitedFrom, from, to int) Call {
		return Call{Kind: "generation", Started: at(from), Ended: at(to), Waited: at(from).Sub(at(waitedFrom))}
	}
	tests := map[string]struct {
		calls []Call
		sum   int
		// before has the seconds of waiting before second 0, 1, 2, …
		before []int
	}{
		"none":                     {[]Call{call(0, 0, 3)}, 0, []int{0, 0, 0, 0}},
		"before one call":          {[]Call{call(0, 2, 3)}, 2, []int{0, 1, 2, 2}},
		"one after the other":      {[]Call{call(0, 1, 2), call(2, 4, 5)}, 3, []int{0, 1, 1, 2, 3, 3}},
		"at the same time":         {[]Call{call(0, 2, 4), call(0, 3, 4)}, 2, []int{0, 1, 2, 2, 2}},
		"while another call runs":  {[]Call{call(0, 0, 4), call(1, 3, 5)}, 0, []int{0, 0, 0, 0, 0, 0}},
		"longer than another runs": {[]Call{call(0, 0, 2), call(1, 4, 5)}, 2, []int{0, 0, 0, 1, 2, 2}},
		"within a step": {[]Call{{Kind: "span", Started: at(0), Ended: at(4)}, call(1, 3, 4)}, 2,
			[]int{0, 0, 1, 2, 2}},
		"of a model that judges": {[]Call{{Kind: JudgingKind, Started: at(2), Ended: at(3), Waited: time.Second}}, 0, []int{0, 0, 0, 0}},
		"in no known order":      {[]Call{call(2, 4, 5), call(0, 1, 2)}, 3, []int{0, 1, 1, 2, 3, 3}},
	}
	for name, tt := range tests {
		w := WaitsOf(tt.calls)
		if w.Sum() != time.Duration(tt.sum)*time.Second {
			t.Errorf("%s: %s in all, want %d s", name, w.Sum(), tt.sum)
		}
		for s, want := range tt.before {
			if got := w.Before(at(s)); got != time.Duration(want)*time.Second {
				t.Errorf("%s: %s before second %d, want %d s", name, got, s, want)
			}
		}
	}
}
