package configs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// Benchmark is the file of "answers benchmark", YAML or JSON.
type Benchmark struct {
	Name     string             `yaml:"name"`
	Datasets []BenchmarkDataset `yaml:"datasets"`
	// Runs is how often each dataset is run; 0 means once.
	Runs int `yaml:"runs"`
	// OnError is best-effort (the default): the other datasets go on; or
	// fail-fast.
	OnError string         `yaml:"on_error"`
	Gates   BenchmarkGates `yaml:"gates"`
}

// BenchmarkDataset is one document with its questions.
type BenchmarkDataset struct {
	ID        string   `yaml:"id"`
	Kind      string   `yaml:"kind"`
	PDF       string   `yaml:"pdf"`
	Questions string   `yaml:"questions"`
	Weight    *float64 `yaml:"weight"` // nil is 1
}

// BenchmarkGates are bounds; a nil one asks for nothing.
type BenchmarkGates struct {
	MinScore       *float64 `yaml:"min_score"`       // of weighted_score
	MaxDrop        *float64 `yaml:"max_drop"`        // of weighted_score against the baseline
	MaxStddev      *float64 `yaml:"max_stddev"`      // of weighted_score over the runs
	MaxRegressions *int     `yaml:"max_regressions"` // questions that are worse than in the baseline
}

// Weighted is the weight of the dataset.
func (d BenchmarkDataset) Weighted() float64 {
	if d.Weight == nil {
		return 1
	}
	return *d.Weight
}

// LoadBenchmark reads a configuration; paths in it are relative to the file.
// Every problem is returned at once, with the file's name.
// The name may stand in for that of the file.
func LoadBenchmark(ctx context.Context, path, name string) (Benchmark, error) {
	var c Benchmark
	text, err := files.Read(ctx, path, files.MaxText)
	if err != nil {
		return c, fmt.Errorf("reading the benchmark: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return c, fmt.Errorf("reading %s: the file is empty", path)
	}
	if err := textutil.DecodeYAML(text, path, &c, BenchmarkDataset{}, BenchmarkGates{}); err != nil {
		return c, err
	}
	if c.Name == "" {
		c.Name = name
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	for i := range c.Datasets {
		for _, file := range []*string{&c.Datasets[i].PDF, &c.Datasets[i].Questions} {
			if !filepath.IsAbs(*file) {
				*file = filepath.Join(filepath.Dir(path), *file)
			}
		}
	}
	c.Runs = max(1, c.Runs)
	return c, nil
}

// datasetIDs are fit for names of runs.
var datasetIDs = textutil.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$`)

func (c Benchmark) check() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		add("name: is missing, here or as --name")
	} else if !datasetIDs().MatchString(c.Name) {
		add("name: %q is no name: letters, digits, . _ and -", c.Name)
	}
	if len(c.Datasets) == 0 {
		add("datasets: there is none")
	}
	seen, total := map[string]bool{}, 0.0
	for i, d := range c.Datasets {
		at := fmt.Sprintf("datasets[%d]", i)
		if !datasetIDs().MatchString(d.ID) {
			add("%s.id: %q is no id: letters, digits, . _ and -", at, d.ID)
		}
		if seen[d.ID] {
			add("%s.id: %q is there twice", at, d.ID)
		}
		seen[d.ID] = true
		if d.PDF == "" || d.Questions == "" {
			add("%s: pdf and questions are both needed", at)
		}
		if w := d.Weighted(); !(w >= 0 && w <= 1e6) {
			add("%s.weight: %g is not a number from 0 to 1e6", at, w)
		} else {
			total += w
		}
	}
	if len(c.Datasets) > 0 && total == 0 {
		add("datasets: the weights sum up to 0")
	}
	if c.Runs < 0 || c.Runs > 100 {
		add("runs: %d is not a number from 1 to 100", c.Runs)
	}
	if c.OnError != "" && c.OnError != "best-effort" && c.OnError != "fail-fast" {
		add("on_error: %q is neither best-effort nor fail-fast", c.OnError)
	}
	bounds := map[string]*float64{"min_score": c.Gates.MinScore, "max_drop": c.Gates.MaxDrop, "max_stddev": c.Gates.MaxStddev}
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		if value := bounds[name]; value != nil && !(*value >= 0 && *value <= 1) {
			add("gates.%s: %g is not a number from 0 to 1", name, *value)
		}
	}
	if most := c.Gates.MaxRegressions; most != nil && *most < 0 {
		add("gates.max_regressions: %d is negative", *most)
	}
	if c.Gates.MaxStddev != nil && c.Runs < 2 {
		add("gates.max_stddev: one run does not vary: set runs to 2 or more")
	}
	return errors.Join(problems...)
}
