package runstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
)

func TestRun_whatIsCommittedIsReadAgain(t *testing.T) {
	run := newRun(t, 2)
	want := suite.Fill[outcome.Outcome]()
	large := testOutcome(1, 2000) // its output is packed
	want.Item, want.Seq, want.Output = large.Item, 0, large.Output
	noError(t, run.Commit(t.Context(), want))
	want.Seq = 2 // Commit fills it in

	got := collect(t, run.Reader, Query{Depth: Full})
	if diff := cmp.Diff([]outcome.Outcome{want}, got); diff != "" {
		t.Error("with detail (-want +got):\n", diff)
	}
	want.Detail = outcome.Detail{}
	for i := range want.Scores {
		want.Scores[i].Comment, want.Scores[i].Counts = "", nil
	}
	got = collect(t, run.Reader, Query{})
	if diff := cmp.Diff([]outcome.Outcome{want}, got); diff != "" {
		t.Error("without detail (-want +got):\n", diff)
	}
}

func TestRun_rowsAreSmall(t *testing.T) {
	run := newRun(t, 600)
	commitOutcomes(t, run, 600, 0)
	var size int
	noError(t, run.pool.QueryRow(`SELECT max(length(class) + length(tokens) + length(scores) + 8*8) FROM outcome`).Scan(&size))
	if size > 250 { // 13 scores: 10 ratios of 5 bytes, the rest under 12; the design allows 500
		t.Errorf("a row has %d bytes", size)
	}
}

func TestRun_refusals(t *testing.T) {
	run := newRun(t, 2)
	noError(t, run.Commit(t.Context(), testOutcome(0, 100)))
	changed := func(f func(*outcome.Outcome)) outcome.Outcome {
		o := testOutcome(1, 100)
		f(&o)
		return o
	}
	nan := 0.0
	nan /= nan
	tests := map[string]struct {
		outcome outcome.Outcome
		kind    error
		text    string
	}{
		"same outcome twice": {testOutcome(0, 100), ErrDuplicate, `"item-000000", trial 1, attempt 1`},
		"unknown item":       {testOutcome(7, 100), ErrUnknown, "item-000007"},
		"other seq":          {changed(func(o *outcome.Outcome) { o.Seq = 1 }), ErrUnknown, "item-000001"},
		"trial 0":            {changed(func(o *outcome.Outcome) { o.Trial = 0 }), nil, "count from 1"},
		"NaN score":          {changed(func(o *outcome.Outcome) { o.Scores[0].Value = &nan }), nil, "entity_precision"},
		"NaN without ratio":  {changed(func(o *outcome.Outcome) { o.Scores[0].Value, o.Scores[0].Ratio = &nan, nil }), nil, "not a finite number"},
		"negative judging":   {changed(func(o *outcome.Outcome) { o.Judging = &outcome.Judging{CostUSD: new(-1.0)} }), nil, "a cost"},
		"no share": {changed(func(o *outcome.Outcome) {
			o.Scores[0].Value, o.Scores[0].Ratio = new(1.5), &outcome.Ratio{Num: 3, Den: 2}
		}), nil, "a share is from 0 to 1"},
		"negative ratio":      {changed(func(o *outcome.Outcome) { o.Scores[0].Ratio = &outcome.Ratio{Num: -1, Den: 2} }), nil, "count nothing"},
		"negative weight":     {changed(func(o *outcome.Outcome) { o.Scores[0].Weight = new(-1.0) }), nil, "weight"},
		"negative group":      {changed(func(o *outcome.Outcome) { o.Groups = []outcome.Group{{Kind: "type", Matched: -1}} }), nil, "a count of type"},
		"NaN cost":            {changed(func(o *outcome.Outcome) { o.CostUSD = &nan }), nil, "cost"},
		"output is not JSON":  {changed(func(o *outcome.Outcome) { o.Output = []byte("{") }), nil, "item-000001"},
		"far future":          {changed(func(o *outcome.Outcome) { o.Ended = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC) }), nil, "2262"},
		"failed without why":  {changed(func(o *outcome.Outcome) { o.Class = outcome.Item }), nil, "failure"},
		"failure on success":  {changed(func(o *outcome.Outcome) { o.Failure = &outcome.Failure{} }), nil, "failure"},
		"two problems, both ": {changed(func(o *outcome.Outcome) { o.Attempt, o.CostUSD = 0, &nan }), nil, "1\na cost"},
	}
	for name, test := range tests {
		err := run.Commit(t.Context(), test.outcome)
		if err == nil || test.kind != nil && !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: error %v, want %v with %q", name, err, test.kind, test.text)
		}
	}
	noError(t, run.Commit(t.Context(), testOutcome(1, 100))) // the refusals do not affect the run
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run.Commit(cancelled, testOutcome(1, 100)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestOutcomes_concurrent: each loop takes a second connection while it reads a page.
func TestOutcomes_concurrent(t *testing.T) {
	run := newRun(t, 40)
	commitOutcomes(t, run, 40, 100)
	noError(t, run.Close())
	r := mustLoad(t, run.Path())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var loops errgroup.Group
	for range 16 {
		loops.Go(func() error {
			for range 10 {
				for _, err := range r.Outcomes(ctx, Query{}) {
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	noError(t, loops.Wait())
}

func TestOutcomes_queries(t *testing.T) {
	run := newRun(t, 3)
	commitAttempt(t, run, 2, 1, 1, outcome.Timeout)
	commitAttempt(t, run, 2, 1, 2, outcome.OK)
	commitAttempt(t, run, 1, 2, 2, outcome.Timeout) // attempts can be committed in any order
	commitAttempt(t, run, 1, 2, 1, outcome.Item)
	commitAttempt(t, run, 1, 1, 1, outcome.OK)
	tests := map[string]struct {
		query Query
		want  string // item.trial.attempt
	}{
		"all":          {Query{}, "1.1.1 1.2.1 1.2.2 2.1.1 2.1.2"},
		"newest":       {Query{Newest: true}, "1.1.1 1.2.2 2.1.2"},
		"trial":        {Query{Trial: 2}, "1.2.1 1.2.2"},
		"item":         {Query{Item: "item-000002"}, "2.1.1 2.1.2"},
		"unknown item": {Query{Item: "item-00000"}, ""},
		"class":        {Query{Newest: true, Classes: []outcome.Class{outcome.Timeout, outcome.Item}}, "1.2.2"},
		"success":      {Query{Classes: []outcome.Class{outcome.OK}, Depth: Full}, "1.1.1 2.1.2"},
	}
	for name, test := range tests {
		var got []string
		for _, o := range collect(t, run.Reader, test.query) {
			got = append(got, fmt.Sprintf("%c.%d.%d", o.Item[len(o.Item)-1], o.Trial, o.Attempt))
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestOutcomes_replaced: an attempt that is replaced after it was read does not come a second time
// as the newest one, with the next page.
func TestOutcomes_replaced(t *testing.T) {
	run := newRun(t, 2)
	commitAttempt(t, run, 0, 1, 1, outcome.Timeout)
	commitAttempt(t, run, 1, 1, 1, outcome.OK)
	first, err := run.page(t.Context(), Query{Newest: true}, outcome.Outcome{})
	noError(t, err)
	commitAttempt(t, run, 0, 1, 2, outcome.OK)
	for newest, want := range map[bool]int{true: 1, false: 2} {
		next, err := run.page(t.Context(), Query{Newest: newest}, first[0].Outcome)
		noError(t, err)
		if len(next) != want {
			t.Errorf("newest %t: %d outcomes follow, want %d", newest, len(next), want)
		}
	}
}
