package tracking

import (
	"strings"
	"testing"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
)

// TestVerifier_others: scores of other programs beside verified outcomes are counted again in later
// passes, which list the first ones.
func TestVerifier_others(t *testing.T) {
	v := newVerifier(VerifyConfig{}, outcome.Header{})
	const all = maxListed + 5
	for range all {
		v.addComparison(comparison{others: make([]OtherScore, 1)}, 1, "item", "trace")
	}
	v.begin()
	if got := v.verification; got.OthersCount != all || len(got.Others) != maxListed || got.Others[0].Item != "item" {
		t.Errorf("%d others, and %d listed", got.OthersCount, len(got.Others))
	}
}

// TestCompareScores_beside: which scores with an expected name are doubles, and which belong to
// other programs. The run expects f1 = 0.5 on its root span.
func TestCompareScores_beside(t *testing.T) {
	own := langfuse.Score{ID: "own", Name: "f1", Value: langfuse.NumberValue(0.5), Source: "API", Environment: "e", Subject: langfuse.ScoreSubject{Kind: "observation", ID: "root"}}
	for name, tc := range map[string]struct {
		change                 func(*langfuse.Score)
		lost                   bool // the run's own score is missing
		deleted, doubled, told int
	}{
		"copy":              {func(s *langfuse.Score) {}, false, 1, 1, 0},
		"says other":        {func(s *langfuse.Score) { s.Value = langfuse.NumberValue(0.75) }, false, 0, 1, 0},
		"says a text":       {func(s *langfuse.Score) { s.Value = langfuse.TextValue(strings.Repeat("0", 1000)) }, false, 0, 1, 0},
		"says nothing":      {func(s *langfuse.Score) { s.Value = langfuse.ScoreValue{} }, false, 0, 1, 0},
		"no source":         {func(s *langfuse.Score) { s.Source = "" }, false, 1, 1, 0},
		"alone":             {func(s *langfuse.Score) {}, true, 0, 0, 1},
		"other environment": {func(s *langfuse.Score) { s.Environment = "judges" }, false, 0, 0, 1},
		"on the trace":      {func(s *langfuse.Score) { s.Subject = langfuse.ScoreSubject{Kind: "trace", ID: "t"} }, false, 0, 0, 1},
		"other name":        {func(s *langfuse.Score) { s.Name = "f2" }, false, 0, 0, 0},
		"of a person":       {func(s *langfuse.Score) { s.Source = "ANNOTATION" }, false, 0, 0, 0},
		"with an author":    {func(s *langfuse.Score) { s.AuthorUserID = "ann" }, false, 0, 0, 0},
		"of an evaluator":   {func(s *langfuse.Score) { s.Source = "EVAL" }, false, 0, 0, 0},
		"derived":           {func(s *langfuse.Score) { s.ID, s.Environment = "derived", "default" }, false, 1, 1, 0},
	} {
		other := own
		other.ID = "other"
		tc.change(&other)
		want := []langfuse.ScoreCreate{{ID: "own", Name: "f1", Value: langfuse.NumberValue(0.5), ObservationID: "root", Environment: "e"}}
		stored := []langfuse.Score{other}
		if !tc.lost {
			stored = append(stored, own)
		}
		c := compareScores(want, func(id string) bool { return id == "derived" }, stored)
		var doubles []Finding
		for _, f := range c.findings {
			if f.Kind == DoubledScore {
				doubles = append(doubles, f)
			}
		}
		if len(c.doubles) != tc.deleted || len(doubles) != tc.doubled || len(c.others) != tc.told {
			t.Errorf("%s: deletes %v, finds %+v, tells of %+v", name, c.doubles, doubles, c.others)
		}
		for _, f := range doubles {
			left := tc.deleted == 0
			if f.NeedsDecision != left || strings.Contains(f.Detail, "delete score other in Langfuse, or give it another name") != left || len(f.Detail) > 400 {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// TestVerification_mayResolve: what is missing may still arrive. What differs may only change if it
// was sent again, and nobody has to decide about it.
func TestVerification_mayResolve(t *testing.T) {
	tests := map[string]struct {
		kinds     []Kind
		undecided int
		sent      bool
		want      bool
	}{
		"missing":                     {[]Kind{MissingSpan, MissingScore}, 0, false, true},
		"missing and different":       {[]Kind{MissingSpan, ChangedScore}, 0, false, false},
		"different, sent again":       {[]Kind{ChangedScore}, 0, true, true},
		"different, one not sent":     {[]Kind{ChangedScore, DoubledScore}, 1, true, false},
		"missing, with one undecided": {[]Kind{MissingScore}, 1, true, true},
	}
	for name, tt := range tests {
		v := Verification{Counts: map[Kind]int{}, NeedsDecisionCount: tt.undecided}
		for _, kind := range tt.kinds {
			v.Counts[kind]++
		}
		if got := v.mayResolve(tt.sent); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestVerification_stillChanged: only what was different before, too, was sent again to no effect.
func TestVerification_stillChanged(t *testing.T) {
	before := Verification{Findings: []Finding{{Kind: ChangedScore, ScoreID: "a"}, {Kind: MissingScore, ScoreID: "b"}}}
	after := Verification{Findings: []Finding{{Kind: ChangedScore, ScoreID: "a"}, {Kind: ChangedScore, ScoreID: "b"}, {Kind: MissingScore, ScoreID: "a"}}}
	if got := after.stillChanged(before); len(got) != 1 || got[0] != &after.Findings[0] {
		t.Errorf("%+v", got)
	}
}
