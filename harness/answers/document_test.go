package answers

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// TestStatements checks which statements of a page are indexed, with which words, and their wording
// in answers.
func TestStatements(t *testing.T) {
	type statement struct{ text, wording string }
	long := strings.Repeat("a", maxHeading+1)
	for name, tt := range map[string]struct {
		text string
		want []statement
	}{
		"sentences under a heading": {"Report\nSales grew. Profit\nfell.", []statement{{"Report Sales grew.", "Sales grew."}, {"Report Profit fell.", "Profit fell."}}},
		"a second heading":          {"One\nText a.\nTwo\nText b.", []statement{{"One Text a.", "Text a."}, {"Two Text b.", "Text b."}}},
		"no heading: goes on below": {"Sales\ngrew.", []statement{{"Sales grew.", "Sales grew."}}},
		"no heading: a sentence":    {"Sales grew.\nProfit fell.", []statement{{"Sales grew.", "Sales grew."}, {"Profit fell.", "Profit fell."}}},
		"no heading: too long":      {long + "\nText.", []statement{{long + " Text.", long + " Text."}}},
		"no heading: nothing below": {"Sales", []statement{{"Sales", "Sales"}}},
		"the longest heading":       {long[1:] + "\nText.", []statement{{long[1:] + " Text.", "Text."}}},
		"page numbers say nothing":  {"Text a\n— 7 —\nстр. 8\n\np. 9\nand b.", []statement{{"Text a and b.", "Text a and b."}}},
		"a table": {"Year | 2022 | 2023\nSales | 95 | 102\nProfit | 8 | 7", []statement{
			{"Year 2022 2023 | Sales | 95 | 102", "Sales — 2022: 95; 2023: 102"}, {"Year 2022 2023 | Profit | 8 | 7", "Profit — 2022: 8; 2023: 7"},
		}},
		"text before and after a table": {"text a.\nYear | 2022\nSales | 95\ntext b.\nCosts | 50", []statement{
			{"text a.", "text a."}, {"Year 2022 | Sales | 95", "Sales — 2022: 95"}, {"text b.", "text b."}, {"Costs | 50", "Costs | 50"},
		}},
		"a row by itself":                {"Sales | 95", []statement{{"Sales | 95", "Sales | 95"}}},
		"rows of different width":        {"Sales | 95\nProfit | 8 | 7", []statement{{"Sales | 95", "Sales | 95"}, {"Profit | 8 | 7", "Profit | 8 | 7"}}},
		"a row before text":              {"Sales | 95\nText.", []statement{{"Sales | 95", "Sales | 95"}, {"Text.", "Text."}}},
		"an empty line ends a table":     {"Year | 2022\nSales | 95\n\nCosts | 50", []statement{{"Year 2022 | Sales | 95", "Sales — 2022: 95"}, {"Costs | 50", "Costs | 50"}}},
		"an empty line goes on in prose": {"Sales\n\ngrew.", []statement{{"Sales grew.", "Sales grew."}}},
		"nothing":                        {"", nil},
	} {
		got := cli.Each(statements(pdf.Page{Text: tt.text}), func(p Passage) statement { return statement{p.Text, p.wording} })
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(statement{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestSentences_ends checks where a sentence ends.
func TestSentences_ends(t *testing.T) {
	for text, sentences := range map[string]int{
		"One… Two": 2, "Really?! Two": 2, "(One.) Two": 2, "one. two": 1, "one. 2": 2, "one. «Two": 2,
		"J. Smith": 1, "no. 5": 1, "e.g. Two": 1, "5. Two": 1, "-. Two": 2, "15. Two": 2, "One, Two": 1, ". Two": 1,
	} {
		if got := Sentences(text); len(got) != sentences {
			t.Errorf("%q: %q, want %d", text, got, sentences)
		}
	}
}

// TestIndex_Find_counts checks that a word counts more if it occurs twice in a passage than if it
// occurs once in one of the same length, and that a word counts once if it occurs twice in the
// question.
func TestIndex_Find_counts(t *testing.T) {
	x := newIndex([]Passage{{Page: 1, Text: "crane gate"}, {Page: 2, Text: "crane crane"}})
	once, twice := x.Find("crane", 2), x.Find("crane crane", 2)
	if len(once) != 2 || once[0].Page != 2 || once[0].Score <= once[1].Score || !reflect.DeepEqual(once, twice) {
		t.Errorf("%+v, %+v", once, twice)
	}
}

// TestDescribe checks the metadata of a run about its document, and the warnings that follow from
// it.
func TestDescribe(t *testing.T) {
	whole := &Document{Path: "dir/a.pdf", Document: pdf.Document{SHA256: "abc", Pages: []pdf.Page{{Number: 1, Kind: pdf.Readable}, {Number: 2, Kind: pdf.Readable}}}}
	own := map[string]string{"team": "x"}
	got := Describe(own, whole, Questions{SHA256: "def"})
	want := map[string]string{
		"team": "x", outcome.PDFSHA256: "abc", outcome.QuestionsSHA256: "def", metaPDF: "a.pdf", metaPages: "2", metaReader: "pdftext@" + pdf.Version,
	}
	if !reflect.DeepEqual(got, want) || len(own) != 1 {
		t.Errorf("%v, want %v; what was handed in became %v", got, want, own)
	}
	if list := DocumentWarnings(outcome.Header{Metadata: got}); list != nil {
		t.Errorf("%q", list)
	}
	if list := DocumentWarnings(outcome.Header{}); list != nil {
		t.Errorf("without a document: %q", list)
	}
	if ScorerOf(outcome.Header{Metadata: got}) != (Scorer{Pages: 2}) || ScorerOf(outcome.Header{}) != (Scorer{}) {
		t.Error("the number of pages is not that of the run")
	}
	whole.DeclaredPages, whole.Repaired, whole.Pages[1].Kind = 3, true, pdf.Scan
	got = Describe(nil, whole, Questions{})
	list := DocumentWarnings(outcome.Header{Metadata: got})
	wantList := []string{
		"a.pdf is damaged; its pages were found by searching the file, and some may be missing",
		"a.pdf claims to have 3 pages, of which 2 were found: 1 are not searched, and pages after them have too low a number",
		"a.pdf has pages that cannot be read and were not searched: 2 (of 2)",
	}
	if !reflect.DeepEqual(list, wantList) {
		t.Errorf("%q, want %q", list, wantList)
	}
	if list := FileWarnings(outcome.Header{Metadata: got}); !reflect.DeepEqual(list, wantList[:2]) {
		t.Errorf("%q, want %q", list, wantList[:2])
	}
}

// fakeAnswerer gives every question the same answer.
type fakeAnswerer struct {
	text  string
	calls []outcome.Call
	err   error
}

func (s fakeAnswerer) Answer(context.Context, string) (Answer, []outcome.Call, error) {
	return Answer{Text: s.text, Pages: []int{2}}, s.calls, s.err
}

// TestTask_Do checks that the result has the answer, its calls and their warnings, and that a
// failed question has calls and warnings too.
func TestTask_Do(t *testing.T) {
	calls := []outcome.Call{{Name: "a", Warnings: []string{"x"}}, {Name: "b"}, {Name: "c", Warnings: []string{"y"}}}
	got, err := Task{fakeAnswerer{"yes", calls, nil}}.Do(t.Context(), experiment.Item{Input: json.RawMessage(`"q"`)})
	want := experiment.TaskResult{Output: json.RawMessage(`{"answer":"yes","pages":[2]}`), Calls: calls, Warnings: []string{"x", "y"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	got, err = Task{fakeAnswerer{"no", calls, context.DeadlineExceeded}}.Do(t.Context(), experiment.Item{Input: json.RawMessage(`"q"`)})
	if err != context.DeadlineExceeded || got.Output != nil || len(got.Calls) != 3 || len(got.Warnings) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err = (Task{fakeAnswerer{}}).Do(t.Context(), experiment.Item{Input: json.RawMessage(`7`)}); outcome.FailureOf(err, outcome.OK).Class != outcome.Item {
		t.Errorf("%v", err)
	}
}

// TestPassages checks that a search is recorded with question, results and times, and can be read
// back.
func TestPassages(t *testing.T) {
	x := newIndex([]Passage{{Page: 1, Text: "a crane"}, {Page: 2, Text: "a gate"}})
	for _, name := range []string{retrieveCall, sentenceCall} {
		found, call := x.findAndRecord(name, "Which crane?", 3)
		if len(found) != 1 || string(call.Input) != `"Which crane?"` || call.Started.IsZero() || call.Ended.Before(call.Started) || time.Since(call.Ended) > time.Minute {
			t.Errorf("%+v, %+v", found, call)
		}
		if got := Passages([]outcome.Call{{Name: "answer", Output: json.RawMessage(`[]`)}, call}); !reflect.DeepEqual(got, found) {
			t.Errorf("%s: %+v, want %+v", name, got, found)
		}
	}
	for _, calls := range [][]outcome.Call{nil, {{Name: "answer", Output: json.RawMessage(`[{"page":1}]`)}}, {{Name: retrieveCall, Output: json.RawMessage(`{}`)}}} {
		if got := Passages(calls); got != nil {
			t.Errorf("%+v: %+v", calls, got)
		}
	}
}
