package configs

import (
	"path/filepath"
	"strings"
	"testing"

	"extraction-experiment/compare"
)

// TestGateFile checks that every rule of the example is valid.
func TestGateFile(t *testing.T) {
	g, err := LoadGate("gate.yaml")
	if err != nil || len(g.Rules) == 0 {
		t.Fatalf("%+v, %v", g, err)
	}
	for _, rule := range g.Rules {
		if _, err := compare.ParseRule(rule); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadGate(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"seed":            {"min_delta: 0\nmax_regressions: 3\n", ""},
		"rules":           {"rules: [entity_f1 > base]\n", ""},
		"empty":           {"", "no rules"},
		"only the metric": {"metric: entity_f1\n", "no rules"},
		"mistyped":        {"rulse: [a > 1]\n", `did you mean "rules"`},
		"no list":         {"rules: {a: b}\n", "line 1"},
		"no number":       {"min_delta: much\n", "line 1"},
		"second document": {"min_delta: 0\n---\nmin_delta: 1\n", "second"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := LoadGate(writeFile(t, tt.text))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := LoadGate(filepath.Join(t.TempDir(), "missing.yaml")); err == nil {
		t.Error("a missing file is not an error")
	}
}
