package extraction_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/scoring"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestMain puts temporary folders into memory.
func TestMain(m *testing.M) {
	suite.InMemory()
	m.Run()
}

// extractorFunc extracts with a function and reports one call.
type extractorFunc func(extraction.Document) (extraction.Extraction, error)

func (f extractorFunc) Extract(_ context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	e, err := f(doc)
	return e, []outcome.Call{{Name: "call"}}, err
}

func TestTask(t *testing.T) {
	var seen extraction.Document
	task := &harness.Task{Extractor: extractorFunc(func(doc extraction.Document) (extraction.Extraction, error) {
		seen = doc
		return extraction.Extraction{Entities: []extraction.Entity{{Name: "Ann", Type: "P"}}, Relationships: []extraction.Relationship{}}, nil
	})}
	result, err := task.Do(t.Context(), experiment.Item{Input: json.RawMessage(`{"document_text":"Ann."}`)})
	if err != nil || seen.Text != "Ann." {
		t.Fatalf("%v, the extractor saw %+v", err, seen)
	}
	if want := `{"entities":[{"name":"Ann","type":"P"}],"relationships":[]}`; string(result.Output) != want || len(result.Calls) != 1 {
		t.Errorf("output %s, %d calls", result.Output, len(result.Calls))
	}
}

// trialOf is an Extractor that remembers the trial of its last call, which has a warning.
type trialOf struct{ pipeline.Trial }

func (e *trialOf) Extract(ctx context.Context, _ extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	e.Trial = pipeline.TrialOf(ctx)
	return extraction.Extraction{}, []outcome.Call{{Warnings: []string{"slow"}}}, nil
}

// TestTask_trial checks that the extractor knows the trial, and that no cache answers a second attempt.
func TestTask_trial(t *testing.T) {
	var e trialOf
	for attempt := 1; attempt <= 2; attempt++ {
		item := experiment.Item{Input: json.RawMessage(`{"document_text":"Ann."}`), Trial: 3, Attempt: attempt}
		result, err := (&harness.Task{Extractor: &e}).Do(t.Context(), item)
		if want := (pipeline.Trial{Number: 3, SkipCache: attempt > 1}); err != nil || e.Trial != want {
			t.Errorf("%+v, %v", e.Trial, err)
		}
		if w := result.Warnings; len(w) != 2 || !strings.Contains(w[0], "no schemas") || w[1] != "slow" {
			t.Errorf("%q", w)
		}
	}
}

func TestTask_failures(t *testing.T) {
	broken := errors.New("no answer")
	task := &harness.Task{Extractor: extractorFunc(func(extraction.Document) (extraction.Extraction, error) { return extraction.Extraction{}, broken })}
	result, err := task.Do(t.Context(), experiment.Item{Input: json.RawMessage(`{"document_text":"Ann."}`)})
	if !errors.Is(err, broken) || len(result.Calls) != 1 {
		t.Errorf("%v, %d calls: the calls of a failed extraction count", err, len(result.Calls))
	}
	_, err = task.Do(t.Context(), experiment.Item{Input: json.RawMessage(`{"document_text":""}`)})
	var failure *outcome.Failure
	if !errors.As(err, &failure) || failure.Class != outcome.Item {
		t.Errorf("no text: %v", err)
	}
}

// TestScorer_goldKeys checks that each unknown key of the expected output is named once, however
// many elements have it.
func TestScorer_goldKeys(t *testing.T) {
	scored, err := judge(t, "", `{"entities":[{"name":"Ann","type":"P","kind":"x"}],"relationships":[
		{"from":"Ann","to":"Bob","type":"knows"},{"from":"Bob","to":"Ann","type":"knows"}],"annotator":"me"}`).Score(json.RawMessage(`{"entities":[{"name":"Ann","type":"P","of":1}]}`))
	want := []string{
		`expected output: entities: unknown keys are kept but not used: "kind"`,
		`expected output: relationships: unknown keys are kept but not used: "from", "to"`,
		`expected output: extraction: unknown keys are kept but not used: "annotator"`,
		`entities[0]: unknown keys are kept but not used: "of"`,
	}
	if err != nil || len(scored.Warnings) < len(want) || !cmp.Equal(scored.Warnings[:len(want)], want) {
		t.Errorf("got %q, %v", scored.Warnings, err)
	}
}

// recordingExtractor records its documents and extracts nothing.
type recordingExtractor struct{ documents []extraction.Document }

func (r *recordingExtractor) Extract(_ context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	r.documents = append(r.documents, doc)
	return extraction.Extraction{}, nil, nil
}

// TestTask_decoded checks that the task uses the document that the scorer has decoded, decodes the
// input itself if there is none, and gets nothing of the expected output.
func TestTask_decoded(t *testing.T) {
	const input = `{"document_text":"Ann","object_schemas":{"Person":{"description":"p"}},"odd":1}`
	shared := judge(t, input, `{"entities":[{"name":"Secret","type":"Person"}]}`).(interface{ Decoded() any }).Decoded()
	if text := fmt.Sprintf("%+v", shared); strings.Contains(text, "Secret") || !strings.Contains(text, "Ann") {
		t.Errorf("shared: %s", text)
	}
	var extractor recordingExtractor
	task := &harness.Task{Extractor: &extractor}
	alone, err := task.Do(t.Context(), experiment.Item{ID: "a", Input: json.RawMessage(input)})
	if err != nil {
		t.Fatal(err)
	}
	// The input is not a document, so the task can only have used the decoded one.
	with, err := task.Do(t.Context(), experiment.Item{ID: "a", Input: json.RawMessage(`[]`), Decoded: shared})
	if err != nil || !cmp.Equal(extractor.documents[0], extractor.documents[1], cmpopts.IgnoreUnexported(extraction.Document{})) || !cmp.Equal(alone, with) || len(with.Warnings) == 0 {
		t.Errorf("%v, %+v and %+v", err, alone, with)
	}
}

