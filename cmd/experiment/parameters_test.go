package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/configs"
	"extraction-experiment/outcome"
)

// TestParameters: every parameter of a model can be set everywhere, and is documented.
func TestParameters(t *testing.T) {
	allow := filepath.Join(t.TempDir(), "trigger.yaml")
	file := filepath.Join(t.TempDir(), "experiment.yaml")
	for _, p := range new(outcome.Parameters).List() {
		must(t, os.WriteFile(allow, []byte("datasets: {d: {config: c.yaml, allow: {"+p.Name+": [1]}}}"), 0o600))
		if _, err := configs.LoadTrigger(allow); err != nil {
			t.Errorf("a trigger cannot allow it: %v", err)
		}
		must(t, os.WriteFile(file, []byte(p.Name+": 1\nmatrix: {"+p.Name+": [1]}"), 0o600))
		if e, err := configs.Load(file); err != nil || !slices.Equal(e.Lookup(p.Flag()), []string{"1"}) {
			t.Errorf("a configuration cannot have it: %v", err)
		}
		for name, table := range map[string][]settings.Setting{"run": runTable(), "answers": answersRunTable()} {
			env := "EXPERIMENT_" + strings.ToUpper(p.Name)
			if !slices.ContainsFunc(table, func(s settings.Setting) bool { return s.Flag == p.Flag() && s.Env == env && s.Category == "Model" }) {
				t.Errorf("%s has no flag --%s with the variable %s under Model", name, p.Flag(), env)
			}
		}
		for page, word := range map[string]string{
			"configs/experiment.yaml": "\n# " + p.Name + ": ", "docs/models.md": "`--" + p.Flag() + "`", "docs/langfuse.md": "`" + p.Name + "`",
			"docs/sweeps.md": "`" + p.Name + "`", "docs/pipeline-protocol.md": `"` + p.Name + `": `,
		} {
			text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
			if must(t, err); !strings.Contains(string(text), word) {
				t.Errorf("%s does not name %q", page, word)
			}
		}
	}
}
