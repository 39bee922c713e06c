package runstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/outcome"
)

func TestReset(t *testing.T) {
	run := newRun(t, 3)
	ctx := t.Context()
	commitOutcomes(t, run, 3, 0)
	commitAttempt(t, run, 0, 1, 2, outcome.OK) // OID 4 supersedes OID 1
	noError(t, run.Ack(ctx, All, 1, 2, 3, 4))
	noError(t, run.Ack(ctx, Withdrawn, 1))
	check := func(step, unpublished, retracted string) {
		t.Helper()
		list := func(page []Pending, err error) (text string) {
			noError(t, err)
			for _, p := range page {
				text += fmt.Sprintf("%d:%d ", p.OID, p.Published)
			}
			return text
		}
		if got := list(run.Unpublished(ctx, 0, 10)); got != unpublished {
			t.Errorf("%s: unpublished %q, want %q", step, got, unpublished)
		}
		if got := list(run.ToWithdraw(ctx, 0, 10)); got != retracted {
			t.Errorf("%s: retracted %q, want %q", step, got, retracted)
		}
	}
	check("all sent", "", "")
	noError(t, run.Reset(ctx, Reset{OID: 1, Bits: Withdrawn}, Reset{OID: 2, Bits: Scores}, Reset{OID: 4, Bits: Link | Spans}))
	check("reset", "2:3 4:4 ", "1:15 ")
	if err := run.Reset(ctx, Reset{OID: 3, Bits: All}, Reset{OID: 99, Bits: All}); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown outcome: %v", err)
	}
	if err := run.Reset(ctx, Reset{OID: 1, Bits: Superseded}); err == nil {
		t.Error("a superseded attempt can be made the newest")
	}
	check("refused", "2:3 4:4 ", "1:15 ")
}

func TestReset_corrected(t *testing.T) {
	run := newRun(t, 2)
	ctx := t.Context()
	commitOutcomes(t, run, 2, 0)
	noError(t, run.Ack(ctx, All, 1, 2))
	late := testTime.Add(time.Hour)
	noError(t, run.Reset(ctx, Reset{OID: 2, Bits: Scores, Corrected: late}))
	noError(t, run.Reset(ctx, Reset{OID: 2, Bits: Scores, Corrected: late.Add(-time.Minute)})) // an earlier time is ignored
	page, err := run.Committed(ctx, 0, 10)
	noError(t, err)
	if len(page) != 2 || !page[0].Corrected.IsZero() || !page[1].Corrected.Equal(late) || page[0].Output == nil {
		t.Errorf("committed: %+v", page)
	}
	attempts, err := run.Attempts(ctx, page[1].Item, 1)
	noError(t, err)
	if len(attempts) != 1 || attempts[0].OID != 2 || !attempts[0].Corrected.Equal(late) {
		t.Errorf("attempts: %+v", attempts)
	}
	if none, err := run.Attempts(ctx, "no such item", 1); err != nil || len(none) != 0 {
		t.Errorf("attempts of no item: %v %v", none, err)
	}
}

func TestRunScores(t *testing.T) {
	run := newRun(t, 0)
	ctx := t.Context()
	if _, ok, err := run.RunScores(ctx, 1); err != nil || ok {
		t.Errorf("before: %v %v", ok, err)
	}
	want := RunScores{Trial: 1, Values: map[string]float64{"items_scored": 3, "entity_f1_mean": 0.1}, At: testTime}
	noError(t, run.SetRunScores(ctx, want))
	want.Acknowledged = true
	noError(t, run.SetRunScores(ctx, want))
	got, ok, err := run.RunScores(ctx, 1)
	noError(t, err)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Error(diff)
	}
	if err := run.SetRunScores(ctx, RunScores{}); err == nil {
		t.Error("scores of no trial are taken")
	}
}

func TestDeleting(t *testing.T) {
	run := newRun(t, 0)
	ctx := t.Context()
	if seen, err := run.SeenScores(ctx, 1); err != nil || len(seen) != 0 {
		t.Errorf("before: %v %v", seen, err)
	}
	noError(t, run.SetSeenScores(ctx, 1, []string{"a"}))
	noError(t, run.SetSeenScores(ctx, 1, []string{"a", "b"}))
	for oid, want := range map[int64][]string{1: {"a", "b"}, 2: nil} {
		seen, err := run.SeenScores(ctx, oid)
		noError(t, err)
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("outcome %d: %s", oid, diff)
		}
	}
}
