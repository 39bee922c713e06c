package provider

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/outcome"
)

// TestExternal_Ask checks that fields are returned unchanged, with calls and warnings, that an
// "error" in the answer is an error, and that a secret that the program repeats is masked
// everywhere.
func TestExternal_Ask(t *testing.T) {
	const key = "sk-0123456789abcdef"
	asker, err := NewExternal(ExternalConfig{
		Target: "/bin/cat", Env: []string{"X_API_KEY=" + key},
	})
	if err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := asker.Close(); err != nil {
			t.Error(err)
		}
	}()
	fields, calls, err := asker.Ask(t.Context(), map[string]any{
		"answer": "the key is " + key, "warnings": []string{"saw " + key}, "calls": []any{map[string]any{"output": key, "cost_usd": 0.5}},
	})
	if err != nil || string(fields["answer"]) != `"the key is ***"` || string(fields["id"]) != `"1"` {
		t.Errorf("%v %s", err, fields)
	}
	if len(calls) != 2 || calls[0].Name != "external-ask" || !cmp.Equal(calls[0].Warnings, []string{"saw ***"}) || string(calls[1].Output) != `"***"` || *calls[1].CostUSD != 0.5 {
		t.Errorf("%+v", calls)
	}
	_, calls, err = asker.Ask(t.Context(), map[string]any{"error": map[string]string{"class": "rate_limited", "message": "slow down, " + key}})
	if f := outcome.FailureOf(err, outcome.Internal); f.Class != outcome.RateLimited || !strings.HasSuffix(f.Message, "slow down, ***") {
		t.Errorf("%v", err)
	}
	if len(calls) != 2 || !strings.Contains(calls[0].Error, "slow down") {
		t.Errorf("%+v", calls)
	}
}
