package answers_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/dataset"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

func TestRead(t *testing.T) {
	text := "\xef\xbb\xbf" + `{"id":"q1","question":"Когда?","must_include":["2023"],"must_include_any":["a",["b","c"]],"must_not_include":["??"],"require_citation":true,"weight":2.5}` +
		"\r\n\n" + `{"id":"q2","question":"Who?","must_include":null,"weight":0}` + "\n"
	questions, warnings, err := answers.Read([]byte(text), "q.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want := []answers.Question{
		{ID: "q1", Question: "Когда?", Expected: answers.Expected{
			MustInclude: []string{"2023"}, MustIncludeAny: []answers.Group{{"a"}, {"b", "c"}},
			MustNotInclude: []string{"??"}, RequireCitation: true, Weight: new(2.5)}},
		{ID: "q2", Question: "Who?", Expected: answers.Expected{Weight: new(0.0)}},
	}
	if diff := cmp.Diff(want, questions); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"q.jsonl: line 3: the weight is 0: the question counts for nothing in weighted_score",
	}, warnings); diff != "" {
		t.Error(diff)
	}
	for _, q := range questions {
		item := q.Item()
		expected, err := answers.DecodeExpected(item.Expected)
		if diff := cmp.Diff(q.Expected, expected); err != nil || diff != "" {
			t.Errorf("through an item: %v %s", err, diff)
		}
		if question, err := answers.DecodeInput(item.Input); err != nil || question != q.Question {
			t.Errorf("%q %v", question, err)
		}
	}
}

func TestRead_namesEveryProblem(t *testing.T) {
	tests := map[string]string{
		``:                                       "q.jsonl: there is no question",
		"\n \n":                                  "q.jsonl: there is no question",
		`{"question":"a"}`:                       "q.jsonl: line 1: id: is missing",
		`{"id":"a"}`:                             "q.jsonl: line 1: question: is missing",
		`{"id":"a","question":"  "}`:             "q.jsonl: line 1: question: is empty",
		`{"id":7,"question":"a"}`:                "q.jsonl: line 1: id: expected a text, found 7",
		`{"id":"a","question":null}`:             "q.jsonl: line 1: question: expected a text, found null",
		`{"id":"a","question":"b","weight":-1}`:  "q.jsonl: line 1: weight: -1 is not a number from 0",
		`{"id":"a","question":"b","weight":"1"}`: `q.jsonl: line 1: weight: expected a number, found "1"`,
		`{"id":"a","question":"b","weight":1e300}`:                       "q.jsonl: line 1: weight: 1e+300 is not a number",
		`{"id":"a","question":"b","require_citation":"y"}`:               `q.jsonl: line 1: require_citation: expected true or false, found "y"`,
		`{"id":"a","question":"b","must_include":"x"}`:                   "q.jsonl: line 1: must_include: expected a list of texts",
		`{"id":"a","question":"b","must_include_any":[7]}`:               "q.jsonl: line 1: must_include_any: expected a list of texts and of lists",
		`{"id":"a","question":"b","must_include_any":[null]}`:            "q.jsonl: line 1: must_include_any",
		`{"id":"a","question":"b"}` + "\n" + `{"id":"a","question":"c"}`: `q.jsonl: line 2: id: "a" is the id of line 1 already`,
		`[1]`:     "q.jsonl: line 1: is not a JSON object",
		`null`:    "q.jsonl: line 1: is not a JSON object: found null",
		"{\"id\"": "q.jsonl: line 1: is not a JSON object",
		"\n\xff":  "q.jsonl: line 2: is not a JSON object: it is not valid UTF-8",
		`{"id":"a","question":"b","must_inlcude":["x"]}`:            `q.jsonl: line 1: must_inlcude: is not a key of a question; did you mean "must_include"?`,
		`{"id":"a","question":"b","note":1}`:                        "q.jsonl: line 1: note: is not a key of a question; they are must_include, must_include_any, ",
		`{"id":"","question":""}`:                                   "question: is empty",
		`{"id":"a","question":"b","must_include":[null]}`:           "q.jsonl: line 1: must_include: expected a list of texts, found [null]",
		`{"id":"a","question":"b","must_not_include":["x",null]}`:   "q.jsonl: line 1: must_not_include: expected a list of texts",
		`{"id":"a","question":"b","must_include_any":[["x",null]]}`: "q.jsonl: line 1: must_include_any",
		`{"id":"a","question":"b","weight":1,"weight":2}`:           `q.jsonl: line 1: is not a JSON object: the key "weight" is given twice`,
		`"a"`: `q.jsonl: line 1: is not a JSON object: found "a"`,
	}
	for text, want := range tests {
		_, _, err := answers.Read([]byte(text), "q.jsonl")
		if err == nil || !strings.Contains(err.Error(), want) || cli.ExitCode(err) != 64 {
			t.Errorf("%.80q: %v, want %s and exit code 64", text, err, want)
		}
	}
}

