package experiment

import (
	"strings"
	"testing"

	"extraction-experiment/outcome"
)

// TestSameExperiment_environment: a run goes on in the environments that it began
// with, also one of a version that had one for both.
func TestSameExperiment_environment(t *testing.T) {
	now := func(spans, scores string) outcome.Header {
		return outcome.Header{Name: "r", Environment: spans, Publication: outcome.Publication{Form: outcome.PublicationForm, ScoreEnvironment: scores}}
	}
	old := outcome.Header{Name: "r", Environment: "ci"}
	tests := map[string]struct {
		began, now outcome.Header
		given      bool
		want       string
	}{
		"neither named one":      {now("sdk-experiment", "default"), now("sdk-experiment", "default"), false, ""},
		"named once":             {now("ci", "ci"), now("sdk-experiment", "default"), false, ""},
		"named when resumed":     {now("sdk-experiment", "default"), now("ci", "ci"), true, "environment: began with sdk-experiment, now ci"},
		"the one of spans named": {now("sdk-experiment", "default"), now("sdk-experiment", "sdk-experiment"), true, "environment of scores: began with default, now sdk-experiment"},
		"old, not named":         {old, now("sdk-experiment", "default"), false, ""},
		"old, named":             {old, now("ci", "ci"), true, ""},
		"old, another name":      {old, now("x", "x"), true, "environment of scores: began with ci, now x"},
	}
	for name, tt := range tests {
		err := sameExperiment(tt.began, tt.now, Keep{Environment: !tt.given})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestSameExperiment_server: another server is another experiment, and a run that
// noted no server is taken as it is.
func TestSameExperiment_server(t *testing.T) {
	at := func(endpoint string) outcome.Header {
		return outcome.Header{Name: "r", System: outcome.System{Model: "m", Provider: "openai", Endpoint: endpoint}}
	}
	for _, tt := range []struct{ began, now, want string }{
		{"a:1~00", "a:1~00", ""},
		{"a:1~00", "a:2~00", "server of the model: began with a:1~00, now a:2~00"},
		{"default", "a:2~00", "server of the model: began with default, now a:2~00"},
		{"", "a:2~00", ""},
	} {
		err := sameExperiment(at(tt.began), at(tt.now), Keep{})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}
