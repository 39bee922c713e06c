package experiment_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

func namesOf(runs []experiment.SweepSettings) []string {
	var names []string
	for _, c := range runs {
		names = append(names, c.Name)
	}
	return names
}

func TestMatrix(t *testing.T) {
	baseline := func(model string) bool { return model == "baseline" }
	tests := map[string]struct {
		axes []experiment.Axis
		bare func(string) bool
		want []string
	}{
		"models and temperatures": {[]experiment.Axis{{"temperature", []string{"0", "0.70"}}, {"model", []string{"openai/gpt-4o", "gemini/gemini-2.5-pro"}}}, nil,
			[]string{"b-gpt-4o-t0", "b-gpt-4o-t0.7", "b-gemini-2.5-pro-t0", "b-gemini-2.5-pro-t0.7"}},
		"labels": {[]experiment.Axis{{"prompt-label", []string{"production", "staging"}}}, nil, []string{"b-production", "b-staging"}},
		"a prompt and its versions": {[]experiment.Axis{{"prompt-version", []string{"3", "4"}}, {"prompt", []string{"people"}}}, nil,
			[]string{"b-people@3", "b-people@4"}},
		"versions alone":               {[]experiment.Axis{{"prompt-version", []string{"3", "12"}}, {"seed", []string{"7"}}}, nil, []string{"b-v3-seed7", "b-v12-seed7"}},
		"a model without parameters":   {[]experiment.Axis{{"model", []string{"baseline", "x"}}, {"temperature", []string{"0", "1"}}}, baseline, []string{"b-baseline", "b-x-t0", "b-x-t1"}},
		"one model of two providers":   {[]experiment.Axis{{"model", []string{"openai/m", "azure/m"}}}, nil, []string{"b-m", "b-azure-m"}},
		"files":                        {[]experiment.Axis{{"model", []string{"recorded/tapes/a.jsonl", `recorded/C:\tapes\b.jsonl`}}}, nil, []string{"b-a", "b-b"}},
		"what cannot stand in a name":  {[]experiment.Axis{{"model", []string{"ft:gpt#12, new"}}}, nil, []string{"b-ft-gpt-12--new"}},
		"letters of other scripts":     {[]experiment.Axis{{"prompt-label", []string{"新しい", "été"}}}, nil, []string{"b-新しい", "b-été"}},
		"all kinds, in a fixed order":  {[]experiment.Axis{{"max-tokens", []string{"400"}}, {"top-p", []string{"0.5", ".9"}}}, nil, []string{"b-p0.5-max400", "b-p0.9-max400"}},
		"seeds of 63 bits":             {[]experiment.Axis{{"seed", []string{"9223372036854775807", "9223372036854775806"}}}, nil, []string{"b-seed9223372036854775807", "b-seed9223372036854775806"}},
		"a single cell is a sweep too": {[]experiment.Axis{{"model", []string{"m"}}}, nil, []string{"b-m"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := experiment.Matrix(experiment.SweepConfig{Base: "b", Axes: tt.axes, Bare: tt.bare})
			if err != nil || !slices.Equal(namesOf(got), tt.want) {
				t.Errorf("%q, %v, want %q", namesOf(got), err, tt.want)
			}
			for _, c := range got {
				if c.Bare && len(c.Settings) != 1 {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

func TestMatrix_refused(t *testing.T) {
	eleven := strings.Split("0 1 2 3 4 5 6 7 8 9 10", " ")
	var many []string // a quadratic loop over them takes minutes
	for i := range 40_000 {
		many = append(many, strconv.Itoa(i))
	}
	for name, tt := range map[string]struct {
		axes []experiment.Axis
		want []string
	}{
		"nothing":                {nil, []string{"nothing to sweep"}},
		"unknown":                {[]experiment.Axis{{"temprature", []string{"0"}}, {"model", nil}}, []string{`--temprature cannot be swept; did you mean "temperature"?`, "model has no values"}},
		"twice":                  {[]experiment.Axis{{"model", []string{"a", "a", " "}}, {"model", []string{"b"}}}, []string{`the value "a" twice`, "an empty value", "model is given twice"}},
		"the same number":        {[]experiment.Axis{{"temperature", []string{"0.7", "0.70"}}}, []string{`temperature "0.70" has no name of its own`}},
		"the same zero":          {[]experiment.Axis{{"temperature", []string{"0", "-0.0"}}}, []string{`temperature "-0.0" has no name of its own`}},
		"the same word":          {[]experiment.Axis{{"prompt-label", []string{"a b", "a/b"}}}, []string{"has no name of its own"}},
		"no word":                {[]experiment.Axis{{"prompt-label", []string{"///"}}}, []string{"has no name of its own"}},
		"too many":               {[]experiment.Axis{{"seed", eleven}, {"temperature", eleven}}, []string{"more than 100 runs"}},
		"far too many":           {[]experiment.Axis{{"seed", many}, {"max-tokens", many}}, []string{"more than 100 runs"}},
		"the same name in pairs": {[]experiment.Axis{{"prompt", []string{"a", "a-b"}}, {"prompt-label", []string{"b-c", "c"}}}, []string{`two runs of the sweep would be called "b-a-b-c"`}},
	} {
		_, err := experiment.Matrix(experiment.SweepConfig{Base: "b", Axes: tt.axes})
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// TestMatrix_stable checks that the order of axes changes nothing, that every combination
// occurs once under its own name, and that adding a value does not change the other names.
func TestMatrix_stable(t *testing.T) {
	values := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zé0-9./:#]{1,8}`), 1, 4, rapid.ID)
	rapid.Check(t, func(t *rapid.T) {
		axes := []experiment.Axis{{"model", values.Draw(t, "models")}, {"prompt-label", values.Draw(t, "labels")}, {"temperature", values.Draw(t, "temperatures")}}
		cfg := experiment.SweepConfig{Base: "base", Axes: axes}
		got, err := experiment.Matrix(cfg)
		if err != nil {
			return // equal names are refused
		}
		if want := len(axes[0].Values) * len(axes[1].Values) * len(axes[2].Values); len(got) != want {
			t.Fatalf("%d cells, want %d", len(got), want)
		}
		seen := map[string]bool{}
		for _, c := range got {
			if seen[c.Name] || strings.ContainsAny(c.Name, "/,# ") || !strings.HasPrefix(c.Name, "base-") {
				t.Fatalf("%q of %q", c.Name, namesOf(got))
			}
			seen[c.Name] = true
		}
		cfg.Axes = []experiment.Axis{axes[2], axes[0], axes[1]}
		if again, err := experiment.Matrix(cfg); err != nil || !slices.Equal(namesOf(again), namesOf(got)) {
			t.Fatalf("%q, %v", namesOf(again), err)
		}
		axes[0].Values = append(slices.Clone(axes[0].Values), "one-more-model")
		cfg.Axes = axes
		more, err := experiment.Matrix(cfg)
		if err != nil || !slices.Equal(namesOf(more)[:len(got)], namesOf(got)) {
			t.Fatalf("%q, %v", namesOf(more), err)
		}
	})
}

// TestSweep_memory checks that runs over items in memory need no dataset, that a sweep that is not
// prepared is an error, and that the budget of a run has what earlier ones spent.
func TestSweep_memory(t *testing.T) {
	t.Chdir(t.TempDir())
	spent := ""
	cfg := experiment.Config{Source: list(2), Open: func(context.Context, bool) (experiment.System, error) {
		return experiment.System{Task: task(echo), Scorer: half{}, Spent: func(h outcome.Header, o outcome.Outcome) { spent += h.Name + o.Item + " " }}, nil
	}}
	s := experiment.Sweep{Runs: []experiment.SweepRun{{Name: "a"}, {Name: "b"}}}
	if err := s.Pin(t.Context()); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("pinned before Prepare: %v", err)
	}
	if _, err := s.Run(t.Context(), 0, cfg); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("run before Prepare: %v", err)
	}
	noError(t, s.Prepare(t.Context()))
	noError(t, s.Pin(t.Context()))
	for i, run := range s.Runs {
		cfg.Header.Name = "another name"
		if r, err := s.Run(t.Context(), i, cfg); err != nil || r.Path != s.Paths()[i] || r.Summary.Items.Scored != 2 {
			t.Errorf("%s: %v, %s", run.Name, err, r.Path)
		}
	}
	if spent != "ai00 ai01 " {
		t.Errorf("spent before: %q", spent)
	}
}

// TestSweep_sameName checks that two runs of one name are refused before one of them begins.
func TestSweep_sameName(t *testing.T) {
	t.Chdir(t.TempDir())
	s := experiment.Sweep{Runs: []experiment.SweepRun{{Name: "a"}, {Name: "b"}, {Name: "a"}}}
	if err := s.Prepare(t.Context()); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("two runs of one name: %v", err)
	}
	s = experiment.Sweep{Runs: []experiment.SweepRun{{Name: "a", Dataset: "x.jsonl"}, {Name: "a", Dataset: "y.jsonl"}}}
	noError(t, s.Prepare(t.Context()))
}
