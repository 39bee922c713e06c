package runstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
)

func TestRun_whatIsCommittedIsReadAgain(t *testing.T) {
	run := newRun(t, 2)
	want := testOutcome(1, 2000)
	want.Class, want.Failure = outcome.Timeout, &outcome.Failure{Class: outcome.Timeout, Message: "no answer within 30s"}
	want.Calls = []outcome.Call{{Name: "chat", Kind: "generation", Started: testTime, Ended: testTime}}
	noError(t, run.Commit(t.Context(), want))
	want.Seq = 2 // filled in: the second item to arrive

	got := collect(t, run.Reader, Query{Detail: true})
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
	for n := range 600 {
		noError(t, run.Commit(t.Context(), testOutcome(n, 0)))
	}
	var size int
	noError(t, run.db.QueryRow(`SELECT max(length(class) + length(tokens) + length(scores) + 8*8) FROM outcome`).Scan(&size))
	if size > 250 { // 13 scores: 10 ratios of 5 bytes, the rest under 12; design allows 500
		t.Errorf("a row has %d bytes", size)
	}
}

func TestRun_isOneFileAfterClose(t *testing.T) {
	path := Path(t.TempDir(), "", "contracts", "v1")
	run, err := Create(path, testHeader())
	noError(t, err)
	noError(t, run.AddItems(t.Context(), testItems(0, 3), testHash))
	noError(t, run.Commit(t.Context(), testOutcome(0, 100)))
	if got := files(t, filepath.Dir(path)); len(got) != 4 {
		t.Errorf("an open run has %q, want the run with -shm, -wal and .lock", got)
	}
	for _, name := range files(t, filepath.Dir(path)) {
		info, err := os.Stat(filepath.Join(filepath.Dir(path), name))
		noError(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	noError(t, run.Close())
	noError(t, run.Close())
	if got := files(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("a closed run has %q, want one file", got)
	}
	if err := run.Commit(t.Context(), testOutcome(1, 100)); !errors.Is(err, ErrClosed) {
		t.Errorf("commit after close: %v", err)
	}
	copied := filepath.Join(t.TempDir(), "copy.run")
	data, err := os.ReadFile(path)
	noError(t, err)
	noError(t, os.WriteFile(copied, data, 0o400))
	r, err := Load(copied)
	noError(t, err)
	defer r.Close()
	if got := collect(t, r, Query{}); len(got) != 1 {
		t.Errorf("the copy has %d outcomes, want 1", len(got))
	}
}

func TestRun_syncsEveryCommit(t *testing.T) {
	run := newRun(t, 1)
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		var got string
		noError(t, run.writer.tx.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, want %s (2 is FULL)", pragma, got, want)
		}
	}
}

func TestRun_refusals(t *testing.T) {
	run := newRun(t, 2)
	noError(t, run.Commit(t.Context(), testOutcome(0, 100)))
	change := func(f func(*outcome.Outcome)) outcome.Outcome {
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
		"same outcome twice":  {testOutcome(0, 100), ErrDuplicate, `"item-000000", trial 1, attempt 1`},
		"unknown item":        {testOutcome(7, 100), ErrUnknown, "item-000007"},
		"other seq":           {change(func(o *outcome.Outcome) { o.Seq = 1 }), ErrUnknown, "item-000001"},
		"trial 0":             {change(func(o *outcome.Outcome) { o.Trial = 0 }), nil, "count from 1"},
		"NaN score":           {change(func(o *outcome.Outcome) { o.Scores[0].Value = &nan }), nil, "entity_precision"},
		"NaN cost":            {change(func(o *outcome.Outcome) { o.CostUSD = &nan }), nil, "cost"},
		"output is no JSON":   {change(func(o *outcome.Outcome) { o.Output = []byte("{") }), nil, "item-000001"},
		"far future":          {change(func(o *outcome.Outcome) { o.Ended = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC) }), nil, "2262"},
		"failed without why":  {change(func(o *outcome.Outcome) { o.Class = outcome.Item }), nil, "failure"},
		"failure on success":  {change(func(o *outcome.Outcome) { o.Failure = &outcome.Failure{} }), nil, "failure"},
		"two problems, both ": {change(func(o *outcome.Outcome) { o.Attempt, o.CostUSD = 0, &nan }), nil, "1\nits cost"},
	}
	for name, test := range tests {
		err := run.Commit(t.Context(), test.outcome)
		if err == nil || test.kind != nil && !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: error %v, want %v with %q", name, err, test.kind, test.text)
		}
	}
	noError(t, run.Commit(t.Context(), testOutcome(1, 100))) // none of it hindered the run
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run.Commit(cancelled, testOutcome(1, 100)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestRun_addItemsIsAllOrNothing(t *testing.T) {
	run := newRun(t, 2)
	tests := map[string]dataset.Item{
		`item "item-000001": is in the run already`: testItem(1),
		`item "": its id is empty or not UTF-8`:     {Input: []byte("1")},
		`item "x": its input is not JSON`:           {ID: "x", Input: []byte("{")},
	}
	for want, bad := range tests {
		err := run.AddItems(t.Context(), []dataset.Item{testItem(8), bad}, testHash)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	n, err := run.CountItems(t.Context())
	noError(t, err)
	if n != 2 {
		t.Errorf("%d items, want 2", n)
	}
}

func TestRun_headerFooterListing(t *testing.T) {
	run := newRun(t, 2)
	ctx := t.Context()
	if listed, err := run.Listed(ctx); err != nil || listed {
		t.Errorf("listed %v %v before the listing is complete", listed, err)
	}
	noError(t, run.CompleteListing(ctx, "f1"))
	if listed, err := run.Listed(ctx); err != nil || !listed {
		t.Errorf("listed %v %v after it is", listed, err)
	}
	h := testHeader()
	h.RunUID = "other"
	if err := run.SetHeader(ctx, h); err == nil {
		t.Error("the uid of the run was changed")
	}
	footer := outcome.Footer{Status: outcome.Interrupted, Planned: 2, Ended: testTime}
	noError(t, run.Finish(ctx, footer))
	noError(t, run.SetExperiment(ctx, Experiment{1, "exp1", "https://example.org/1"}))
	if got, ok, err := run.Footer(ctx); err != nil || !ok || got != footer {
		t.Errorf("footer %v %v %v", got, ok, err)
	}
	noError(t, run.Commit(ctx, testOutcome(0, 0)))
	if _, ok, err := run.Footer(ctx); err != nil || ok {
		t.Errorf("the footer outlived a commit: %v %v", ok, err)
	}
}

func TestRun_concurrentCommits(t *testing.T) {
	const workers, each = 16, 25
	run := newRun(t, workers*each)
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				errs[w] = errors.Join(errs[w], run.Commit(t.Context(), testOutcome(w*each+i, 500)))
			}
		})
	}
	for range 20 { // readers look on
		last := ""
		for o, err := range run.Outcomes(t.Context(), Query{Detail: true}) {
			noError(t, err)
			if o.Item <= last {
				t.Fatalf("%s after %s", o.Item, last)
			}
			last = o.Item
		}
	}
	wg.Wait()
	noError(t, errors.Join(errs...))
	c, err := run.Counts(t.Context())
	noError(t, err)
	if want := (Counts{Items: 400, Planned: 400, Done: 400}); c != want {
		t.Errorf("counts %+v, want %+v", c, want)
	}
}

