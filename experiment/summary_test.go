package experiment_test

import (
	"path/filepath"
	"testing"

	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// TestSummarise_withdrawal: an item whose previous attempt still has scores in Langfuse is waiting.
func TestSummarise_withdrawal(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "r.run")
	run, err := runstore.Create(path, outcome.Header{RunUID: "a", Name: "r", Project: "p", Trials: 1})
	noError(t, err)
	defer func() { noError(t, run.Close()) }()
	noError(t, run.AddItems(ctx, itemsOf(t, 2)))
	for oid, attempt := range []int{1, 1, 2} { // the third replaces the first
		noError(t, run.Commit(ctx, outcome.Outcome{Item: []string{"i00", "i01"}[oid%2], Trial: 1, Attempt: attempt}))
		noError(t, run.Ack(ctx, runstore.All, int64(oid+1)))
	}
	check := func(want outcome.PublishedCount) {
		t.Helper()
		if s, err := experiment.Summarise(ctx, run.Reader, nil, runstore.Brief); err != nil || *s.Published != want {
			t.Errorf("%+v, want %+v, %v", s.Published, want, err)
		}
	}
	check(outcome.PublishedCount{Outcomes: 1, Waiting: 1})
	noError(t, run.Ack(ctx, runstore.Withdrawn, 1))
	check(outcome.PublishedCount{Outcomes: 2})
}

func TestAllowance(t *testing.T) {
	tests := []struct {
		text            string
		failed, planned int
		exceeded        bool
	}{
		{"0", 0, 10, false},
		{"0", 1, 10, true},
		{"3", 3, 10, false}, // exactly the allowed number
		{"3", 4, 10, true},
		{"10%", 1, 10, false}, // 1·100 = 10·10
		{"10%", 2, 10, true},
		{"2.5%", 1, 40, false}, // 1·100 = 2.5·40
		{"2.5%", 1, 39, true},  // 100 > 97.5
		{"0.57%", 57, 10_000, false},
		{"0.57%", 58, 10_000, true},
		{"1e-300%", 1, 10, true},
		{"100%", 5, 5, false},
	}
	for _, tt := range tests {
		a, err := experiment.ParseFailureLimit(tt.text)
		noError(t, err)
		if got := a.Exceeded(tt.failed, tt.planned); got != tt.exceeded {
			t.Errorf("%s: %d of %d exceeded = %v", tt.text, tt.failed, tt.planned, got)
		}
		if string(a) != tt.text {
			t.Errorf("%s is written %s", tt.text, a)
		}
	}
	for _, text := range []string{"", "-1", "3.5", "x", "101%", "-1%", "NaN%", "%", "1e3", "7/2"} {
		if _, err := experiment.ParseFailureLimit(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
		if a := experiment.FailureLimit(text); a.Exceeded(0, 10) || !a.Exceeded(1, 10) {
			t.Errorf("%q does not count as 0", text)
		}
	}
}

func FuzzParseFailureLimit(f *testing.F) {
	f.Add("5%")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := experiment.ParseFailureLimit(text)
		if err != nil {
			return
		}
		if again, err := experiment.ParseFailureLimit(string(a)); err != nil || again != a {
			t.Errorf("%q is read as %v and written %q", text, a, string(a))
		}
	})
}
