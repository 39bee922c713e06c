package main

// These tests run the example in the folder above.

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/configs"
	"extraction-experiment/dataset"
	"extraction-experiment/evaluator"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/report"
)

// table is the output in the specification. Its columns are padded unevenly, so runs of spaces
// count as one.
const table = `
  evaluator:  go run evaluators/keyword_judge.go
  fixtures:   9
  runs/each:  5
  max-flip:   0

  ✓  [PASS     ] clear-pass-exact-match       mean=1.00  var=0.0000  flip=0.00
  ✓  [PASS     ] clear-pass-contains-answer    mean=1.00  var=0.0000  flip=0.00
  ✓  [PASS     ] clear-pass-multi-keyword      mean=1.00  var=0.0000  flip=0.00
  ✓  [FAIL     ] clear-fail-wrong-answer       mean=0.00  var=0.0000  flip=0.00
  ✓  [FAIL     ] clear-fail-irrelevant         mean=0.00  var=0.0000  flip=0.00
  ✓  [FAIL     ] clear-fail-empty              mean=0.00  var=0.0000  flip=0.00
  ✓  [AMBIGUOUS] ambiguous-partial-overlap      mean=0.33  var=0.0000  flip=0.00
  ✓  [AMBIGUOUS] ambiguous-verbose-correct      mean=1.00  var=0.0000  flip=0.00
  ✓  [AMBIGUOUS] ambiguous-near-miss            mean=0.00  var=0.0000  flip=0.00

  ── Summary ──
  Compatible:  ✓
  Consistent:  ✓
  Passed:      9/9
  Failed:      0/9
`

// compiled is the compiled sample evaluator with the command of the fixtures, since "go run" is
// too slow to be called 45 times.
type compiled struct {
	*evaluator.Evaluator
	command []string
}

func (c compiled) Command() []string { return c.command }

func certify(t *testing.T) conformance.Report {
	t.Helper()
	set, err := conformance.Read("fixtures.yaml")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "keyword_judge")
	if output, err := exec.Command("go", "build", "-o", program, "evaluators/keyword_judge.go").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	judge, err := evaluator.New(evaluator.Config{Script: []string{program}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := conformance.Run(t.Context(), conformance.Config{Evaluator: compiled{judge, set.Evaluator.Script}, Fixtures: set.Fixtures, Runs: 5})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExample(t *testing.T) {
	t.Chdir("..")
	r := certify(t)
	var out bytes.Buffer
	if err := report.Conformance(&out, r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(textutil.OneSpace(out.String()), textutil.OneSpace(table)) {
		t.Errorf("the table is not that of the specification:\n%s", out.String())
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	if err := json.Unmarshal([]byte(`{"evaluator": ["go", "run", "evaluators/keyword_judge.go"],
		"total_fixtures": 9, "total_runs": 45, "compatible": true, "consistent": true}`), &want); err != nil {
		t.Fatal(err)
	}
	subset(t, "report", want, got)
	first := map[string]any{}
	if err := json.Unmarshal([]byte(`{"id": "clear-pass-exact-match", "label": "pass", "runs": 5, "scores": [1, 1, 1, 1, 1],
		"mean": 1, "variance": 0, "flip_rate": 0, "compatible": true, "consistent": true, "errors": []}`), &first); err != nil {
		t.Fatal(err)
	}
	subset(t, "fixture", first, got["fixtures"].([]any)[0].(map[string]any))
}

// TestExperiment checks that the experiment uses the certified evaluator.
func TestExperiment(t *testing.T) {
	t.Chdir("..")
	e, err := configs.Load("experiment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set, err := conformance.Read("fixtures.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Scorers) != 1 || !slices.Equal(e.Scorers[0].Script, set.Evaluator.Script) || e.Scorers[0].Certificate != "results.json" {
		t.Errorf("the experiment scores with %+v", e.Scorers)
	}
	items := 0
	for _, err := range dataset.ReadFile(t.Context(), e.Dataset) {
		if err != nil {
			t.Error(err)
		}
		items++
	}
	if items == 0 {
		t.Error("the experiment has no items")
	}
}

// subset checks that got has every field of want, with its value.
func subset(t *testing.T, what string, want, got map[string]any) {
	t.Helper()
	for key, value := range want {
		a, errA := json.Marshal(value)
		b, errB := json.Marshal(got[key])
		if errA != nil || errB != nil || !slices.Equal(a, b) {
			t.Errorf("%s: %s is %s, want %s", what, key, b, a)
		}
	}
}
