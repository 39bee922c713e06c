package extraction_test

import (
	"encoding/json"
	"testing"

	"extraction-experiment/dataset"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// TestGrounding works the rates out by hand; the document is "Ann  Lee met Bob
// in Rome."
func TestGrounding(t *testing.T) {
	rules, err := scoring.New(scoring.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	input := json.RawMessage(`{"document_text":"Ann  Lee met Bob in Rome."}`)
	for output, want := range map[string][2]any{
		// By name, tolerant of white space and case; Zoe is invented: 2/3, 1/3.
		`{"entities":[{"name":"ann lee"},{"name":"Bob"},{"name":"Zoe"}]}`: {2.0 / 3, 1.0 / 3},
		// An alias will do; part of a word will not.
		`{"entities":[{"name":"Dr. L.","aliases":["Ann Lee"]},{"name":"Rom"}]}`: {0.5, 0.5},
		// A good quote grounds a name that does not occur; a false quote of a name
		// that does occur neither grounds nor invents: 1/2, 0.
		`{"entities":[{"name":"the couple","mentions":[{"quote":"Ann Lee met Bob","start":0,"end":16}]},{"name":"Rome","mentions":[{"quote":"in Paris","start":17,"end":25}]}]}`: {0.5, 0.0},
		// One of two quotes is enough.
		`{"entities":[{"name":"x","mentions":[{"quote":"Paris","start":0,"end":5},{"quote":"Rome","start":0,"end":4}]}]}`: {1.0, 0.0},
		`{"entities":[]}`: {nil, nil},
	} {
		for _, expected := range []string{`null`, `{"entities":[{"name":"Bob"}]}`} {
			j, err := harness.Scorer{Rules: rules}.Judge(dataset.Item{ID: "a", Input: input, Expected: json.RawMessage(expected)})
			if err != nil {
				t.Fatal(err)
			}
			scored, err := j.Score(json.RawMessage(output))
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range harness.GroundingScores() {
				s, ok := outcome.Lookup(scored.Scores, name)
				switch {
				case !ok, want[i] == nil && (s.Value != nil || s.Reason == ""), want[i] != nil && (s.Value == nil || *s.Value != want[i].(float64)):
					t.Errorf("%s: %s is %+v, want %v", output, name, s, want[i])
				}
			}
		}
	}
	j, err := harness.Scorer{Rules: rules}.Judge(dataset.Item{ID: "a", Expected: json.RawMessage(`{"entities":[]}`)})
	if err != nil {
		t.Fatal(err)
	}
	scored, err := j.Score(json.RawMessage(`{"entities":[]}`))
	if _, there := outcome.Lookup(scored.Scores, harness.GroundedRate); err != nil || there {
		t.Errorf("an item without a document has no grounding: %v", err)
	}
}
