package extraction_test

import (
	"testing"

	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// TestGrounding compares with rates calculated by hand. The document is "Ann  Lee met Bob in
// Rome."
func TestGrounding(t *testing.T) {
	const input = `{"document_text":"Ann  Lee met Bob in Rome."}`
	type counts struct{ grounded, total, invented int64 }
	for output, want := range map[string]*counts{
		// By name, regardless of white space and case; Zoe is invented.
		`{"entities":[{"name":"ann lee"},{"name":"Bob"},{"name":"Zoe"}]}`: {2, 3, 1},
		// An alias is enough; part of a word is not.
		`{"entities":[{"name":"Dr. L.","aliases":["Ann Lee"]},{"name":"Rom"}]}`: {1, 2, 1},
		// A good quote grounds a name that does not occur. With a false quote, a name that
		// occurs is neither grounded nor invented.
		`{"entities":[{"name":"the couple","mentions":[{"quote":"Ann Lee met Bob","start":0,"end":16}]},{"name":"Rome","mentions":[{"quote":"in Paris","start":17,"end":25}]}]}`: {1, 2, 0},
		// One of two quotes is enough.
		`{"entities":[{"name":"x","mentions":[{"quote":"Paris","start":0,"end":5},{"quote":"Rome","start":0,"end":4}]}]}`: {1, 1, 0},
		`{"entities":[]}`: nil,
	} {
		for _, expected := range []string{`null`, `{"entities":[{"name":"Bob"}]}`} {
			scored := score(t, judge(t, input, expected), output)
			got, ok := outcome.Lookup(scored.Scores, scoring.GroundedRate)
			if _, old := outcome.Lookup(scored.Scores, harness.InventedRate); !ok || old {
				t.Errorf("%s: the scores are %+v", output, scored.Scores)
			}
			if want == nil {
				if got.Value != nil || got.Reason == "" {
					t.Errorf("%s: %+v", output, got)
				}
				continue
			}
			if *got.Value != float64(want.grounded)/float64(want.total) || *got.Ratio != (outcome.Ratio{Num: want.grounded, Den: want.total}) || got.Counts.Get("invented_entities") != want.invented {
				t.Errorf("%s: %+v, want %+v", output, got, *want)
			}
		}
	}
	scored := score(t, judge(t, "", `{"entities":[]}`), `{"entities":[]}`)
	if _, exists := outcome.Lookup(scored.Scores, scoring.GroundedRate); exists {
		t.Error("an item without a document has no grounding")
	}
}
