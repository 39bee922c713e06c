package runs

import (
	"os"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
)

// TestReadGate_files: of several files the stricter limits count, in any order, and other settings must agree.
func TestReadGate_files(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"strict.yaml": "min_delta: 0.1\nmax_regressions: 0", "loose.yaml": "min_delta: -0.1\nmax_regressions: 100",
		"f1.yaml":     "metric: f1\ninconclusive: pass\nmin_delta: 0",
		"recall.yaml": "metric: recall\ninconclusive: fail\nmin_delta: 0",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, words := range [][]string{{"strict.yaml", "loose.yaml"}, {"loose.yaml", "strict.yaml", "f1.yaml"}} {
		gate, _, err := ReadGate(words, "", "")
		if err != nil || *gate.MinDelta != 0.1 || *gate.MaxRegressions != 0 {
			t.Errorf("%v: %v, %v, %v", words, *gate.MinDelta, *gate.MaxRegressions, err)
		}
	}
	differ := []string{"f1.yaml", "strict.yaml", "recall.yaml"}
	_, _, err := ReadGate(differ, "", "")
	for _, want := range []string{"metric is f1 in f1.yaml, and recall in recall.yaml",
		"inconclusive is pass in f1.yaml, and fail in recall.yaml"} {
		if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	gate, metric, err := ReadGate(differ, "precision", "6")
	if err != nil || metric != "precision" || gate.Inconclusive != "6" {
		t.Errorf("%s, %s, %v: a flag wins over files", metric, gate.Inconclusive, err)
	}
}
