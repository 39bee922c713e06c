package runstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

func TestRun_addItemsIsAllOrNothing(t *testing.T) {
	run := newRun(t, 2)
	tests := map[string]dataset.Item{
		`item "item-000001": is in the run already`: testItem(1),
		`item "": its id is empty or not UTF-8`:     {Input: []byte("1")},
		`input of item "x": is not JSON`:            {ID: "x", Input: []byte("{")},
	}
	for want, bad := range tests {
		err := run.AddItems(t.Context(), []dataset.Item{testItem(8), bad})
		if err == nil || !strings.Contains(err.Error(), want) || bad.ID != "x" && cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("error %v with exit code %d, want %q", err, cli.ExitCode(err), want)
		}
	}
	n, err := run.CountItems(t.Context())
	noError(t, err)
	if n != 2 {
		t.Errorf("%d items, want 2", n)
	}
}

func TestItems(t *testing.T) {
	run := newRun(t, 1300) // three pages
	ctx := t.Context()
	special := dataset.Item{ID: "a\x00b", Input: nil, Metadata: []byte(` {"k": [1.50, "<"]} `), SourceTraceID: "t", SourceObservationID: "o"}
	noError(t, run.AddItems(ctx, []dataset.Item{special}))

	var seqs int64
	hashes := map[string]string{}
	for item, err := range run.Items(ctx) {
		noError(t, err)
		hashes[item.ID], err = dataset.Hash(item.Item)
		noError(t, err)
		if seqs++; item.Seq != seqs {
			t.Fatalf("seq %d, want %d", item.Seq, seqs)
		}
	}
	if seqs != 1301 {
		t.Errorf("%d items, want 1301", seqs)
	}
	last := ItemHash{}
	n := 0
	for h, err := range run.Hashes(ctx) {
		noError(t, err)
		if h.ID <= last.ID || h.Hash != hashes[h.ID] {
			t.Fatalf("%v after %v, want %q", h, last, hashes[h.ID])
		}
		last, n = h, n+1
	}
	if n != 1301 {
		t.Errorf("%d hashes, want 1301", n)
	}
	got, err := run.Item(ctx, "a\x00b")
	noError(t, err)
	want := Item{Seq: 1301, Hash: hashes["a\x00b"], Item: special}
	want.Input, want.Metadata = []byte("null"), []byte(`{"k":[1.50,"<"]}`)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	noError(t, run.AddItems(ctx, []dataset.Item{{ID: "traced", SourceTraceID: "t"}}))
	if got, err := run.Item(ctx, "traced"); err != nil || got.SourceTraceID != "t" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := run.Item(ctx, "none"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

func TestUnrun(t *testing.T) {
	run := newRun(t, 10)
	ctx := t.Context()
	for _, n := range []int{0, 2, 3, 9} {
		noError(t, run.Commit(ctx, testOutcome(n, 0)))
	}
	commitAttempt(t, run, 5, 2, 1, outcome.OK)
	take := func(trial int) (seqs []int64) {
		for after := int64(0); ; {
			page, err := run.WithoutOutcome(ctx, trial, after, 2)
			noError(t, err)
			if len(page) == 0 {
				return seqs
			}
			for _, item := range page {
				seqs = append(seqs, item.Seq)
				after = item.Seq
			}
		}
	}
	if diff := cmp.Diff([]int64{2, 5, 6, 7, 8, 9}, take(1)); diff != "" {
		t.Error("trial 1:", diff)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5, 7, 8, 9, 10}, take(2)); diff != "" {
		t.Error("trial 2:", diff)
	}
}

func TestUnrun_pagesAreBoundedInBytes(t *testing.T) {
	run := newRun(t, 0)
	large := []byte(`"` + strings.Repeat("x", 3<<20) + `"`)
	for n := range 5 {
		noError(t, run.AddItems(t.Context(), []dataset.Item{{ID: fmt.Sprint(n), Input: large}}))
	}
	page, err := run.WithoutOutcome(t.Context(), 1, 0, 100)
	noError(t, err)
	if len(page) != 2 { // 6 MiB exceed the 4 MiB of a page
		t.Errorf("%d items of 3 MiB in a page, want 2", len(page))
	}
}