func TestRun_closeFlushesOrRefuses(t *testing.T) {
	run := newRun(t, 100)
	var wg sync.WaitGroup
	errs := make([]error, 100)
	for n := range errs {
		wg.Go(func() { errs[n] = run.Commit(context.Background(), testOutcome(n, 100)) })
	}
	noError(t, run.Close())
	wg.Wait()
	committed := 0
	for _, err := range errs {
		if err == nil {
			committed++
		} else if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	r, err := Load(run.Path())
	noError(t, err)
	defer r.Close()
	if got := collect(t, r, Query{}); len(got) != committed {
		t.Errorf("%d outcomes are there, %d were promised", len(got), committed)
	}
}

func TestOpen_errors(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		noError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	run := newRun(t, 200)
	for n := range 200 {
		noError(t, run.Commit(t.Context(), testOutcome(n, 500)))
	}
	noError(t, run.Close())
	whole, err := os.ReadFile(run.Path())
	noError(t, err)
	edit := func(name, statement string) string {
		path := write(name, whole)
		db, err := connect(path, 1)
		noError(t, err)
		_, err = db.Exec(statement)
		noError(t, errors.Join(err, db.Close()))
		return path
	}
	scribbled := append([]byte(nil), whole...)
	for i := 4096; i < 40960; i++ {
		scribbled[i] = 0xff
	}
	tests := map[string]struct {
		path string
		kind error
	}{
		"missing":          {filepath.Join(dir, "none.run"), ErrMissing},
		"missing, as fs":   {filepath.Join(dir, "none.run"), fs.ErrNotExist},
		"a folder":         {dir, ErrNotRun},
		"empty":            {write("empty", nil), ErrNotRun},
		"text":             {write("text", []byte(strings.Repeat("no run ", 1000))), ErrNotRun},
		"other SQLite":     {edit("other", "PRAGMA application_id=7"), ErrNotRun},
		"later format":     {edit("later", "PRAGMA user_version=99"), ErrNewer},
		"cut off":          {write("cut", whole[:len(whole)/2]), ErrDamaged},
		"scribbled":        {write("scribbled", scribbled), ErrDamaged},
		"without header":   {edit("headless", "DELETE FROM meta"), ErrDamaged},
		"header not JSON":  {edit("garbled", "UPDATE meta SET value = 'x'"), ErrDamaged},
		"without a table":  {edit("tableless", "DROP TABLE outcome"), ErrDamaged},
		"with other table": {edit("strange", "DROP TABLE item; CREATE TABLE item(x)"), ErrDamaged},
	}
	for name, test := range tests {
		run, err := Open(test.path)
		if !errors.Is(err, test.kind) {
			t.Errorf("%s: error %v, want %v", name, err, test.kind)
		}
		var f *Fault
		if !errors.As(err, &f) || f.ExitCode() != 64 || !strings.Contains(err.Error(), test.path) {
			t.Errorf("%s: %v does not name the file or has another exit code than 64", name, err)
		}
		if run != nil {
			noError(t, run.Close())
		}
		if _, err := os.Stat(test.path + ".lock"); err == nil {
			t.Errorf("%s: the lock is left behind", name)
		}
	}
}

func TestLoad_damagedRowIsNamed(t *testing.T) {
	for name, statement := range map[string]string{
		"body":    "UPDATE detail SET body = '{' WHERE oid = 2",
		"no body": "DELETE FROM detail WHERE oid = 2",
		"scores":  "UPDATE outcome SET scores = x'01ff' WHERE oid = 2",
		"tokens":  "UPDATE outcome SET tokens = 'x' WHERE oid = 2",
		"type":    "UPDATE outcome SET latency = 'x' WHERE oid = 2",
	} {
		run := newRun(t, 3)
		for n := range 3 {
			noError(t, run.Commit(t.Context(), testOutcome(n, 0)))
		}
		noError(t, run.writer.submit(t.Context(), 0, func(t *tx) error { return t.exec(statement) }))
		var last error
		for _, err := range run.Outcomes(t.Context(), Query{Detail: true}) {
			last = err
		}
		if !errors.Is(last, ErrDamaged) || name != "type" && !strings.Contains(last.Error(), "item-000001") {
			t.Errorf("%s: %v", name, last)
		}
	}
}

func TestCreate_existsAndLocked(t *testing.T) {
	run := newRun(t, 0)
	if _, err := Create(run.Path(), testHeader()); !errors.Is(err, ErrExists) {
		t.Errorf("create over a run: %v", err)
	}
	_, err := Open(run.Path())
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), run.Path()) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second writer: %v", err)
	}
	noError(t, run.Close())
	again, err := Open(run.Path())
	noError(t, err)
	noError(t, again.Close())
}

