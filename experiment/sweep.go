package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// SweepRun is one run of a Sweep.
type SweepRun struct {
	// Name and Dataset are those of the run; Trials is its number of trials.
	Name, Dataset string
	Trials        int
	// Check, if not nil, finds errors that the run would have once its turn comes.
	Check func(ctx context.Context) error
}

// Sweep is a list of runs that are carried out one after the other. They share a budget, and
// runs over a dataset in Langfuse use the same version of it.
type Sweep struct {
	Runs     []SweepRun
	Langfuse *Langfuse
	// Resume continues the runs that have begun; Retry also gives their failed items another
	// attempt.
	Resume, Retry bool
	// What is the name of the sweep in errors; "" is "this sweep".
	What string
	// Note, if not nil, is called by Prepare with a message for the user when a sweep is
	// resumed; the message may be empty.
	Note func(string)

	paths  []string
	pinned Source
}

// Prepare determines the paths of the runs and which have begun. It returns an error if two runs
// have the same name, or if Resume and Retry do not fit. Call it once, before Pin and Run.
func (s *Sweep) Prepare(ctx context.Context) error {
	s.What = cmp.Or(s.What, "this sweep")
	var existing, names []string
	for _, run := range s.Runs {
		cfg := s.locatedConfig(run)
		if slices.Contains(s.paths, cfg.Path) {
			return cli.Usage("two runs of %s would be called %q", s.What, run.Name)
		}
		s.paths, names = append(s.paths, cfg.Path), append(names, run.Name)
		if _, err := os.Stat(cfg.Path); err == nil {
			existing = append(existing, run.Name)
		}
	}
	switch {
	case s.Retry && len(existing) == 0:
		return cli.Usage("no run of %s has begun, there is nothing to try again: leave --retry-failed out", s.What)
	case s.Resume || s.Retry:
		note, err := CheckResumable(ctx, names, s.paths)
		if err != nil {
			return err
		}
		callIf(s.Note != nil, func() { s.Note(note) })
	case len(existing) > 0:
		return cli.Usage("runs of %s exist already (%s): use --resume to continue it, or another --name", s.What, strings.Join(existing, ", "))
	}
	return nil
}

func (s *Sweep) locatedConfig(run SweepRun) Config {
	cfg := Config{Header: outcome.Header{Name: run.Name}, Dataset: run.Dataset, Langfuse: s.Langfuse}
	cfg.setLocation()
	return cfg
}

// Pin is for sweeps over one dataset. It makes every run use the version of the dataset that
// the first one had, since runs over different items could not be compared. It also finds names
// that are taken in Langfuse, and calls Check of every run. The error joins all problems. Runs
// with a Source of their own have nothing to pin: they leave SweepRun.Dataset empty, or skip Pin.
func (s *Sweep) Pin(ctx context.Context) error {
	if len(s.paths) == 0 {
		return errNotPrepared
	}
	var problems []error
	if name := s.Runs[0].Dataset; name != "" && !IsFile(name) {
		if err := s.pin(ctx); err != nil {
			return err
		}
		problems = s.checkNames(ctx)
	}
	for _, run := range s.Runs {
		if run.Check != nil {
			problems = append(problems, run.Check(ctx))
		}
	}
	return errors.Join(problems...)
}

func (s *Sweep) pin(ctx context.Context) error {
	for _, path := range s.paths {
		run := runstore.ReadEntry(ctx, path)
		if errors.Is(run.Err, runstore.ErrMissing) {
			continue
		}
		if run.Err != nil {
			return run.Err
		}
		if d := run.Header.Dataset; d.Version != "" {
			var err error
			s.pinned, err = tracking.ReopenDataset(s.Langfuse.Client, d.ID, d.Name, d.Version)
			return err
		}
	}
	var err error
	s.pinned, err = Open(ctx, s.Langfuse, s.Runs[0].Dataset)
	return err
}

// DatasetID returns the id in Langfuse of the dataset that Pin pinned, or "" for a file.
func (s *Sweep) DatasetID() string {
	if pinned, ok := s.pinned.(*tracking.Dataset); ok {
		return pinned.ID()
	}
	return ""
}

// Paths returns the run files, in the order of the runs. Call Prepare first.
func (s *Sweep) Paths() []string { return s.paths }

