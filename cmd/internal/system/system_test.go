package system

import (
	"strings"
	"testing"

	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// TestEndpoint: another server is told apart, another key is not, and what asks no
// server has none.
func TestEndpoint(t *testing.T) {
	at := func(name, way, address string) string {
		s := provider.Opened{Info: provider.Info{Model: "m", Provider: name, Pipeline: way}, Address: address}
		if name != "baseline" {
			s.Model = new(pipeline.Estimator)
		}
		return endpointOf(s)
	}
	tests := map[string]struct {
		began, now string
		same       bool
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
			if strings.Contains(tt.began+tt.now, "key") {
				t.Errorf("a key is kept: %q", tt.began)
			}
			if (tt.began == tt.now) != tt.same {
				t.Errorf("%q and %q", tt.began, tt.now)
			}
		})
	}
}

// TestHarmless: what a program writes cannot steer the terminal.
func TestHarmless(t *testing.T) {
	var b strings.Builder
	if n, err := (harmless{&b}).Write([]byte("loading\x1b[2J\nmodel\n")); n != 18 || err != nil || b.String() != "loading\\x1b[2J\nmodel\n" {
		t.Errorf("%d, %v: %q", n, err, b.String())
	}
}
