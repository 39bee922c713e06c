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

// TestHeader_ScoreEnvironment: runs of before have spans and scores in the same environment.
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
	one := CustomScorer{Name: "a", Evaluator: "e", Fingerprint: "f", Criteria: "c"}
	same := one
	same.Name, same.Carried = "b", "r0"
	if !one.Same(same) {
		t.Error("another name, and taken over: not the same")
	}
	for i := range 3 {
		other := one
		*[]*string{&other.Evaluator, &other.Fingerprint, &other.Criteria}[i] = "x"
		if one.Same(other) {
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

// TestHeader_PublishedAnew: what is made of an old run is published as runs of
// today are, in the environment that a person chose for it.
func TestHeader_PublishedAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		of     Header
		scores string
	}{
		"of today":                     {Header{Environment: "ci", Publication: Publication{Form: PublicationForm, ScoreEnvironment: "ci"}}, "ci"},
		"of before":                    {Header{Environment: SpanEnvironment}, ScoreEnvironment},
		"of before, in one of its own": {Header{Environment: "ci"}, "ci"},
	} {
		tt.of.Publication = tt.of.PublishedAnew()
		if tt.of.Publication.Form != PublicationForm || tt.of.ScoreEnvironment() != tt.scores {
			t.Errorf("%s: %+v", name, tt.of.Publication)
		}
	}
}
