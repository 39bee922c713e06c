package outcome

import "testing"

func TestPublication_ShowsAll(t *testing.T) {
	for _, tt := range []struct {
		p    Publication
		want bool
	}{{Publication{}, true}, {Publication{Form: PublicationForm}, false}, {Publication{Form: PublicationForm, Mentions: true}, true}} {
		if got := tt.p.ShowsAll(); got != tt.want {
			t.Errorf("%+v: %v", tt.p, got)
		}
	}
}

// TestHeader_ScoreEnvironment checks that runs of earlier versions have spans and scores in the
// same environment.
func TestHeader_ScoreEnvironment(t *testing.T) {
	h := Header{Environment: "ci", Publication: Publication{ScoreEnvironment: "other"}}
	if got := h.ScoreEnvironment(); got != "ci" {
		t.Errorf("of before: %q", got)
	}
	h.Publication.Form = PublicationForm
	if got := h.ScoreEnvironment(); got != "other" {
		t.Errorf("of today: %q", got)
	}
}

func TestCustomScorer_Same(t *testing.T) {
	original := CustomScorer{Name: "a", Evaluator: "e", Fingerprint: "f", Criteria: "c"}
	same := original
	same.Name, same.Carried = "b", "r0"
	if !original.Same(same) {
		t.Error("another name, and taken over: not the same")
	}
	for i := range 3 {
		other := original
		*[]*string{&other.Evaluator, &other.Fingerprint, &other.Criteria}[i] = "x"
		if original.Same(other) {
			t.Errorf("%+v: the same", other)
		}
	}
}

func TestSummary_rescored(t *testing.T) {
	sum := NewSummariser(Header{Name: "r2", Rescored: &Origin{Name: "r1"}}, SummaryConfig{}).Summary()
	if sum.Run.RescoredFrom != "r1" || sum.Run.Name != "r2" {
		t.Errorf("%+v", sum.Run)
	}
}

// TestHeader_NewPublication checks that a run that is made from an old run is published in the
// newest form, in the environment of the old run.
func TestHeader_NewPublication(t *testing.T) {
	for name, tt := range map[string]struct {
		of     Header
		scores string
	}{
		"of today":                     {Header{Environment: "ci", Publication: Publication{Form: PublicationForm, ScoreEnvironment: "ci"}}, "ci"},
		"of before":                    {Header{Environment: SpanEnvironment}, ScoreEnvironment},
		"of before, in one of its own": {Header{Environment: "ci"}, "ci"},
	} {
		tt.of.Publication = tt.of.NewPublication()
		if tt.of.Publication.Form != PublicationForm || tt.of.ScoreEnvironment() != tt.scores {
			t.Errorf("%s: %+v", name, tt.of.Publication)
		}
	}
}