func TestCreate_isWonByOne(t *testing.T) {
	path := Path(t.TempDir(), "p", "d", "n")
	var wg sync.WaitGroup
	runs, errs := make([]*Run, 8), make([]error, 8)
	for i := range runs {
		wg.Go(func() { runs[i], errs[i] = Create(path, testHeader()) })
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			defer func() { noError(t, runs[i].Close()) }()
		} else if !errors.Is(err, ErrExists) && !errors.Is(err, ErrLocked) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d created it", won)
	}
}

func TestItems(t *testing.T) {
	run := newRun(t, 1300) // three pages
	ctx := t.Context()
	special := dataset.Item{ID: "a\x00b", Input: nil, Metadata: []byte(` {"k": [1.50, "<"]} `), SourceTraceID: "t", SourceObservationID: "o"}
	noError(t, run.AddItems(ctx, []dataset.Item{special}, testHash))

	var seqs int64
	for item, err := range run.Items(ctx) {
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
		if h.ID <= last.ID || h.Hash != "hash-of-"+h.ID {
			t.Fatalf("%v after %v", h, last)
		}
		last, n = h, n+1
	}
	if n != 1301 {
		t.Errorf("%d hashes, want 1301", n)
	}
	got, err := run.Item(ctx, "a\x00b")
	noError(t, err)
	want := Item{Seq: 1301, Hash: "hash-of-a\x00b", Item: special}
	want.Input, want.Metadata = []byte("null"), []byte(`{"k":[1.50,"<"]}`)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
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
	other := testOutcome(5, 0)
	other.Trial = 2
	noError(t, run.Commit(ctx, other))
	take := func(trial int) (seqs []int64) {
		for after := int64(0); ; {
			page, err := run.Unrun(ctx, trial, after, 2)
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
		noError(t, run.AddItems(t.Context(), []dataset.Item{{ID: fmt.Sprint(n), Input: large}}, testHash))
	}
	page, err := run.Unrun(t.Context(), 1, 0, 100)
	noError(t, err)
	if len(page) != 2 { // 3 MiB, 6 MiB: beyond 4 MiB after the second
		t.Errorf("%d items of 3 MiB in a page, want 2", len(page))
	}
}

func TestOutcomes_queries(t *testing.T) {
	run := newRun(t, 3)
	ctx := t.Context()
	commit := func(n, trial, attempt int, class outcome.Class) {
		o := testOutcome(n, 0)
		o.Trial, o.Attempt, o.Class = trial, attempt, class
		if class != outcome.OK {
			o.Failure = &outcome.Failure{Class: class}
		}
		noError(t, run.Commit(ctx, o))
	}
	commit(2, 1, 1, outcome.Timeout)
	commit(2, 1, 2, outcome.OK)
	commit(1, 2, 2, outcome.Timeout) // attempts may come in any order
	commit(1, 2, 1, outcome.Item)
	commit(1, 1, 1, outcome.OK)
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
		"success":      {Query{Classes: []outcome.Class{outcome.OK}, Detail: true}, "1.1.1 2.1.2"},
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

func TestPublishing(t *testing.T) {
	run := newRun(t, 3)
	ctx := t.Context()
	changed := run.Changed()
	for n := range 3 {
		o := testOutcome(n, 0)
		o.Class, o.Failure = outcome.Timeout, &outcome.Failure{Class: outcome.Timeout}
		noError(t, run.Commit(ctx, o))
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
		if got := pending(run.Retracted(ctx, 0, 10)); got != retracted {
			t.Errorf("%s: retracted %q, want %q", step, got, retracted)
		}
	}
	check("committed", "1:0 2:0 3:0", "")
	noError(t, run.Ack(ctx, Ack{1, Link | Spans}, Ack{2, Link}))
	noError(t, run.Ack(ctx, Ack{2, Spans | Scores}, Ack{2, Link}))
	check("acknowledged", "1:3 3:0", "")
	if err := run.Ack(ctx, Ack{3, All}, Ack{99, All}); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown outcome: %v", err)
	}
	if err := run.Ack(ctx, Ack{3, Superseded}); err == nil {
		t.Error("the publisher may not supersede")
	}
	check("refused", "1:3 3:0", "")
	for n := range 3 { // run again: 1 and 2 were published, 3 was not
		o := testOutcome(n, 0)
		o.Attempt, o.Class, o.Failure = 2, outcome.Item, &outcome.Failure{Class: outcome.Item}
		noError(t, run.Commit(ctx, o))
	}
	check("superseded", "4:0 5:0 6:0", "1:11 2:15")
	noError(t, run.Ack(ctx, Ack{1, Withdrawn}, Ack{4, All}))
	check("withdrawn", "5:0 6:0", "2:15")
	c, err := run.Counts(ctx)
	noError(t, err)
	if want := (Counts{Items: 3, Planned: 3, Done: 3, Failed: 3, Published: 1}); c != want {
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
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	if entries, err := List(t.Context(), filepath.Join(dir, "none")); err != nil || len(entries) != 0 {
		t.Errorf("no folder: %v %v", entries, err)
	}
	for _, name := range []string{"a", "b"} {
		run, err := Create(Path(dir, "", "contracts", name), testHeader())
		noError(t, err)
		noError(t, run.AddItems(t.Context(), testItems(0, 2), testHash))
		noError(t, run.Commit(t.Context(), testOutcome(0, 0)))
		if name == "a" {
			noError(t, run.Finish(t.Context(), outcome.Footer{Status: outcome.Interrupted, Planned: 2}))
			noError(t, run.Close())
		} else {
			defer run.Close() // listed while it is written
		}
	}
	noError(t, os.WriteFile(Path(dir, "", "contracts", "c"), []byte("damaged"), 0o600))
	entries, err := List(t.Context(), dir)
	noError(t, err)
	if len(entries) != 3 {
		t.Fatalf("%d entries, want 3", len(entries))
	}
	want := Counts{Items: 2, Planned: 2, Done: 1}
	for i, e := range entries[:2] {
		if e.Err != nil || e.Counts != want || e.Header.Name != "baseline-v1" || (e.Footer != nil) != (i == 0) {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if !errors.Is(entries[2].Err, ErrNotRun) {
		t.Errorf("damaged entry: %v", entries[2].Err)
	}
}
