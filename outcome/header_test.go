package outcome

import "testing"

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