// TestTask_accepts checks that a dataset of questions is refused.
func TestTask_accepts(t *testing.T) {
	accepts := func(inputs ...string) error {
		var page []experiment.Item
		for _, input := range inputs {
			page = append(page, experiment.Item{ID: "a", Input: json.RawMessage(input)})
		}
		return new(harness.Task).Accepts(page)
	}
	if err := accepts(`{"question":"Who?"}`, `null`); err == nil || cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "experiment answers run") {
		t.Error(err)
	}
	for _, input := range []string{`{"document_text":"x","question":"Who?"}`, `{"text":"x"}`, `"x"`, `{}`} {
		if err := accepts(input, `{"question":"Who?"}`); err != nil {
			t.Errorf("%s: %v", input, err)
		}
	}
}

func newScorer(t *testing.T) harness.Scorer {
	t.Helper()
	rules, err := scoring.New(scoring.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return harness.Scorer{Rules: rules}
}

func judge(t *testing.T, input, expected string) experiment.ItemScorer {
	t.Helper()
	j, err := newScorer(t).ForItem(dataset.Item{ID: "a", Input: json.RawMessage(input), Expected: json.RawMessage(expected)})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func score(t *testing.T, j experiment.ItemScorer, output string) experiment.Scored {
	t.Helper()
	scored, err := j.Score(json.RawMessage(output))
	if err != nil {
		t.Fatal(err)
	}
	return scored
}

func TestScorer(t *testing.T) {
	j := judge(t, "", `{"entities":[{"name":"Ann","type":"P"},{"name":"Zoe","type":"P"}],"relationships":[]}`)
	scored := score(t, j, `{"entities":[{"name":"ANN","type":"p"}]}`)
	// 1 matched of 2 expected and 1 extracted: P = 1/1, R = 1/2, F1 = 2/3.
	for name, want := range map[string]float64{"entity_precision": 1, "entity_recall": 0.5, "entity_f1": 2.0 / 3, "type_accuracy": 1, "relationship_accuracy": 1} {
		if s, ok := outcome.Lookup(scored.Scores, name); !ok || *s.Value != want {
			t.Errorf("%s is %+v, want %v", name, s, want)
		}
	}
	var why scoring.Explanation
	if err := json.Unmarshal(scored.Explanation, &why); err != nil || len(why.Entities) != 1 || len(why.MissedEntities) != 1 {
		t.Errorf("the explanation is %s (%v)", scored.Explanation, err)
	}
	if scored.Counts["matched_entities"] != 1 || len(scored.Groups) == 0 {
		t.Errorf("counts %v, groups %v", scored.Counts, scored.Groups)
	}
	if _, err := j.Score(json.RawMessage(`{"entities":7}`)); err == nil || !strings.Contains(err.Error(), "invalid_output") {
		t.Errorf("an output that is not an extraction: %v", err)
	}
}

// TestScorer_causes checks that an entity whose name is not in the document counts as invented, and
// that none does without a document.
func TestScorer_causes(t *testing.T) {
	for input, want := range map[string][]outcome.Cause{
		`{"document_text":"Ada Love-\nlace left London."}`: {{What: "entity", Name: "invented", Count: 1}, {What: "entity", Name: "missed", Count: 1}, {What: "entity", Name: "spurious", Count: 1}},
		`null`: {{What: "entity", Name: "spurious", Count: 2}, {What: "entity", Name: "missed", Count: 1}},
	} {
		j := judge(t, input, `{"entities":[{"name":"London"}]}`)
		scored := score(t, j, `{"entities":[{"name":"Ada Lovelace"},{"name":"Charles Babbage"}]}`)
		if diff := cmp.Diff(want, scored.Causes); diff != "" {
			t.Errorf("%s (-want +got)\n%s", input, diff)
		}
		var why scoring.Explanation
		if err := json.Unmarshal(scored.Explanation, &why); err != nil || len(why.Faults) != 3 {
			t.Errorf("%v %+v", err, why.Faults)
		}
	}
}

func TestScorer_undelivered(t *testing.T) {
	for expected, want := range map[string][]string{
		`{"entities":[{"name":"Ann","type":"P"}]}`: {"entity_f1", "type_accuracy"},
		`{"entities":[{"name":"Ann"}]}`:            {"entity_f1"},
		`{"relationships":[]}`:                     {"relationship_f1"},
		`null`:                                     {},
	} {
		got := map[string]bool{}
		for _, s := range judge(t, "", expected).Undelivered() {
			got[s.Name] = true
			if s.Value != nil || s.Reason == "" {
				t.Errorf("%s: %+v has a value or no reason", expected, s)
			}
		}
		for _, name := range want {
			if !got[name] {
				t.Errorf("%s: %s is not among %v", expected, name, got)
			}
		}
		if len(want) == 0 && len(got) > 0 || strings.Contains(expected, "relation") && got["entity_f1"] || !strings.Contains(expected, "type") && got["type_accuracy"] {
			t.Errorf("%s defines %v", expected, got)
		}
	}
}

func TestScorer_goldOfTheWrongShape(t *testing.T) {
	_, err := newScorer(t).ForItem(dataset.Item{Expected: json.RawMessage(`{"entities":{}}`)})
	var failure *outcome.Failure
	if !errors.As(err, &failure) || failure.Class != outcome.Item {
		t.Errorf("got %v", err)
	}
}
