package system

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// TestEndpoint: servers have different endpoints, keys do not change an endpoint, and a
// system without a server has none.
func TestEndpoint(t *testing.T) {
	at := func(name, way, address string) string {
		s := provider.Opened{Info: provider.Info{Model: "m", Provider: name, Pipeline: way}, Address: address}
		if name != "baseline" {
			s.Model = new(pipeline.Estimator)
		}
		return endpointOf(s)
	}
	tests := map[string]struct {
		began, current string
		same           bool
	}{
		"the same":              {at("openai", "", "http://a:1/v1"), at("openai", "", "http://a:1/v1/"), true},
		"another user":          {at("openai", "", "http://x:key@a:1/v1"), at("openai", "", "http://a:1/v1"), true},
		"another port":          {at("openai", "", "http://a:1/v1"), at("openai", "", "http://a:2/v1"), false},
		"another path":          {at("openai", "", "http://a/v1"), at("openai", "", "http://a/v2"), false},
		"none, then one":        {at("openai", "", ""), at("openai", "", "http://a:2/v1"), false},
		"no server is asked":    {at("baseline", "", "http://a"), at("baseline", "", "http://b"), true},
		"what was recorded":     {at("openai", "recorded", "http://a"), at("openai", "recorded", ""), true},
		"gemini":                {at("gemini", "", "http://a"), at("gemini", "", "http://b"), false},
		"an address that is no": {at("openai", "", "::"), at("openai", "", "::x"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(tt.began+tt.current, "key") {
				t.Errorf("a key is kept: %q", tt.began)
			}
			if (tt.began == tt.current) != tt.same {
				t.Errorf("%q and %q", tt.began, tt.current)
			}
		})
	}
}

// TestLineWriter: output is escaped and written in whole lines, and a progress bar in the
// state that it had at the end of its line.
func TestLineWriter(t *testing.T) {
	long := strings.Repeat("x", maxPending)
	for name, test := range map[string]struct {
		writes []string
		want   string
	}{
		"escapes":      {[]string{"loading\x1b[2J\nmodel\n"}, "loading\\x1b[2J\nmodel\n"},
		"parts":        {[]string{"load", "ing\nmo", "del\n"}, "loading\nmodel\n"},
		"no end":       {[]string{"a\nb"}, "a\nb\n"},
		"nothing":      {nil, ""},
		"a bar":        {[]string{"\r 1%", "\r 50%", "\r100%\n", "b\n"}, "100%\nb\n"},
		"a bar behind": {[]string{" 1%\r", " 50%\r", "100%\r\n"}, "100%\n"},
		"windows":      {[]string{"a\r\nb\r\n"}, "a\nb\n"},
		"too long":     {[]string{long, "y", "z\n"}, long + "y\nz\n"},
	} {
		var b strings.Builder
		h := &lineWriter{out: &b}
		for _, text := range test.writes {
			if n, err := h.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		h.end()
		if b.String() != test.want {
			t.Errorf("%s: %q, want %q", name, b.String(), test.want)
		}
	}
}

// TestConfig_unset: a parameter that is given as empty is not taken from the config of the prompt.
func TestConfig_unset(t *testing.T) {
	values := settings.Values{"temperature": {Words: []string{""}, From: settings.FromFlag}, "retries": {Words: []string{"3"}}}
	var p settings.Problems
	cfg := Read(&p, values)
	notes, err := cfg.fillFrom(pipeline.Template{Config: json.RawMessage(`{"temperature": 0.7, "top_p": 0.5, "mood": 1}`)})
	if len(notes) != 1 || strings.Contains(notes[0], "temperature") || errors.Join(err, p.Err()) != nil {
		t.Errorf("%q, %v, %v", notes, err, p.Err())
	}
	if want := (outcome.Parameters{TopP: new(0.5)}); !reflect.DeepEqual(cfg.Parameters, want) {
		t.Errorf("temperature %v, top_p %v", cfg.Parameters.Temperature, cfg.Parameters.TopP)
	}
}
