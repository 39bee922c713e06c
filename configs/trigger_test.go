package configs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLoadTrigger_example loads the example of a trigger file.
func TestLoadTrigger_example(t *testing.T) {
	f, err := LoadTrigger("trigger.yaml")
	run := f.Datasets[SampleName]
	if err != nil || f.RunsPerDay != 20 || f.Queue != 5 || run.Config != "experiment.yaml" || run.BudgetUSD != "2.50" || run.Allow["temperature"].To != 1 ||
		!slices.Equal(run.Allow["prompt_label"].Values, []string{"production", "staging"}) {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestLoadTrigger(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string // texts in the error; nil is no error
	}{
		"the least":       {"datasets: {d: {config: c.yaml}}", nil},
		"a list":          {"datasets: {d: {config: c.yaml, allow: {model: [a], seed: [1, 2], temperature: {from: 0, to: 0.5}}}}", nil},
		"nothing":         {"", []string{"it names no dataset"}},
		"mistyped":        {"datasets: {d: {confg: c.yaml}}", []string{`did you mean "config"`}},
		"second document": {"datasets: {d: {config: c.yaml}}\n---\n", []string{"second"}},
		"everything at once": {"runs_per_day: 0\nqueue: 1000\ndatasets: {d: {name: x, budget_usd: free}, e: {config: c.yaml, name: '{time}{model}', allow: {pipeline: [a], " +
			"model: {from: 0, to: 1}, prompt: ['a,b'], seed: [much], budget_usd: [1], promt_label: [a]}}}",
			[]string{"runs_per_day is 0", "queue is 1000", `"d": config is missing`, `"d": the name "x" needs {time}`, `"d": budget_usd: "free"`, `"e": the name "{time}{model}"`,
				`never set "pipeline"`, "model: a list of the values", `prompt: "a,b" is not one value`, `seed: "much" is not a number`, `never set "budget_usd"`, `did you mean "prompt_label"`}},
		"a range of one end":   {"datasets: {d: {config: c.yaml, allow: {limit: {from: 1}}}}", []string{"line 1: a list of values is expected, or {from: 0, to: 1}"}},
		"a range of neither":   {"datasets: {d: {config: c.yaml, allow: {limit: {from: .nan, to: 1}}}}", []string{"or {from"}},
		"a range upside down":  {"datasets: {d: {config: c.yaml, allow: {limit: {from: 2, to: 1}}}}", []string{"or {from"}},
		"an endless range":     {"datasets: {d: {config: c.yaml, allow: {limit: {from: 1, to: .inf}}}}", []string{"or {from"}},
		"two endless bounds":   {"datasets: {d: {config: c.yaml, allow: {limit: {from: .inf, to: .inf}}}}", []string{"or {from"}},
		"an empty list":        {"datasets: {d: {config: c.yaml, allow: {model: []}}}", []string{"or {from"}},
		"a value that is none": {"datasets: {d: {config: c.yaml, allow: {model: gpt}}}", []string{"or {from"}},
		"a list of lists":      {"datasets: {d: {config: c.yaml, allow: {model: [[a]]}}}", []string{"or {from"}},
		"endless dollars":      {"datasets: {d: {config: c.yaml, budget_usd: .inf}}", []string{"not a number above 0"}},
	} {
		path := writeFile(t, tt.text)
		f, err := LoadTrigger(path)
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range tt.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		if d := f.Datasets["d"]; err == nil && (d.Config != filepath.Join(filepath.Dir(path), "c.yaml") || d.Name != "{dataset}-{time}") {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// FuzzLoadTrigger checks that no file panics, and that Canonical does not change a canonical
// value.
func FuzzLoadTrigger(f *testing.F) {
	f.Add("datasets: {d: {config: c.yaml, allow: {model: [a], limit: {from: 0, to: 1}}}}", "limit", "0.50")
	f.Fuzz(func(t *testing.T, text, setting, value string) {
		file, err := LoadTrigger(writeFile(t, text))
		if err != nil {
			return
		}
		for _, run := range file.Datasets {
			rule, ok := run.Allow[setting]
			first, err := rule.Canonical(setting, value)
			if !ok || err != nil {
				continue
			}
			if second, err := rule.Canonical(setting, first); err != nil || second != first {
				t.Errorf("%s=%q became %q, then %q, %v", setting, value, first, second, err)
			}
		}
	})
}
