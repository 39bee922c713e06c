package configs

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// Trigger is the file of experiment serve --trigger: the datasets that the Run button of Langfuse
// may run, how they are run, and which settings the payload may change.
type Trigger struct {
	// RunsPerDay is the most runs of all datasets in any 24 hours, Queue the most runs that wait.
	RunsPerDay int                     `yaml:"runs_per_day"`
	Queue      int                     `yaml:"queue"`
	Datasets   map[string]TriggeredRun `yaml:"datasets"`
}

// TriggeredRun has the settings of the runs of one dataset.
type TriggeredRun struct {
	// Config is the path of an experiment file, relative to the folder of the trigger file.
	Config string `yaml:"config"`
	// Name is the template of the run names, with {dataset} and {time}.
	Name string `yaml:"name"`
	// BudgetUSD is the budget of one run with a model, in dollars.
	BudgetUSD string             `yaml:"budget_usd"`
	Allow     map[string]Allowed `yaml:"allow"`
}

// Allowed are the values that a payload may give a setting: one of Values, or a number from From
// to To.
type Allowed struct {
	Values   []string
	From, To float64
}

// UnmarshalYAML reads a list of values, or {from: 0, to: 1}.
func (a *Allowed) UnmarshalYAML(node *yaml.Node) error {
	problem := fmt.Errorf("line %d: a list of values is expected, or {from: 0, to: 1} with the smaller number first", node.Line)
	if node.Kind == yaml.SequenceNode {
		if node.Decode(&a.Values) != nil || len(a.Values) == 0 {
			return problem
		}
		return nil
	}
	bounds := map[string]float64{}
	err := node.Decode(&bounds)
	keys := slices.Sorted(maps.Keys(bounds))
	a.From, a.To = bounds["from"], bounds["to"]
	width := a.To - a.From // NaN or infinite if a bound is
	if err != nil || !slices.Equal(keys, []string{"from", "to"}) || !(width >= 0) || math.IsInf(width, 0) {
		return problem
	}
	return nil
}

// Defaults and maxima of a trigger file.
const (
	defaultRunsPerDay, maxRunsPerDay = 20, 1000
	defaultQueue, maxQueue           = 5, 100
	defaultRunName                   = "{dataset}-{time}"
)

// The settings that a file may allow: allowedNumbers are numeric. None of them names a program,
// an address or a file, or changes what a run may cost.
var (
	allowedTexts   = []string{"model", "prompt", "prompt_label", "two_stages"}
	allowedNumbers = []string{"prompt_version", "temperature", "top_p", "max_tokens", "seed", "trials", "limit"}
)

// LoadTrigger reads a trigger file and sets its defaults: 20 runs a day, 5 that wait, and the
// name {dataset}-{time}. The error joins all problems. It does not check the experiment files.
func LoadTrigger(path string) (Trigger, error) {
	t := Trigger{RunsPerDay: defaultRunsPerDay, Queue: defaultQueue}
	if err := decode(path, &t, TriggeredRun{}); err != nil {
		return t, err
	}
	var problems textutil.Problems
	add := problems.Add
	add(t.RunsPerDay < 1 || t.RunsPerDay > maxRunsPerDay,
		"runs_per_day is %d: a number from 1 to %d is expected", t.RunsPerDay, maxRunsPerDay)
	add(t.Queue < 1 || t.Queue > maxQueue, "queue is %d: a number from 1 to %d is expected", t.Queue, maxQueue)
	add(len(t.Datasets) == 0, "it names no dataset: list those that may be run under datasets:")
	for _, name := range slices.Sorted(maps.Keys(t.Datasets)) {
		run := t.Datasets[name]
		run.Name = cmp.Or(run.Name, defaultRunName)
		add(run.Config == "", "dataset %q: config is missing: name an experiment file", name)
		run.Config = files.Resolve(filepath.Dir(path), run.Config)
		usd, err := strconv.ParseFloat(cmp.Or(run.BudgetUSD, "1"), 64)
		add(err != nil || !(usd > 0 && usd <= math.MaxFloat64),
			"dataset %q: budget_usd: %q is not a number above 0", name, run.BudgetUSD)
		rest := strings.NewReplacer("{dataset}", "", "{time}", "").Replace(run.Name)
		add(!strings.Contains(run.Name, "{time}") || strings.ContainsAny(rest, "{}"),
			"dataset %q: the name %q needs {time}, and may have {dataset}, in braces", name, run.Name)
		for _, setting := range slices.Sorted(maps.Keys(run.Allow)) {
			err := run.Allow[setting].check(setting)
			add(err != nil, "dataset %q: allow: %w", name, err)
		}
		t.Datasets[name] = run
	}
	return t, problems.In(path)
}

// Canonical returns the value of a setting in the form of the command line, which is the same for
// 0.7 and 0.70, or an error that names the allowed values. setting must be one that a file may
// allow.
func (a Allowed) Canonical(setting, value string) (string, error) {
	form := func(text string) string { return text }
	if slices.Contains(allowedNumbers, setting) {
		form = textutil.CanonicalNumber
	}
	n, err := strconv.ParseFloat(value, 64)
	isAllowed, allowed := err == nil && n >= a.From && n <= a.To, fmt.Sprintf("a number from %g to %g", a.From, a.To)
	if a.Values != nil {
		isAllowed = slices.ContainsFunc(a.Values, func(one string) bool { return form(one) == form(value) })
		allowed = "one of " + strings.Join(a.Values, ", ")
	}
	if !isAllowed {
		return "", fmt.Errorf("%s: %s is not %s", setting, textutil.Brief(value, 100), allowed)
	}
	return form(value), nil
}

func (a Allowed) check(setting string) error {
	number := slices.Contains(allowedNumbers, setting)
	known := slices.Concat(allowedTexts, allowedNumbers)
	switch {
	case !slices.Contains(known, setting):
		hint := textutil.Hint(setting, known)
		return fmt.Errorf("a payload can never set %q%s; it may set: %s", setting, hint, strings.Join(known, ", "))
	case !number && len(a.Values) == 0:
		return fmt.Errorf("%s: a list of the values is expected", setting)
	}
	for _, value := range a.Values {
		if value == "" || strings.Contains(value, ",") {
			return fmt.Errorf("%s: %q is not one value", setting, value)
		}
		if _, err := strconv.ParseFloat(value, 64); number && err != nil {
			return fmt.Errorf("%s: %q is not a number", setting, value)
		}
	}
	return nil
}