// checkNames returns an error for each name that Langfuse already has.
func (s *Sweep) checkNames(ctx context.Context) (problems []error) {
	for i, run := range s.Runs {
		if _, err := os.Stat(s.paths[i]); err == nil {
			continue
		}
		cfg := s.locatedConfig(run)
		cfg.Header.Dataset.ID, cfg.Header.Trials = s.DatasetID(), max(1, run.Trials)
		_, taken, err := cfg.nameTaken(ctx, run.Name)
		switch {
		case err != nil:
			return append(problems, err)
		case taken:
			problems = append(problems, cli.Usage("the run name %q is taken (in Langfuse): use another --name", run.Name))
		}
	}
	return problems
}

var errNotPrepared = cli.Usage("experiment: a Sweep needs Runs, and Prepare before Pin and Run")

// Run carries out the run with the index i. It sets Header.Name, Langfuse, Resume and Retry in cfg,
// and Source if the dataset is pinned. See the function Run for errors.
func (s *Sweep) Run(ctx context.Context, i int, cfg Config) (Result, error) {
	if i < 0 || i >= len(s.paths) {
		return Result{}, errNotPrepared
	}
	cfg.Header.Name, cfg.Langfuse, cfg.sweepPaths = s.Runs[i].Name, s.Langfuse, s.paths
	if s.pinned != nil {
		cfg.Source = s.pinned
	}
	_, missing := os.Stat(s.paths[i])
	cfg.Resume, cfg.Retry = (s.Resume || s.Retry) && missing == nil, s.Retry && missing == nil
	return Run(ctx, cfg)
}

// MaxSweep is the largest number of runs of a sweep. More are probably a mistake.
const MaxSweep = 100

// Axis is a setting with the values to try.
type Axis struct {
	Flag   string // one of SweepFlags
	Values []string
}

// Setting is a value of an axis.
type Setting struct{ Flag, Value string }

// SweepSettings are the settings of one run of a sweep.
type SweepSettings struct {
	Name     string
	Settings []Setting // in the order of SweepFlags
	// Bare means that the model reads no prompt and no parameters: Settings has the model only.
	Bare bool
}

// SweepConfig is the configuration of Matrix.
type SweepConfig struct {
	// Base is the beginning of every name.
	Base string
	// Axes are in any order. An axis with a single value is part of the names too, so that
	// adding a value later changes no name.
	Axes []Axis
	// Bare, if not nil, reports whether a model reads no prompt and has no parameters. Such a
	// model has one run, since others would be the same.
	Bare func(model string) bool
}

// Matrix returns the runs of a sweep, by model, then prompt, then parameters, in the order of
// the values. The same configuration always gives the same runs, and values that are added at
// the end of an axis do not change the names of the others.
//
// The error joins all problems: an axis that is unknown, is given twice or has no values; a
// value that is empty or repeated; names that are the same; more than MaxSweep runs.
func Matrix(cfg SweepConfig) ([]SweepSettings, error) {
	axes, err := orderAxes(cfg.Axes)
	if err != nil {
		return nil, err
	}
	combined, err := combinations(axes)
	if err != nil {
		return nil, err
	}
	words, err := nameWords(axes)
	if err != nil {
		return nil, err
	}
	var runs []SweepSettings
	var problems []error
	for _, settings := range combined {
		run := SweepSettings{Settings: settings}
		if model := settings[0]; model.Flag == "model" && cfg.Bare != nil && cfg.Bare(model.Value) {
			run = SweepSettings{Settings: settings[:1:1], Bare: true}
		}
		run.Name = runName(cfg.Base, run.Settings, words)
		if run.Bare && slices.ContainsFunc(runs, func(c SweepSettings) bool { return c.Bare && c.Settings[0] == run.Settings[0] }) {
			continue
		}
		if slices.ContainsFunc(runs, func(c SweepSettings) bool { return c.Name == run.Name }) {
			problems = append(problems, fmt.Errorf("two runs of the sweep would be called %q", run.Name))
		}
		runs = append(runs, run)
	}
	return runs, errors.Join(problems...)
}

