package tracking_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
	"extraction-experiment/tracking"
)

// TestMetadata: the metadata has only keys with a value, and only the scoring options that differ
// from the default. ReadRun restores all options.
func TestMetadata(t *testing.T) {
	options := scoring.DefaultOptions()
	defaults := marshal(t, options)
	options.Threshold, options.Initials = "0.9", true
	other := marshal(t, options)
	header := func(form int, version string, options json.RawMessage) outcome.Header {
		return outcome.Header{
			System: outcome.System{Model: "m", Provider: "p"}, Runner: "r", Metadata: map[string]string{"team": "a", "git_sha": "mine"},
			Publication: outcome.Publication{Form: form}, Scorer: outcome.Scorer{Version: version, Options: options},
		}
	}
	with := func(version, options string) map[string]string {
		m := map[string]string{"model": "m", "provider": "p", "runner_version": "r", "trial": "1", "team": "a", "scorer_version": version}
		if options != "" {
			m["scorer_options"] = options
		}
		return m
	}
	for name, tt := range map[string]struct {
		header outcome.Header
		want   map[string]string
	}{
		"the default options":         {header(1, scoring.Version, defaults), with(scoring.Version, "")},
		"other options":               {header(1, scoring.Version, other), with(scoring.Version, `{"initials":true,"threshold":"0.9"}`)},
		"of another scorer's version": {header(1, "0", other), with("0", `{"initials":true,"threshold":"0.9"}`)},
		"of a scorer without options": {header(1, "answers@1", json.RawMessage(`{}`)), with("answers@1", "")},
	} {
		if diff := cmp.Diff(tt.want, tracking.Metadata(tt.header, 1)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if m := tracking.Metadata(header(0, scoring.Version, defaults), 1); m["scorer_options"] != string(defaults) || m["git_sha"] != "" || len(m) != 18 {
		t.Errorf("of a version before: %v", m)
	}
	copied := header(1, scoring.Version, defaults)
	copied.Rescored = &outcome.Origin{Name: "original"}
	if read := tracking.HeaderFrom(tracking.Metadata(copied, 1)); read.Rescored == nil || read.Rescored.Name != "original" || read.Metadata[tracking.RescoredFrom] != "" {
		t.Errorf("a copy is read back as %+v", read)
	}
	for name, want := range map[string]json.RawMessage{"standard": defaults, "other": other} {
		read := tracking.HeaderFrom(tracking.Metadata(header(1, scoring.Version, want), 1))
		if string(read.Scorer.Options) != string(want) {
			t.Errorf("%s: read back as %s", name, read.Scorer.Options)
		}
	}
}

// TestMetadata_system: ReadRun restores every part of the system that the metadata has, and a malformed
// number is no number.
func TestMetadata_system(t *testing.T) {
	notRecorded := []string{"Endpoint", "Prompt"} // of the prompt, the text is not recorded
	for _, value := range []string{"1", "0"} {
		h := outcome.Header{Publication: outcome.Publication{Form: outcome.PublicationForm}}
		v := reflect.ValueOf(&h.System).Elem()
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Parameters" && !slices.Contains(notRecorded, name) {
				v.Field(i).SetString(value)
			}
		}
		for _, p := range h.System.Parameters.List() {
			p.Set(value)
		}
		metadata := tracking.Metadata(h, 1)
		if diff := cmp.Diff(h.System, tracking.HeaderFrom(metadata).System); diff != "" {
			t.Errorf("of the run (-), read (+):\n%s", diff)
		}
		for _, malformed := range []string{"x", "", "1e400", "NaN"} {
			for _, p := range h.System.Parameters.List() {
				metadata[p.Name] = malformed
			}
			if read := tracking.HeaderFrom(metadata).System.Parameters; read != (outcome.Parameters{}) {
				t.Errorf("%q is read as %+v", malformed, read)
			}
		}
	}
}
