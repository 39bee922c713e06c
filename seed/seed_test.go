package seed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
)

// TestMain keeps temporary folders in memory.
func TestMain(m *testing.M) {
	suite.InMemory()
	m.Run()
}

// itemLine returns a line of JSONL with a valid item.
func itemLine(id, text string) string {
	return fmt.Sprintf(`{"id":%q,"input":{"document_text":%q,"object_schemas":{"A":{}}},"expectedOutput":{"entities":[],"relationships":[]},"metadata":{"k":1.0}}`+"\n", id, text)
}

// numberedLines returns n lines with the ids i0, i1, ….
func numberedLines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(itemLine(fmt.Sprint("i", i), "x"))
	}
	return b.String()
}

// counts returns the number of created, updated, unchanged and refused items.
func counts(r Result) [4]int { return [4]int{r.Created, r.Updated, r.Unchanged, r.Refused} }

// TestSpecCreateExtractionEvaluationDataset tests the scenario "Create extraction evaluation
// dataset" of the specification.
func TestSpecCreateExtractionEvaluationDataset(t *testing.T) {
	s := newServer(t)
	result := s.mustSeed(itemLine("a", "Ann"), Config{Description: "for tests"})
	if !result.DatasetCreated || result.Dataset.ID == "" || result.Dataset.Description != "for tests" {
		t.Errorf("dataset %+v", result.Dataset)
	}
	item, err := s.GetDatasetItem(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if item.DatasetName != "docs" || item.Status != langfuse.ItemActive {
		t.Errorf("got %+v", item)
	}
	if got := compactJSON(item.Input); got != `{"document_text":"Ann","object_schemas":{"A":{}}}` {
		t.Errorf("input %s", got)
	}
	if got := compactJSON(item.ExpectedOutput); got != `{"entities":[],"relationships":[]}` {
		t.Errorf("expected output %s", got)
	}
}

func TestFile_writesOnlyWhatChanged(t *testing.T) {
	s := newServer(t)
	three := itemLine("a", "one") + itemLine("b", "two") + itemLine("c", "three")
	steps := []struct {
		name, text string
		want       [4]int // created, updated, unchanged, refused
		writes     int
	}{
		{"first", three, [4]int{3, 0, 0, 0}, 3},
		{"again", three, [4]int{0, 0, 3, 0}, 0},
		{"other white space, order of keys, numbers", strings.ReplaceAll(strings.ReplaceAll(three, `"k":1.0`, `"k": 10e-1`), `":`, `" :`), [4]int{0, 0, 3, 0}, 0},
		{"one changed, one new, one gone", itemLine("a", "ONE") + itemLine("b", "two") + itemLine("d", "four"), [4]int{1, 1, 1, 0}, 2},
		{"metadata changed", strings.Replace(itemLine("b", "two"), "1.0", "2", 1), [4]int{0, 1, 0, 0}, 1},
		{"a link to a trace", strings.Replace(itemLine("c", "three"), `"id"`, `"sourceTraceId":"t1","id"`, 1), [4]int{0, 1, 0, 0}, 1},
		{"the link is absent again, and stays", itemLine("c", "three"), [4]int{0, 0, 1, 0}, 0},
	}
	for _, step := range steps {
		result := s.mustSeed(step.text, Config{})
		if counts(result) != step.want || s.writes() != step.writes {
			t.Errorf("%s: got %v, want %v with %d writes", step.name, counts(result), step.want, step.writes)
		}
	}
	if got := len(s.items("docs")); got != 4 {
		t.Errorf("%d items, want a, b, c, d", got)
	}
}

// TestFile_comparesAfterTheServersNormalisation checks that an alteration by Langfuse does not
// count as a change.
func TestFile_comparesAfterTheServersNormalisation(t *testing.T) {
	s := newServer(t)
	text := `{"id":"a","input":{"document_text":"bell \u0007 and \u0085","object_schemas":{"A":{}},"document_type":"x"},` +
		`"expectedOutput":{"entities":[],"relationships":[]},"metadata":"{\"n\": 1.50}"}` + "\n" +
		`{"id":"b","input":{"document_text":"x"},"metadata":null}`
	if got := counts(s.mustSeed(text, Config{})); got != [4]int{2, 0, 0, 0} {
		t.Errorf("first: %v", got)
	}
	result := s.mustSeed(text, Config{})
	if counts(result) != [4]int{0, 0, 2, 0} || result.Report.Warnings.Kinds[Altered] != 2 {
		t.Errorf("again: %v, %v", counts(result), result.Report.Warnings.Kinds)
	}
}

func TestFile_absentFieldsStay(t *testing.T) {
	s := newServer(t)
	s.mustSeed(itemLine("a", "one"), Config{})
	result := s.mustSeed(`{"id":"a","input":{"document_text":"one","object_schemas":{"A":{}}}}`, Config{})
	if counts(result) != [4]int{0, 0, 1, 0} || result.Report.Warnings.Kinds[KeptField] != 2 {
		t.Errorf("%v, %v", counts(result), result.Report.Warnings.Kinds)
	}
}

func TestFile_idOfAnotherDataset(t *testing.T) {
	s := newServer(t)
	s.mustSeed(itemLine("a", "one")+itemLine("b", "two"), Config{Dataset: "first"})
	for _, existing := range []bool{false, true} { // found when writing, then by looking first
		result, err := s.seed(itemLine("a", "one")+itemLine("c", "three"), Config{Dataset: "second"})
		if err != nil || result.Refused != 1 || result.Created+result.Unchanged != 1 || result.DatasetCreated == existing {
			t.Fatalf("%v, %v", counts(result), err)
		}
		want := `f.jsonl: line 1: item a: the id "a" belongs to the dataset "first": ids are unique in a project; give this dataset's ids a prefix, such as --id-prefix "second-"`
		if got := result.Err(); got == nil || !strings.Contains(got.Error(), want) || cli.ExitCode(got) != 4 {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	result := s.mustSeed(itemLine("a", "one"), Config{Dataset: "second", IDPrefix: "second-"})
	if _, ok := s.items("second")["second-a"]; !ok || result.Created != 1 {
		t.Errorf("the prefix did not help: %v", counts(result))
	}
	if got := counts(s.mustSeed(itemLine("a", "one"), Config{Dataset: "second", IDPrefix: "second-"})); got != [4]int{0, 0, 1, 0} {
		t.Errorf("again: %v", got)
	}
}

func TestFile_idThatCannotStandInAPath(t *testing.T) {
	s := newServer(t)
	for _, want := range [][4]int{{3, 0, 0, 0}, {0, 0, 3, 0}} {
		if got := counts(s.mustSeed(itemLine("a/b", "x")+itemLine("50%", "y")+itemLine("..", "z"), Config{})); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	result, err := s.seed(itemLine("a/b", "x"), Config{Dataset: "other"})
	if err != nil || result.Refused != 1 || !strings.Contains(result.Err().Error(), "--id-prefix") {
		t.Errorf("%v, %v, %v", counts(result), err, result.Err())
	}
}

func TestFile_badItemsKeepEverythingOut(t *testing.T) {
	s := newServer(t)
	text := itemLine("a", "one") + "oops\n" + `{"id":"b","input":{}}` + "\n" + itemLine("c", "three")
	result, err := s.seed(text, Config{})
	if cli.ExitCode(err) != 64 || s.writes() != 0 || result.Report.Problems.Total != 2 {
		t.Errorf("%v, %+v", err, result)
	}
	if _, err := s.GetDataset(context.Background(), "docs"); !errors.Is(err, langfuse.ErrNotFound) {
		t.Errorf("the dataset was made: %v", err)
	}
	result, err = s.seed(text, Config{KeepGoing: true})
	if err != nil || counts(result) != [4]int{2, 0, 0, 2} || cli.ExitCode(result.Err()) != 4 {
		t.Errorf("%v, %v, %v", err, counts(result), result.Err())
	}
	_, err = s.seed("oops\n", Config{KeepGoing: true})
	if why := fmt.Sprint(err); !strings.Contains(why, "line 1: ") || !strings.Contains(why, "there are no items") {
		t.Error(err)
	}
	if got := s.items("docs"); len(got) != 2 {
		t.Errorf("%d items", len(got))
	}
}

// TestFile_badItemsOfOneLine checks that only the bad items are left out if one line of a JSON list
// has several.
func TestFile_badItemsOfOneLine(t *testing.T) {
	s := newServer(t)
	trimmed := func(id, text string) string { return strings.TrimSpace(itemLine(id, text)) }
	list := "[" + trimmed("a", "one") + `,7,{"id":"b","input":{}},` + trimmed("c", "three") + "]"
	items := func(yield func(dataset.Located, error) bool) {
		dataset.Read(strings.NewReader(list), dataset.JSON, "f.json")(yield)
	}
	result, err := File(t.Context(), s.Client, items, Config{Dataset: "docs", KeepGoing: true})
	if err != nil || counts(result) != [4]int{2, 0, 0, 2} { // the 7 and b
		t.Errorf("%v, %v", counts(result), err)
	}
	if got := s.items("docs"); got["a"].ID == "" || got["c"].ID == "" || len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestFile_refusals(t *testing.T) {
	tests := map[string]struct {
		text string
		cfg  Config
		want string
	}{
		"nothing":         {"", Config{}, "there are no items"},
		"dataset name":    {itemLine("a", "x"), Config{Dataset: "a//b"}, "two in a row"},
		"dataset name <":  {itemLine("a", "x"), Config{Dataset: "<b>"}, "angle brackets"},
		"dataset blank":   {itemLine("a", "x"), Config{Dataset: " "}, "name of the dataset is missing"},
		"prefix":          {itemLine("a", "x"), Config{IDPrefix: "\n"}, "control characters"},
		"schema":          {itemLine("a", "x"), Config{Schemas: Schemas{Input: []byte(`{"type":7}`)}}, "the schema of input"},
		"too large":       {itemLine("a", strings.Repeat("x", langfuse.MaxItemBytes)), Config{}, "item a: is 4.7 MB"},
		"breaks a schema": {itemLine("a", "x"), Config{Schemas: Schemas{Input: []byte(`{"type":"object","properties":{"topic":{}},"required":["topic"]}`)}}, "missing property 'topic'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			_, err := s.seed(tt.text, tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || cli.ExitCode(err) != 64 || s.writes() != 0 {
				t.Errorf("got %v with exit code %d, want %q", err, cli.ExitCode(err), tt.want)
			}
		})
	}
}

func TestFile_schemaOfTheDataset(t *testing.T) {
	s := newServer(t)
	schema := Schemas{Input: []byte(`{"type":"object","properties":{"document_text":{}},"required":["document_text"]}`)}
	s.mustSeed(itemLine("a", "x"), Config{Schemas: schema})
	if got := counts(s.mustSeed(itemLine("a", "x"), Config{Schemas: schema})); got != [4]int{0, 0, 1, 0} {
		t.Errorf("again: %v", got)
	}
	if s.count["POST /v2/datasets"] != 1 {
		t.Errorf("the dataset was written %d times", s.count["POST /v2/datasets"])
	}
	// The server refuses the item because of its schema, which this call does not have. So does a dry run.
	for dry, want := range map[bool]string{false: "validation failed", true: "item b: input: breaks the dataset's schema: missing"} {
		result, err := s.seed(itemLine("a", "x")+`{"id":"b","input":{"text":"y"}}`, Config{DryRun: dry})
		if err != nil || counts(result) != [4]int{0, 0, 1, 1} || !strings.Contains(result.Err().Error(), want) {
			t.Errorf("%v, %v, %v", err, counts(result), result.Err())
		}
	}
}

func TestFile_dryRun(t *testing.T) {
	s := newServer(t)
	s.mustSeed(itemLine("z", "x"), Config{Dataset: "other"})
	s.mustSeed(itemLine("a", "x"), Config{})
	s.writes()
	for name, tt := range map[string]struct {
		dataset string
		want    [4]int
	}{"existing": {"docs", [4]int{1, 1, 0, 1}}, "new": {"new", [4]int{1, 0, 0, 2}}} {
		result, err := s.seed(itemLine("a", "y")+itemLine("b", "x")+itemLine("z", "x"), Config{Dataset: tt.dataset, DryRun: true})
		if err != nil || counts(result) != tt.want || s.writes() != 0 {
			t.Errorf("%s: %v, %v", name, counts(result), err)
		}
	}
	if _, err := s.GetDataset(context.Background(), "new"); !errors.Is(err, langfuse.ErrNotFound) {
		t.Errorf("a dry run made a dataset: %v", err)
	}
}

// TestFile_brokenAndRepeated checks that a failing server ends the work, and that the same call
// completes it.
func TestFile_brokenAndRepeated(t *testing.T) {
	s := newServer(t)
	text := numberedLines(20)
	s.setIntercept(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if isItemWrite(r) && n > 7 {
			http.Error(w, "on fire", http.StatusBadGateway)
			return true
		}
		return false
	})
	result, err := s.seed(text, Config{})
	if cli.ExitCode(err) != 69 || result.Created != 7 {
		t.Errorf("%v after %v", err, counts(result))
	}
	s.setIntercept(nil)
	if got := counts(s.mustSeed(text, Config{})); got != [4]int{13, 0, 7, 0} {
		t.Errorf("repeated: %v", got)
	}
}

// TestFile_unanswered checks that single unanswered writes are reported and do not stop the others,
// and that the same call writes those items.
func TestFile_unanswered(t *testing.T) {
	s := newServer(t)
	text := numberedLines(20)
	s.setIntercept(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if isItemWrite(r) && n%5 == 2 {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		return false
	})
	result, err := s.seed(text, Config{})
	if cli.ExitCode(err) != 69 || counts(result) != [4]int{16} || result.Unanswered != 4 || !strings.Contains(err.Error(), "for 4 items; run the same command again to continue") {
		t.Errorf("%v after %v", err, counts(result))
	}
	if first := result.Report.Problems.First; len(first) != 4 || !strings.HasPrefix(first[0].Item, "i") || !strings.Contains(first[0].Message, "was not answered") {
		t.Errorf("%+v", first)
	}
	s.setIntercept(nil)
	if got := counts(s.mustSeed(text, Config{})); got != [4]int{4, 0, 16, 0} {
		t.Errorf("repeated: %v", got)
	}
}

// TestFile_rateLimited checks that a server that rejects every write with status 429 ends the work,
// and that the same call completes it.
func TestFile_rateLimited(t *testing.T) {
	s := newServer(t)
	text := numberedLines(40)
	s.setIntercept(func(w http.ResponseWriter, r *http.Request, n int) bool {
		busy := isItemWrite(r) && n > 7
		if busy {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "429 - rate limit exceeded", http.StatusTooManyRequests)
		}
		return busy
	})
	result, err := s.seed(text, Config{})
	if cli.ExitCode(err) != 69 || result.Created != 7 || result.Refused < 5 || !strings.Contains(err.Error(), "writes in a row failed") {
		t.Errorf("%v after %v", err, counts(result))
	}
	s.setIntercept(nil)
	if got := counts(s.mustSeed(text, Config{})); got != [4]int{33, 0, 7, 0} {
		t.Errorf("repeated: %v", got)
	}
}

func TestFile_cancelled(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(context.Background())
	text := numberedLines(300)
	result, err := File(ctx, s.Client, readJSONL(text), Config{Dataset: "docs", Progress: func(format string, _ ...any) {
		if strings.HasPrefix(format, "writing") {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || result.Created < 1 || result.Created > 100 {
		t.Errorf("%v after %v", err, counts(result))
	}
}

func TestFile_progress(t *testing.T) {
	s := newServer(t)
	s.mustSeed(itemLine("a", "x"), Config{})
	var got []string
	s.mustSeed(itemLine("a", "x")+itemLine("b", "x"), Config{Progress: func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) }})
	want := []string{"checking 1", "checking 2", "comparing 1", "writing 1 of 2", "writing 2 of 2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestArchive(t *testing.T) {
	s := newServer(t)
	s.mustSeed(itemLine("a", "x")+itemLine("b", "x"), Config{})
	s.mustSeed(itemLine("o", "x"), Config{Dataset: "other"})
	changes, err := Archive(context.Background(), s.Client, "docs", []string{"a", "a", "none", "o", "", "b"})
	want := []Change{
		{Item: "a", Action: Archived}, {Item: "a", Action: Unchanged},
		{Item: "none", Action: RefusedAction, Reason: "there is no such item"},
		{Item: "o", Action: RefusedAction, Reason: `it belongs to the dataset "other"`},
		{Item: "", Action: RefusedAction, Reason: "the id is empty"},
		{Item: "b", Action: Archived},
	}
	if diff := cmp.Diff(want, changes); diff != "" || cli.ExitCode(err) != cli.ExitFailures {
		t.Errorf("%v\n%s", err, diff)
	}
	if got := s.items("docs"); len(got) != 0 {
		t.Errorf("%d items are left", len(got))
	}
	// Seeding reactivates an archived item with the same content.
	if got := counts(s.mustSeed(itemLine("a", "x"), Config{})); got != [4]int{0, 1, 0, 0} || len(s.items("docs")) != 1 {
		t.Errorf("seeded again: %v", got)
	}
}

func TestExport(t *testing.T) {
	s := newServer(t)
	var text strings.Builder
	for i := range 150 { // more than a page
		text.WriteString(itemLine(fmt.Sprintf("i%03d", (i*7)%150), fmt.Sprint("text <", i, "> é")))
	}
	s.mustSeed(text.String(), Config{})
	for _, format := range []dataset.Format{dataset.JSONL, dataset.JSON, dataset.CSV} {
		var first string
		for range 2 {
			var b bytes.Buffer
			w, err := dataset.NewWriter(&b, format)
			if err != nil {
				t.Fatal(err)
			}
			n, err := Export(context.Background(), s.Client, "docs", w)
			if err != nil || n != 150 {
				t.Fatalf("%d items, %v", n, err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = b.String()
			} else if first != b.String() {
				t.Errorf("%s: two exports differ", format)
			}
		}
		result, err := File(context.Background(), s.Client, func(yield func(dataset.Located, error) bool) {
			dataset.Read(strings.NewReader(first), format, "export")(yield)
		}, Config{Dataset: "docs"})
		if err != nil || counts(result) != [4]int{0, 0, 150, 0} {
			t.Errorf("%s seeded back: %v, %v", format, counts(result), err)
		}
	}
	w, err := dataset.NewWriter(&bytes.Buffer{}, dataset.JSONL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Export(context.Background(), s.Client, "none", w); !errors.Is(err, langfuse.ErrNotFound) {
		t.Errorf("unknown dataset: %v", err)
	}
}

func TestFile_sharedData(t *testing.T) {
	suite.Slow(t, "60 documents, twice")
	const path = "../../shared/data/documents60.jsonl"
	if _, err := os.Stat(path); err != nil {
		t.Skip("the data is not here")
	}
	s := newServer(t)
	for _, want := range [][4]int{{60, 0, 0, 0}, {0, 0, 60, 0}} {
		result, err := File(context.Background(), s.Client, dataset.ReadFile(t.Context(), path), Config{Dataset: "docs"})
		if err != nil || counts(result) != want {
			t.Errorf("got %v, want %v: %v", counts(result), want, err)
		}
	}
}

// TestCheck_sharedData checks that the public data has no problems and only the known warnings.
// Three statements of documents60 are there in both directions although their types are not
// symmetric, two of them between names of the same thing.
func TestCheck_sharedData(t *testing.T) {
	tests := map[string]struct {
		items    int
		warnings map[Kind]int
	}{
		"documents60.jsonl": {60, map[Kind]int{Contradicts: 3}},
		"sentences22.jsonl": {22, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := "../../shared/data/" + name
			if _, err := os.Stat(path); err != nil {
				t.Skipf("%s is not here", name)
			}
			report, err := Check(dataset.ReadFile(t.Context(), path), Config{})
			if err != nil || report.Err() != nil {
				t.Fatalf("%v, %v", err, report.Err())
			}
			if report.Items != tt.items {
				t.Errorf("%d items, want %d", report.Items, tt.items)
			}
			if diff := cmp.Diff(tt.warnings, report.Warnings.Kinds); diff != "" {
				t.Error(diff)
				for _, f := range report.Warnings.First[:min(30, len(report.Warnings.First))] {
					t.Log(f)
				}
			}
		})
	}
}
