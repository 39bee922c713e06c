package main

import (
	"errors"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// TestSameExperiment_server: another server is another experiment, another key
// is not, and a run that noted no server is taken as it is.
func TestSameExperiment_server(t *testing.T) {
	at := func(provider, pipeline, address string) outcome.Header {
		s := outcome.System{Model: "m", Provider: provider, Pipeline: pipeline}
		s.Endpoint = endpointOf(s, func(name string) string {
			if name == "OPENAI_BASE_URL" {
				return address
			}
			return ""
		})
		return outcome.Header{Name: "r", System: s}
	}
	old := outcome.Header{Name: "r", System: outcome.System{Model: "m", Provider: "openai"}}
	tests := map[string]struct {
		began, now outcome.Header
		want       string
	}{
		"the same":              {at("openai", "", "http://a:1/v1"), at("openai", "", "http://a:1/v1/"), ""},
		"another user":          {at("openai", "", "http://x:key@a:1/v1"), at("openai", "", "http://a:1/v1"), ""},
		"another port":          {at("openai", "", "http://a:1/v1"), at("openai", "", "http://a:2/v1"), "server of the model: began with a:1~"},
		"another path":          {at("openai", "", "http://a/v1"), at("openai", "", "http://a/v2"), "server of the model"},
		"none, then one":        {at("openai", "", ""), at("openai", "", "http://a:2/v1"), "began with default, now a:2~"},
		"not noted":             {old, at("openai", "", "http://a:2/v1"), ""},
		"no server is asked":    {at("baseline", "", "http://a"), at("baseline", "", "http://b"), ""},
		"what was recorded":     {at("openai", "recorded", "http://a"), at("openai", "recorded", ""), ""},
		"gemini has its own":    {at("gemini", "", "http://a"), at("gemini", "", "http://b"), ""},
		"an address that is no": {at("openai", "", "::"), at("openai", "", "::x"), "server of the model"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(tt.began.System.Endpoint+tt.now.System.Endpoint, "key") {
				t.Errorf("a key is kept: %q", tt.began.System.Endpoint)
			}
			err := sameExperiment(tt.began, tt.now, runConfig{})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

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
		err := sameExperiment(tt.began, tt.now, runConfig{environmentGiven: tt.given})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestDistinct: what is said already is left out, unless it decides the exit
// code.
func TestDistinct(t *testing.T) {
	full := errors.New("no space left")
	for name, tt := range map[string]struct {
		problems []error
		kept     int
	}{
		"said already":      {[]error{cli.Errorf(cli.ExitIO, "writing: %w", full), nil, cli.Errorf(cli.ExitIO, "%w", full)}, 1},
		"said later":        {[]error{full, cli.Errorf(cli.ExitIO, "writing: %w", full)}, 2},
		"a worse exit code": {[]error{cli.Errorf(cli.ExitInterrupted, "stopped: %w", full), cli.Errorf(cli.ExitIO, "%w", full)}, 2},
	} {
		got := distinct(tt.problems)
		if len(got) != tt.kept || cli.ExitCode(errors.Join(got...)) != cli.ExitIO {
			t.Errorf("%s: %q", name, got)
		}
	}
}
