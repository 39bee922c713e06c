package runstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"extraction-experiment/outcome"
)

func TestPublishing(t *testing.T) {
	run := newRun(t, 3)
	ctx := t.Context()
	changed := run.Changed()
	for n := range 3 {
		commitAttempt(t, run, n, 1, 1, outcome.Timeout)
	}
	<-changed
	pending := func(page []Pending, err error) string {
		noError(t, err)
		var list []string
		for _, p := range page {
			if p.Failure == nil {
				t.Error("a pending outcome has no detail")
			}
			list = append(list, fmt.Sprintf("%d:%d", p.OID, p.Published))
		}
		return strings.Join(list, " ")
	}
	check := func(step, unpublished, retracted string) {
		t.Helper()
		if got := pending(run.Unpublished(ctx, 0, 10)); got != unpublished {
			t.Errorf("%s: unpublished %q, want %q", step, got, unpublished)
		}
		all, err := run.Committed(ctx, 0, 10)
		noError(t, err)
		for after := range 7 { // there are at most six outcomes
			if n, want := run.Waiting(int64(after), 2), min(2, max(0, len(all)-after)); n != want {
				t.Errorf("%s: %d wait behind %d, want %d", step, n, after, want)
			}
		}
		if got := pending(run.ToWithdraw(ctx, 0, 10)); got != retracted {
			t.Errorf("%s: retracted %q, want %q", step, got, retracted)
		}
	}
	check("committed", "1:0 2:0 3:0", "")
	noError(t, run.Ack(ctx, Link, 1, 2))
	noError(t, run.Ack(ctx, Spans, 1))
	noError(t, run.Ack(ctx, Spans|Scores, 2, 2)) // the same OID twice
	check("acknowledged", "1:3 3:0", "")
	if err := run.Ack(ctx, All, 3, 99); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown outcome: %v", err)
	}
	if err := run.Ack(ctx, Superseded, 3); err == nil {
		t.Error("the publisher may not supersede")
	}
	check("refused", "1:3 3:0", "")
	for n := range 3 { // run again: OIDs 1 and 2 were published, 3 was not
		commitAttempt(t, run, n, 1, 2, outcome.Item)
	}
	check("superseded", "4:0 5:0 6:0", "1:11 2:15")
	noError(t, run.Ack(ctx, Withdrawn, 1))
	noError(t, run.Ack(ctx, All, 4))
	check("withdrawn", "5:0 6:0", "2:15")
	c, err := run.Counts(ctx)
	noError(t, err)
	if want := (Counts{Items: 3, Planned: 3, Done: 3, Published: 1, ToWithdraw: 1}); c != want {
		t.Errorf("counts %+v, want %+v", c, want)
	}
	if page, err := run.Unpublished(ctx, 5, 10); err != nil || len(page) != 1 || page[0].OID != 6 {
		t.Errorf("after 5: %v %v", page, err)
	}
}

func TestExperiment(t *testing.T) {
	run := newRun(t, 0)
	ctx := t.Context()
	if _, ok, err := run.Experiment(ctx, 1); err != nil || ok {
		t.Errorf("before: %v %v", ok, err)
	}
	noError(t, run.SetExperiment(ctx, Experiment{1, "e1", "u1"}))
	noError(t, run.SetExperiment(ctx, Experiment{1, "e1", "u2"}))
	if err := run.SetExperiment(ctx, Experiment{1, "e2", "u2"}); !errors.Is(err, ErrDuplicate) {
		t.Errorf("another id: %v", err)
	}
	if e, ok, err := run.Experiment(ctx, 1); err != nil || !ok || e != (Experiment{1, "e1", "u2"}) {
		t.Errorf("after: %v %v %v", e, ok, err)
	}
	noError(t, run.ReplaceExperiment(ctx, Experiment{1, "e2", "u3"}))
	if e, ok, err := run.Experiment(ctx, 1); err != nil || !ok || e != (Experiment{1, "e2", "u3"}) {
		t.Errorf("replaced: %v %v %v", e, ok, err)
	}
}
