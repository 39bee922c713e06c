package runstore

import (
	"fmt"
	"testing"

	"extraction-experiment/outcome"
)

// TestFailed: Failed returns newest attempts by trial and class, in pages.
func TestFailed(t *testing.T) {
	run := newRun(t, 5)
	ctx := t.Context()
	commitAttempt(t, run, 4, 1, 1, outcome.Timeout)
	commitAttempt(t, run, 0, 1, 1, outcome.Timeout)
	commitAttempt(t, run, 1, 1, 1, outcome.Timeout)
	commitAttempt(t, run, 1, 1, 2, outcome.OK) // succeeded the second time
	commitAttempt(t, run, 2, 1, 1, outcome.Timeout)
	commitAttempt(t, run, 2, 1, 2, outcome.Item) // failed again with another class
	commitAttempt(t, run, 3, 1, 1, outcome.OK)
	commitAttempt(t, run, 3, 2, 1, outcome.Item) // failed in another trial
	for name, test := range map[string]struct {
		trial   int
		classes []outcome.Class
		want    string // seq of item.attempt
		count   int64  // over all trials
	}{
		"any":       {1, nil, "1.1 3.2 5.1 ", 4},
		"a class":   {1, []outcome.Class{outcome.Timeout}, "1.1 5.1 ", 2},
		"two":       {1, []outcome.Class{outcome.Timeout, outcome.Item}, "1.1 3.2 5.1 ", 4},
		"none such": {1, []outcome.Class{outcome.Provider}, "", 0},
		"a trial":   {2, nil, "4.1 ", 4},
	} {
		got := ""
		for after := int64(0); ; {
			page, err := run.Failed(ctx, test.trial, test.classes, after, 2)
			noError(t, err)
			if len(page) == 0 {
				break
			}
			for _, f := range page {
				if f.ID != fmt.Sprintf("item-%06d", f.Seq-1) {
					t.Errorf("%s: the item number %d is %s", name, f.Seq, f.ID)
				}
				got, after = got+fmt.Sprintf("%d.%d ", f.Seq, f.Tried), f.Seq
			}
		}
		if n, err := run.CountFailed(ctx, test.classes); got != test.want || n != test.count || err != nil {
			t.Errorf("%s: %q and %d, want %q and %d: %v", name, got, n, test.want, test.count, err)
		}
	}
}
