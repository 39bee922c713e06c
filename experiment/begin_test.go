package experiment

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"extraction-experiment/outcome"
)

// TestSameExperiment_environment checks that a run is resumed in the environments that it began
// with, including a run of a version that had one environment for spans and scores.
func TestSameExperiment_environment(t *testing.T) {
	header := func(spans, scores string) outcome.Header {
		return outcome.Header{Name: "r", Environment: spans, Publication: outcome.Publication{Form: outcome.PublicationForm, ScoreEnvironment: scores}}
	}
	old := outcome.Header{Name: "r", Environment: "ci"}
	tests := map[string]struct {
		began, current outcome.Header
		given          bool
		want           string
	}{
		"neither named one":      {header("sdk-experiment", "default"), header("sdk-experiment", "default"), false, ""},
		"named once":             {header("ci", "ci"), header("sdk-experiment", "default"), false, ""},
		"named when resumed":     {header("sdk-experiment", "default"), header("ci", "ci"), true, "environment: began with sdk-experiment, now ci"},
		"the one of spans named": {header("sdk-experiment", "default"), header("sdk-experiment", "sdk-experiment"), true, "environment of scores: began with default, now sdk-experiment"},
		"old, not named":         {old, header("sdk-experiment", "default"), false, ""},
		"old, named":             {old, header("ci", "ci"), true, ""},
		"old, another name":      {old, header("x", "x"), true, "environment of scores: began with ci, now x"},
	}
	for name, tt := range tests {
		err := checkSameExperiment(tt.began, tt.current, Keep{Environment: !tt.given})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestSameExperiment_server checks that another server is another experiment, unless the run
// did not record its server.
func TestSameExperiment_server(t *testing.T) {
	at := func(endpoint string) outcome.Header {
		return outcome.Header{Name: "r", System: outcome.System{Model: "m", Provider: "openai", Endpoint: endpoint}}
	}
	for _, tt := range []struct{ began, current, want string }{
		{"a:1~00", "a:1~00", ""},
		{"a:1~00", "a:2~00", "server of the model: began with a:1~00, now a:2~00"},
		{"default", "a:2~00", "server of the model: began with default, now a:2~00"},
		{"", "a:2~00", ""},
	} {
		err := checkSameExperiment(at(tt.began), at(tt.current), Keep{})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// TestSettingsOf checks that every field of a header that is a setting is compared when a run is
// resumed: a field that is not would let a run mix settings.
func TestSettingsOf(t *testing.T) {
	notCompared := map[string]bool{
		"Format": true, "RunUID": true, "GitSHA": true, "Runner": true, "Project": true, "Started": true, "Rescored": true, // of the process
		"Dataset.ID": true, "Dataset.Name": true, "Dataset.Version": true, // the fingerprint counts
		"System.Prompt.Label": true, "System.Prompt.Template": true, "Scorer.Primary": true, "Scorer.OutputOnly": true, // follow from others, or may change
		"Publication.Form": true,
	}
	base := outcome.Header{Trials: 1, System: outcome.System{Prompt: outcome.Prompt{Name: "p"}}, Publication: outcome.Publication{Form: outcome.PublicationForm}}
	var visit func(path string, field func(*outcome.Header) reflect.Value)
	visit = func(path string, field func(*outcome.Header) reflect.Value) {
		h := base
		v := field(&h)
		if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
			for i := range v.NumField() {
				name := strings.TrimPrefix(path+"."+v.Type().Field(i).Name, ".")
				visit(name, func(h *outcome.Header) reflect.Value { return field(h).Field(i) })
			}
			return
		}
		if notCompared[path] {
			return
		}
		switch {
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case v.Kind() == reflect.String:
			v.SetString("x")
		case v.Kind() == reflect.Int:
			v.SetInt(7)
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		case path == "Metadata":
			v.Set(reflect.ValueOf(map[string]string{"k": "x"}))
		case path == "Scorer.Options":
			v.SetBytes([]byte("{}"))
		case v.Type() == reflect.TypeFor[[]string]():
			v.Set(reflect.ValueOf([]string{"x"}))
		default: // another list
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		if maps.Equal(settingsOf(base), settingsOf(h)) {
			t.Errorf("settingsOf does not compare %s: add it, or name it here", path)
		}
	}
	visit("", func(h *outcome.Header) reflect.Value { return reflect.ValueOf(h).Elem() })
}
