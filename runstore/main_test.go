package runstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
)

// TestMain runs the tests. In a child process of a test it calls the function that the test wants
// to kill or to limit.
func TestMain(m *testing.M) {
	if act, ok := children()[os.Getenv("RUNSTORE_CHILD")]; ok {
		if err := act(os.Getenv("RUNSTORE_PATH")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	suite.InMemory()
	goleak.VerifyTestMain(m)
}

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)

func testHeader() outcome.Header {
	return outcome.Header{
		Format: outcome.FormatVersion, RunUID: strings.Repeat("ab", 16), Name: "baseline-v1", Harness: "extraction",
		Dataset: outcome.Dataset{ID: "ds1", Name: "contracts"}, System: outcome.System{Model: "baseline", Provider: "baseline"},
		Scorer: outcome.Scorer{Version: "1", Primary: "entity_f1"}, Trials: 1, Environment: "sdk-experiment", Runner: "test", Started: testTime,
	}
}

func testItem(n int) dataset.Item {
	return dataset.Item{
		ID:       fmt.Sprintf("item-%06d", n),
		Input:    json.RawMessage(`{"text":"a <document> & more"}`),
		Expected: json.RawMessage(`{"entities":[]}`),
	}
}

func testItems(from, to int) []dataset.Item {
	items := make([]dataset.Item, 0, to-from)
	for n := from; n < to; n++ {
		items = append(items, testItem(n))
	}
	return items
}

// testOutcome returns an outcome with the twelve scores of an extraction and a detail of about size
// bytes.
func testOutcome(n, size int) outcome.Outcome {
	o := outcome.Outcome{
		Item: fmt.Sprintf("item-%06d", n), Trial: 1, Attempt: 1,
		Started: testTime, Ended: testTime.Add(time.Second), Latency: 900 * time.Millisecond,
		Usage: outcome.Usage{Input: 1200, Output: 300}, CostUSD: new(0.0123),
	}
	names := []string{"precision", "recall", "f1", "exact_f1", "typed_f1", "type_accuracy"}
	for i, family := range []string{"entity_", "relationship_"} {
		for j, name := range names {
			o.Scores = append(o.Scores, outcome.Score{
				Name: family + name, Value: new(float64(j+1) / 9), Ratio: &outcome.Ratio{Num: int64(j + 1), Den: 9},
				Comment: fmt.Sprintf("%d/9 matched", i+j), Counts: outcome.CountsOf(map[string]int64{"matched": int64(j + 1), "expected": 9}),
			})
		}
	}
	o.Scores[5].Value, o.Scores[5].Ratio, o.Scores[5].Reason = nil, nil, "nothing was matched"
	o.Scores = append(o.Scores, outcome.Score{Name: outcome.ErrorScore, Value: new(0.0), Boolean: true})
	var entities []string
	for i := 0; len(entities)*60 < size-800; i++ {
		sum := sha256.Sum256(fmt.Append(nil, i, n)) // a name that does not compress
		entities = append(entities, fmt.Sprintf(`{"name":"%s","type":"organization"}`, base64.StdEncoding.EncodeToString(sum[:27])))
	}
	o.Output = json.RawMessage(`{"entities":[` + strings.Join(entities, ",") + `]}`)
	return o
}

// newRun returns a run with items 0…items-1, closed at the end of the test.
func newRun(t testing.TB, items int) *Run {
	t.Helper()
	run, err := Create(Path(t.TempDir(), "", "contracts", "baseline-v1"), testHeader())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { noError(t, run.Close()) })
	for from := 0; from < items; from += 500 {
		noError(t, run.AddItems(t.Context(), testItems(from, min(from+500, items))))
	}
	return run
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commitOutcomes commits the outcomes of items 0…n-1.
func commitOutcomes(t testing.TB, run *Run, n, size int) {
	t.Helper()
	for i := range n {
		noError(t, run.Commit(t.Context(), testOutcome(i, size)))
	}
}

func commitAttempt(t testing.TB, run *Run, n, trial, attempt int, class outcome.Class) {
	t.Helper()
	o := testOutcome(n, 0)
	o.Trial, o.Attempt, o.Class = trial, attempt, class
	if class != outcome.OK {
		o.Failure = &outcome.Failure{Class: class}
	}
	noError(t, run.Commit(t.Context(), o))
}

// mustOpen opens a run, closed at the end of the test.
func mustOpen(t testing.TB, path string) *Run {
	t.Helper()
	run, err := Open(path)
	noError(t, err)
	t.Cleanup(func() { noError(t, run.Close()) })
	return run
}

// mustLoad loads a run, closed at the end of the test.
func mustLoad(t testing.TB, path string) *Reader {
	t.Helper()
	r, err := Load(path)
	noError(t, err)
	t.Cleanup(func() { noError(t, r.Close()) })
	return r
}

// values returns the values of a sequence without errors.
func values[T any](t testing.TB, seq iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for value, err := range seq {
		noError(t, err)
		list = append(list, value)
	}
	return list
}

// collect returns all outcomes of a query.
func collect(t testing.TB, r *Reader, q Query) []outcome.Outcome {
	t.Helper()
	return values(t, r.Outcomes(context.Background(), q))
}

func export(t testing.TB, r *Reader) string {
	t.Helper()
	var b strings.Builder
	noError(t, r.Export(context.Background(), &b))
	return b.String()
}

// fileNames returns the names of the files in a folder.
func fileNames(t testing.TB, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	noError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, filepath.Base(e.Name()))
	}
	return names
}

func testFooter() outcome.Footer {
	return outcome.Footer{Status: outcome.Complete, Planned: 3, Ended: testTime}
}