// orderAxes checks the axes and sorts them into the order of SweepFlags.
func orderAxes(axes []Axis) ([]Axis, error) {
	var problems textutil.Problems
	seen := map[string]bool{}
	for _, a := range axes {
		problems.Add(!slices.Contains(SweepFlags(), a.Flag), "--%s cannot be swept%s; these can: %s",
			a.Flag, textutil.Hint(a.Flag, SweepFlags()), strings.Join(SweepFlags(), ", "))
		problems.Add(seen[a.Flag], "--%s is given twice", a.Flag)
		problems.Add(len(a.Values) == 0 && !seen[a.Flag], "--%s has no values", a.Flag)
		seen[a.Flag] = true
		for i, value := range a.Values[:min(len(a.Values), MaxSweep)] { // more are refused by combinations
			problems.Add(strings.TrimSpace(value) == "", "--%s has an empty value", a.Flag)
			problems.Add(value != "" && slices.Contains(a.Values[:i], value), "--%s has the value %q twice", a.Flag, value)
		}
	}
	problems.Add(len(axes) == 0, "there is nothing to sweep")
	sorted := slices.SortedFunc(slices.Values(axes), func(a, b Axis) int {
		return slices.Index(SweepFlags(), a.Flag) - slices.Index(SweepFlags(), b.Flag)
	})
	return sorted, errors.Join(problems...)
}

// combinations returns all combinations of one value of each axis. The last axis changes
// fastest.
func combinations(axes []Axis) ([][]Setting, error) {
	all := [][]Setting{nil}
	for _, a := range axes {
		if len(all)*len(a.Values) > MaxSweep {
			return nil, fmt.Errorf("the sweep has more than %d runs: try fewer values at once", MaxSweep)
		}
		var extended [][]Setting
		for _, settings := range all {
			for _, value := range a.Values {
				extended = append(extended, append(slices.Clip(settings), Setting{a.Flag, value}))
			}
		}
		all = extended
	}
	return all, nil
}

// SweepFlags returns the settings that can be swept, in their order within a name.
func SweepFlags() []string {
	return append([]string{"model", "prompt", "prompt-label", "prompt-version"}, outcome.ParameterFlags()...)
}

// valuePrefix returns the prefix of values that are not clear by themselves.
func valuePrefix(flag string) string {
	short := map[string]string{"prompt-version": "v", "temperature": "t", "top-p": "p", "max-tokens": "max"}[flag]
	if short == "" && slices.Contains(outcome.ParameterFlags(), flag) {
		return flag
	}
	return short
}

// nameWords returns the word of every value of every axis. If two models have the same short
// name, that of the later one includes its provider.
func nameWords(axes []Axis) (map[Setting]string, error) {
	words := map[Setting]string{}
	for _, a := range axes {
		var taken []string
		for _, value := range a.Values {
			word := valuePrefix(a.Flag) + textutil.CanonicalNumber(value)
			if a.Flag == "model" {
				if word = shortModel(value); slices.Contains(taken, word) {
					word = safeName(strings.TrimSuffix(value, ".jsonl"))
				}
			}
			if word = safeName(word); word == "" || slices.Contains(taken, word) {
				return nil, fmt.Errorf("--%s %q has no name of its own: %q", a.Flag, value, word)
			}
			taken = append(taken, word)
			words[Setting{a.Flag, value}] = word
		}
	}
	return words, nil
}

// runName joins the words of a run to the base. A prompt and its version are one word, like
// extraction@3.
func runName(base string, settings []Setting, words map[Setting]string) string {
	parts := []string{base}
	for i, s := range settings {
		if s.Flag == "prompt-version" && i > 0 && settings[i-1].Flag == "prompt" {
			parts[len(parts)-1] += "@" + safeName(textutil.CanonicalNumber(s.Value))
			continue
		}
		parts = append(parts, words[s])
	}
	return strings.Join(parts, "-")
}

// shortModel returns the model without its provider, or the name of a file without folder and
// extension.
func shortModel(model string) string {
	short := model[strings.LastIndexAny(model, `/\`)+1:]
	return safeName(strings.TrimSuffix(short, ".jsonl"))
}

// safeName replaces the characters of a text that the name of a run cannot have with -.
func safeName(text string) string {
	return strings.Trim(notInNames().ReplaceAllString(strings.ToValidUTF8(text, "-"), "-"), "-")
}

var notInNames = textutil.Pattern(`[^\p{L}\p{Nd}._@-]`)
