package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// SweepRun is one run of several that are carried out one after the other.
type SweepRun struct {
	// Name and Dataset are those of the run; Trials is how often it takes every item.
	Name, Dataset string
	Trials        int
	// Check finds what would fail when its turn comes; nil finds nothing.
	Check func(ctx context.Context) error
}

// Sweep is a list of runs that belong together: they share a budget, and those over a
// dataset in Langfuse use the same version of it.
type Sweep struct {
	Runs     []SweepRun
	Langfuse *Langfuse
	// Resume continues the runs that have begun; Retry gives their failed items another
	// attempt.
	Resume, Retry bool
	// What names the sweep in errors, such as "this sweep".
	What string
	// Note is told what a person should know before it begins; "" is nothing.
	Note func(string)

	paths  []string
	pinned Source
}

// Prepare finds out where the runs are and which have begun, and returns an error if Resume
// or Retry do not fit. It is called once, before Pin and Run.
func (s *Sweep) Prepare(ctx context.Context) error {
	var begun, names []string
	for _, run := range s.Runs {
		cfg := s.placed(run)
		s.paths, names = append(s.paths, cfg.Path), append(names, run.Name)
		if _, err := os.Stat(cfg.Path); err == nil {
			begun = append(begun, run.Name)
		}
	}
	switch {
	case s.Retry && len(begun) == 0:
		return cli.Usage("no run of %s has begun, there is nothing to try again: leave --retry-failed out", s.What)
	case s.Resume || s.Retry:
		note, err := NeverBegun(ctx, names, s.paths)
		if err != nil {
			return err
		}
		call(s.Note != nil, func() { s.Note(note) })
	case len(begun) > 0:
		return cli.Usage("runs of %s exist already (%s): use --resume to continue it, or another --name", s.What, strings.Join(begun, ", "))
	}
	return nil
}

func (s *Sweep) placed(run SweepRun) Config {
	cfg := Config{Header: outcome.Header{Name: run.Name}, Dataset: run.Dataset, Langfuse: s.Langfuse}
	cfg.place()
	return cfg
}

// Pin is for sweeps over one dataset. It makes every run use the version of the dataset
// that the first one had, since runs over different items could not be compared. It also
// finds names that are taken in Langfuse, and calls Check of every run; all problems are
// joined.
func (s *Sweep) Pin(ctx context.Context) error {
	var problems []error
	if !IsFile(s.Runs[0].Dataset) {
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
		h, err := headerOf(ctx, path)
		if errors.Is(err, runstore.ErrMissing) {
			continue
		}
		if err != nil {
			return err
		}
		if d := h.Dataset; d.Version != "" {
			s.pinned, err = tracking.ReopenDataset(s.Langfuse.Client, d.ID, d.Name, d.Version)
			return err
		}
	}
	var err error
	s.pinned, err = Open(ctx, s.Langfuse, s.Runs[0].Dataset)
	return err
}

// DatasetID is the id in Langfuse of the dataset that Pin pinned; empty for a file.
func (s *Sweep) DatasetID() string {
	if pinned, ok := s.pinned.(*tracking.Dataset); ok {
		return pinned.ID()
	}
	return ""
}

// Paths are the run files, in the order of the runs; known once Prepare was called.
func (s *Sweep) Paths() []string { return s.paths }

// headerOf reads the header of a run file.
func headerOf(ctx context.Context, path string) (h outcome.Header, err error) {
	run, err := runstore.Load(path)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	return run.Header(ctx)
}

// checkNames finds names that Langfuse knows already.
func (s *Sweep) checkNames(ctx context.Context) (problems []error) {
	pinned, ok := s.pinned.(*tracking.Dataset)
	if !ok {
		return nil
	}
	for i, run := range s.Runs {
		if _, err := os.Stat(s.paths[i]); err == nil {
			continue
		}
		cfg := s.placed(run)
		cfg.Header.Dataset.ID, cfg.Header.Trials = pinned.ID(), max(1, run.Trials)
		_, taken, err := cfg.taken(ctx, run.Name)
		switch {
		case err != nil:
			return append(problems, err)
		case taken:
			problems = append(problems, cli.Usage("the run name %q is taken (in Langfuse): use another --name", run.Name))
		}
	}
	return problems
}

// Run carries out the run with that index. It ignores Langfuse, Resume and Retry in cfg,
// and Source if the dataset is pinned.
func (s *Sweep) Run(ctx context.Context, i int, cfg Config) (Result, error) {
	cfg.Langfuse, cfg.siblings = s.Langfuse, s.paths
	if s.pinned != nil {
		cfg.Source = s.pinned
	}
	_, missing := os.Stat(s.paths[i])
	cfg.Resume, cfg.Retry = (s.Resume || s.Retry) && missing == nil, s.Retry && missing == nil
	return Run(ctx, cfg)
}

// MaxSweep bounds the number of runs of a sweep: more are probably a mistake, and nobody
// would read them.
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
	// Bare says that the model reads no prompt and no parameters: Settings has
	// the model only.
	Bare bool
}

// SweepConfig says which settings to try.
type SweepConfig struct {
	// Base is what every name begins with.
	Base string
	// Axes may come in any order; one of a single value is part of the names,
	// too, so that adding a value later changes no name.
	Axes []Axis
	// Bare reports whether a model reads no prompt and has no parameters. Such a model has
	// one run, since all others would be the same. Nil means that no model is so.
	Bare func(model string) bool
}