// TestExpected_Warnings checks the warnings about terms that no answer can contain, or only
// together with a forbidden term.
func TestExpected_Warnings(t *testing.T) {
	const empty = "a required term or group is empty: it is never found"
	for name, tt := range map[string]struct {
		expected answers.Expected
		want     []string
	}{
		"nothing":             {answers.Expected{}, nil},
		"as it should be":     {answers.Expected{MustInclude: []string{"95 млн"}, MustIncludeAny: []answers.Group{{"x", ""}}, MustNotInclude: []string{"195 млн"}}, nil},
		"an empty term":       {answers.Expected{MustInclude: []string{" "}, MustNotInclude: []string{""}}, []string{"an empty term of must_not_include is never found", empty}},
		"an empty group":      {answers.Expected{MustIncludeAny: []answers.Group{{}, {"", " "}}}, []string{empty, empty}},
		"both at once":        {answers.Expected{MustInclude: []string{"Не более 5 млн"}, MustNotInclude: []string{"x", "БОЛЕЕ 5"}}, []string{`an answer with any of the required ["Не более 5 млн"] also has a term of must_not_include`}},
		"a whole group":       {answers.Expected{MustIncludeAny: []answers.Group{{"a x", "", "b x"}}, MustNotInclude: []string{"X"}}, []string{`an answer with any of the required ["a x" "b x"] also has a term of must_not_include`}},
		"another of a group":  {answers.Expected{MustIncludeAny: []answers.Group{{"a x", "b"}}, MustNotInclude: []string{"x"}}, nil},
		"forbidden is longer": {answers.Expected{MustInclude: []string{"x"}, MustNotInclude: []string{"a x"}}, nil},
	} {
		if got := tt.expected.Warnings(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestRead_inWords checks that errors contain no words of Go.
func TestRead_inWords(t *testing.T) {
	for _, text := range []string{`[1]`, `{"id":[]}`, `7`, `{`, `{"id":"a","question":"b","must_include":{}}`} {
		_, _, err := answers.Read([]byte(text), "q.jsonl")
		if err == nil || strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), "json:") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestReadFile_folder checks that a folder gives an error about the file.
func TestReadFile_folder(t *testing.T) {
	_, err := answers.ReadFile(t.Context(), t.TempDir())
	var syntax *dataset.SyntaxError
	if !errors.As(err, &syntax) || !strings.Contains(err.Error(), "is a folder") {
		t.Error(err)
	}
}

// TestCollect checks that items of a dataset must be questions, and that the error names all that
// are not.
func TestCollect(t *testing.T) {
	good := dataset.Item{ID: "a", Input: json.RawMessage(`"q"`), Expected: json.RawMessage(`{"weight":0}`)}
	q, err := answers.Collect(t.Context(), answers.Questions{Items: []dataset.Item{good}})
	if err != nil || len(q.Items) != 1 || len(q.Warnings) != 1 || !strings.Contains(q.Warnings[0], `item "a": the weight is 0`) {
		t.Errorf("%+v %v", q, err)
	}
	twice := dataset.Item{ID: "d", Input: json.RawMessage(`{"question":"a","question":"b"}`)}
	if _, err = answers.Collect(t.Context(), answers.Questions{Items: []dataset.Item{twice}}); err == nil || !strings.Contains(err.Error(), `the key "question" is given twice`) {
		t.Error(err)
	}
	_, err = answers.Collect(t.Context(), answers.Questions{Items: []dataset.Item{good, {ID: "b", Input: json.RawMessage(`{}`)}, {ID: "c", Input: json.RawMessage(`"q"`), Expected: json.RawMessage(`{"weight":-1}`)}}})
	if cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), `item "b": question: is missing`) || !strings.Contains(err.Error(), `item "c": weight: -1`) {
		t.Error(err)
	}
}

// TestQuestions_sha256 checks that files with the same questions in another order or spelling, and
// the dataset made from them, have the same hash, and that other questions have another hash.
func TestQuestions_sha256(t *testing.T) {
	file := func(text string) answers.Questions {
		t.Helper()
		path := filepath.Join(t.TempDir(), "q.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := answers.ReadFile(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	q := file(`{"id":"b","question":"Когда?","must_include":["2023"],"must_include_any":["x"],"weight":2.0}` + "\n" + `{"id":"a","question":"Who?"}`)
	spelled := file(`{"question": "Who?", "id": "a", "must_include": null}` + "\r\n\r\n" + `{"id":"b","weight":2,"question":"Когда?","must_include_any":[["x"]],"must_include":["2023"]}`)
	stored, err := answers.Collect(t.Context(), answers.Questions{Items: []dataset.Item{
		{ID: "b", Input: json.RawMessage(`{"question":"Когда?"}`), Expected: json.RawMessage(`{"weight":2,"must_include":["2023"],"must_include_any":["x"]}`)},
		{ID: "a", Input: json.RawMessage(`"Who?"`)},
	}})
	if err != nil || q.SHA256 == "" || spelled.SHA256 != q.SHA256 || stored.SHA256 != q.SHA256 {
		t.Errorf("%v: %s, %s, %s", err, q.SHA256, spelled.SHA256, stored.SHA256)
	}
	if other := file(`{"id":"b","question":"Когда?","must_include":["2024"]}`); other.SHA256 == q.SHA256 {
		t.Error("other questions have the same hash")
	}
}

func TestScorer(t *testing.T) {
	item := answers.Question{ID: "a", Question: "b", Expected: answers.Expected{MustInclude: []string{"x", "y"}, RequireCitation: true, Weight: new(3.0)}}.Item()
	judge, err := answers.Scorer{Pages: 5}.ForItem(item)
	if err != nil {
		t.Fatal(err)
	}
	scored, err := judge.Score(json.RawMessage(`{"answer":"x (стр. 6)"}`))
	if err != nil {
		t.Fatal(err)
	}
	primary, _ := outcome.Lookup(scored.Scores, answers.Primary)
	if *primary.Value != 0.65 || *primary.Weight != 3 || primary.Comment != "1/2 required groups found" {
		t.Errorf("%+v", primary)
	}
	if len(scored.Warnings) != 1 || len(scored.Scores) != len(answers.ScoreOrder()) {
		t.Errorf("warnings %q, scores %v", scored.Warnings, scored.Scores)
	}
	// Without an answer all scores but the penalty are listed as missing.
	names := []string{}
	for _, s := range judge.Undelivered() {
		names = append(names, s.Name)
		if s.Value != nil || s.Name == answers.CitationPenalty || s.Name == answers.Primary && *s.Weight != 3 {
			t.Errorf("undelivered %+v", s)
		}
	}
	if !slices.Equal(names, []string{answers.Primary, answers.IncludeRate, answers.SafeOK, answers.BaseScore, answers.HasCitation}) {
		t.Errorf("undelivered %q", names)
	}
	if _, err := judge.Score(json.RawMessage(`7`)); outcome.FailureOf(err, outcome.OK).Class != outcome.InvalidOutput {
		t.Errorf("what is no answer: %v", err)
	}
	for _, bad := range []dataset.Item{
		{Input: json.RawMessage(`{}`)}, {Input: json.RawMessage(`""`)}, {Input: json.RawMessage(`7`)},
		{Input: json.RawMessage(`"q"`), Expected: json.RawMessage(`[]`)}, {Input: json.RawMessage(`"q"`), Expected: json.RawMessage(`{"weight":-1}`)},
	} {
		if _, err := (answers.Scorer{}).ForItem(bad); outcome.FailureOf(err, outcome.OK).Class != outcome.Item {
			t.Errorf("%s %s: %v", bad.Input, bad.Expected, err)
		}
	}
}

// TestScorer_parts checks every part of a score with its ratio and comment, and the warnings about
// cited pages.
func TestScorer_parts(t *testing.T) {
	for name, tt := range map[string]struct {
		expected answers.Expected
		pages    int
		answer   string
		comment  string
		parts    [6]float64 // question_score, include_rate, safe_ok, base_score, citation_penalty, has_citation
		warned   bool
	}{
		// (0.7·1/2 + 0.3·0) − 0.2
		"everything wrong": {answers.Expected{MustInclude: []string{"x", "y"}, MustNotInclude: []string{"bad"}, RequireCitation: true}, 5, "x, bad", "1/2 required groups found, 1 forbidden term, no page cited",
			[6]float64{0.15, 0.5, 0, 0.35, 0.2, 0}, false},
		"nothing asked for":                  {answers.Expected{}, 5, "x (стр. 5)", "0/0 required groups found", [6]float64{1, 1, 1, 1, 0, 1}, false},
		"page 0":                             {answers.Expected{}, 5, "x (стр. 0)", "0/0 required groups found", [6]float64{1, 1, 1, 1, 0, 1}, true},
		"a page of which nothing is known":   {answers.Expected{}, 0, "x (стр. 6)", "0/0 required groups found", [6]float64{1, 1, 1, 1, 0, 1}, false},
		"page 0 of which nothing is known":   {answers.Expected{}, 0, "x (стр. 0)", "0/0 required groups found", [6]float64{1, 1, 1, 1, 0, 1}, true},
		"forbidden, and no term is required": {answers.Expected{MustNotInclude: []string{"x", "z"}}, 5, "x z", "0/0 required groups found, 2 forbidden terms", [6]float64{0.7, 1, 0, 0.7, 0, 0}, false},
	} {
		judge, err := answers.Scorer{Pages: tt.pages}.ForItem(answers.Question{ID: "a", Question: "b", Expected: tt.expected}.Item())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := json.Marshal(answers.Answer{Text: tt.answer})
		if err != nil {
			t.Fatal(err)
		}
		scored, err := judge.Score(answer)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range answers.ScoreOrder() {
			s := scored.Scores[i]
			if s.Name != want || *s.Value != tt.parts[i] {
				t.Errorf("%s: %s is %v, want %s %v", name, s.Name, *s.Value, want, tt.parts[i])
			}
			if yesNo := want == answers.SafeOK || want == answers.HasCitation; yesNo != s.Boolean || yesNo && (s.Ratio.Num != int64(tt.parts[i]) || s.Ratio.Den != 1) {
				t.Errorf("%s: %+v", name, s)
			}
		}
		rate, groups := scored.Scores[1], scored.Counts["include_total"]
		if rate.Ratio.Num != scored.Counts["include_hits"] || rate.Ratio.Den != groups || rate.Vacuous != (groups == 0) || rate.Comment != strings.SplitN(tt.comment, ",", 2)[0] {
			t.Errorf("%s: %+v, %v", name, rate, scored.Counts)
		}
		if got := scored.Scores[0].Comment; got != tt.comment || (len(scored.Warnings) > 0) != tt.warned {
			t.Errorf("%s: %q, warnings %q", name, got, scored.Warnings)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"id":"a","question":"b","must_include_any":["x",["y"]],"weight":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		questions, _, err := answers.Read([]byte(text), "f")
		if (err == nil) == (len(questions) == 0) {
			t.Errorf("%d questions, %v", len(questions), err)
		}
		for _, q := range questions {
			if item := q.Item(); !json.Valid(item.Input) || !json.Valid(item.Expected) || q.ID == "" || q.Importance() < 0 {
				t.Errorf("%+v %+v", q, item)
			}
		}
	})
}
