package experiment_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// TestOpenRun compares two run files, with and without the metadata of their items.
func TestOpenRun(t *testing.T) {
	items := filepath.Join(t.TempDir(), "items.jsonl")
	var lines []byte
	for i := range 8 {
		lines = fmt.Appendf(lines, `{"id": "i%d", "input": %[1]d, "expected": 1, "metadata": {"doc": "d"}}`+"\n", i)
	}
	if err := os.WriteFile(items, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	var runs []experiment.RunFile
	for _, name := range []string{"base", "candidate"} {
		result, err := experiment.Run(t.Context(), experiment.Config{
			Header: outcome.Header{Name: name, Scorer: outcome.Scorer{Version: "1", Primary: "half"}},
			Source: experiment.File(items), Task: task(echo), Scorer: half{}, Path: filepath.Join(t.TempDir(), "r.run"),
		})
		if err != nil {
			t.Fatal(err)
		}
		run, err := experiment.OpenRun(t.Context(), result.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		runs = append(runs, run)
	}
	for _, clusterBy := range []string{"", "doc"} {
		runs[0].Metadata = clusterBy != ""
		result, err := compare.Config{ClusterBy: clusterBy}.Compare(t.Context(), runs[0], runs[1])
		if err := errors.Join(err, result.Err()); err != nil {
			t.Fatal(err)
		}
		if r := result.Candidates[0]; r.Items != 8 || r.Verdict != compare.Same || result.Base.Where != runs[0].Path() {
			t.Errorf("%d items, %s, %s", r.Items, r.Verdict, result.Base.Where)
		}
	}
	if _, err := experiment.OpenRun(t.Context(), "missing.run"); err == nil {
		t.Error("a missing file was opened")
	}
}

// TestFile_problems checks that a file with problems yields no item after the first of them, and all of
// them as one error.
func TestFile_problems(t *testing.T) {
	path := filepath.Join(t.TempDir(), "items.jsonl")
	noError(t, os.WriteFile(path, []byte("{\"id\":\"a\",\"input\":1}\n{\n{\"id\":\"b\",\"input\":1}\n[]\n"), 0o600))
	var ids []string
	var last error
	for page, err := range experiment.File(path).Pages(t.Context()) {
		for _, item := range page {
			ids = append(ids, item.ID)
		}
		last = err
	}
	if len(ids) > 1 || cli.ExitCode(last) != cli.ExitUsage || !strings.Contains(last.Error(), "line 2") || !strings.Contains(last.Error(), "line 4") {
		t.Errorf("%q, %v", ids, last)
	}
}