// Matrix returns the runs of a sweep, by model, then prompt, then parameters, in
// the order of the values. The same configuration always gives the same runs,
// and values that are added at the end of an axis leave the names of the others
// as they are.
//
// Errors, all at once: an unknown axis, one that is given twice or has no values,
// a value that is empty or there twice, names that are the same, more than
// MaxSweep runs.
func Matrix(cfg SweepConfig) ([]SweepSettings, error) {
	axes, err := orderAxes(cfg.Axes)
	if err != nil {
		return nil, err
	}
	words, err := nameWords(axes)
	if err != nil {
		return nil, err
	}
	var runs []SweepSettings
	var problems []error
	all, err := combinations(axes)
	for _, settings := range all {
		one := SweepSettings{Settings: settings}
		if model := settings[0]; model.Flag == "model" && cfg.Bare != nil && cfg.Bare(model.Value) {
			one = SweepSettings{Settings: settings[:1:1], Bare: true}
		}
		one.Name = name(cfg.Base, one.Settings, words)
		if one.Bare && slices.ContainsFunc(runs, func(c SweepSettings) bool { return c.Bare && c.Settings[0] == one.Settings[0] }) {
			continue
		}
		if slices.ContainsFunc(runs, func(c SweepSettings) bool { return c.Name == one.Name }) {
			problems = append(problems, fmt.Errorf("two runs of the sweep would be called %q", one.Name))
		}
		runs = append(runs, one)
	}
	return runs, errors.Join(append(problems, err)...)
}

// orderAxes checks the axes and brings them into the order of SweepFlags.
func orderAxes(given []Axis) ([]Axis, error) {
	var problems []error
	seen := map[string]bool{}
	for _, a := range given {
		switch {
		case !slices.Contains(SweepFlags(), a.Flag):
			problems = append(problems, fmt.Errorf("%q cannot be swept%s; what can: %s", a.Flag, textutil.Hint(a.Flag, SweepFlags()), strings.Join(SweepFlags(), ", ")))
		case seen[a.Flag]:
			problems = append(problems, fmt.Errorf("%s is given twice", a.Flag))
		case len(a.Values) == 0:
			problems = append(problems, fmt.Errorf("%s has no values", a.Flag))
		}
		seen[a.Flag] = true
		for i, value := range a.Values {
			if strings.TrimSpace(value) == "" {
				problems = append(problems, fmt.Errorf("%s has an empty value", a.Flag))
			} else if slices.Contains(a.Values[:i], value) {
				problems = append(problems, fmt.Errorf("%s has the value %q twice", a.Flag, value))
			}
		}
	}
	if len(given) == 0 {
		problems = append(problems, errors.New("there is nothing to sweep"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	sorted := slices.Clone(given)
	slices.SortFunc(sorted, func(a, b Axis) int {
		return slices.Index(SweepFlags(), a.Flag) - slices.Index(SweepFlags(), b.Flag)
	})
	return sorted, nil
}

// combinations are of one value of each axis, the last axis changing fastest.
func combinations(axes []Axis) ([][]Setting, error) {
	all := [][]Setting{nil}
	for _, a := range axes {
		var longer [][]Setting
		for _, settings := range all {
			for _, value := range a.Values {
				longer = append(longer, append(slices.Clip(settings), Setting{a.Flag, value}))
			}
		}
		if all = longer; len(all) > MaxSweep {
			return nil, fmt.Errorf("the sweep has more than %d runs: try fewer values at once", MaxSweep)
		}
	}
	return all, nil
}

// SweepFlags lists the settings that can be swept, in their order within a name.
func SweepFlags() []string {
	return []string{"model", "prompt", "prompt-label", "prompt-version", "temperature", "top-p", "max-tokens", "seed"}
}

// marks precede a value that says nothing by itself.
func marks() map[string]string {
	return map[string]string{"prompt-version": "v", "temperature": "t", "top-p": "p", "max-tokens": "max", "seed": "seed"}
}

// nameWords finds a word for every value of every axis. Of two models with the
// same short name the later one has its provider before it.
func nameWords(axes []Axis) (map[Setting]string, error) {
	words := map[Setting]string{}
	for _, a := range axes {
		var taken []string
		for _, value := range a.Values {
			word := marks()[a.Flag] + number(value)
			if a.Flag == "model" {
				if word = shortModel(value); slices.Contains(taken, word) {
					word = readable(strings.TrimSuffix(value, ".jsonl"))
				}
			}
			if word = readable(word); word == "" || slices.Contains(taken, word) {
				return nil, fmt.Errorf("%s %q has no name of its own: %q", a.Flag, value, word)
			}
			taken = append(taken, word)
			words[Setting{a.Flag, value}] = word
		}
	}
	return words, nil
}

// name puts the words of a run after the base; a prompt and its version are
// one word, as extraction@3.
func name(base string, settings []Setting, words map[Setting]string) string {
	parts := []string{base}
	for i, s := range settings {
		if s.Flag == "prompt-version" && i > 0 && settings[i-1].Flag == "prompt" {
			parts[len(parts)-1] += "@" + readable(number(s.Value))
			continue
		}
		parts = append(parts, words[s])
	}
	return strings.Join(parts, "-")
}

// shortModel is the model without its provider, or the name of a file without
// folder and ending.
func shortModel(model string) string {
	short := model[strings.LastIndexAny(model, `/\`)+1:]
	return readable(strings.TrimSuffix(short, ".jsonl"))
}

// number writes a number in the one way that it has: 0.70 is 0.7.
func number(text string) string {
	if v, err := strconv.ParseFloat(text, 64); err == nil && !strings.ContainsAny(text, "xXpP_nN") {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return text
}

// readable leaves of a text what may be in a name of a run.
func readable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-@", r) {
			return r
		}
		return '-'
	}, strings.ToValidUTF8(text, "-"))
	return strings.Trim(text, "-")
}
