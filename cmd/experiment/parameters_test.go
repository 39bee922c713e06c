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

// TestRun_filtersOfEnvironment: a variable holds the values of a repeated flag, one a line.
func TestRun_filtersOfEnvironment(t *testing.T) {
	f := newFolder(t, "EXPERIMENT_FILTER=metadata.a=1\nmetadata.b=2\n")
	must(t, os.WriteFile(f.path("items.jsonl"), []byte(`{"id":"x","input":{"document_text":"Ada"},"metadata":{"a":"1","b":"2"}}
{"id":"y","input":{"document_text":"Ada"},"metadata":{"a":"1","b":"3"}}
`), 0o600))
	c := f.run(t, 0, "--dataset", "items.jsonl", "--name", "filtered")
	if !strings.Contains(c.stderr.String(), "1 item to run") || !strings.Contains(c.stdout.String(), "no entity_f1 for 1 of 1 outcomes") {
		t.Errorf("%s%s", c.stderr.String(), c.stdout.String())
	}
}
