package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Mode says what repeated trials are for.
type Mode string

// The modes.
const (
	// DeterministicMode answers from what is stored with the cases.
	DeterministicMode Mode = "deterministic"
	// VarianceMode repeats: at least two trials.
	VarianceMode Mode = "variance"
)

// Config says what to run. Datasets or Cases are needed; every other zero value
// is usable.
type Config struct {
	// Datasets are files of cases; Cases are cases in memory, added to them.
	Datasets []string
	Cases    []Case
	Options  Options
	// Mode is DeterministicMode where it is empty and there is no Answerer, else
	// VarianceMode.
	Mode Mode
	// Trials is how often each case is answered; 0 means 1, and 5 in mode
	// VarianceMode.
	Trials int
	// Answerer answers the cases; nil answers from what is stored with them.
	// Cases that expect a failure are about the stored answer: an Answerer is
	// not asked about them, and a warning says how many there are.
	Answerer Answerer
	// System describes the Answerer for the run's header.
	System outcome.System
	// Out is the run file; empty keeps none.
	Out string
	// Resume goes on with the run of that file: the same cases, mode, trials and
	// system. RetryFailed then also asks again about what nobody answered.
	Resume, RetryFailed bool
	// Name of the run; empty is the name of the file.
	Name string
	// Runner names the program and its version for the run's header.
	Runner string

	Concurrency int           // 0 means 4
	Timeout     time.Duration // of one case; 0 means 5 minutes
	// Stop, when closed, ends the run after the cases under way; calls that
	// wait for a model's limits are given up.
	Stop     <-chan struct{}
	Observer experiment.Observer

	leftOut int // cases that an Answerer cannot be asked
}

// Run takes every case through the trials and returns what the run comes to.
//
// Everything is validated before a trial runs: the error joins all problems of
// the Config and of the datasets (exit code 64). A case that fails is part of
// the report. After experiment.ErrInterrupted the report says what there is.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg, err := cfg.complete(ctx)
	if err != nil {
		return Report{}, err
	}
	if cfg.Out == "" {
		dir, err := os.MkdirTemp("", "bench-*")
		if err != nil {
			return Report{}, fmt.Errorf("making room for the run: %w", err)
		}
		cfg.Out = filepath.Join(dir, "bench"+runstore.Extension)
		report, err := cfg.run(ctx)
		return report, errors.Join(err, os.RemoveAll(dir))
	}
	return cfg.run(ctx)
}

// UsageError says what is wrong with a Config.
type UsageError struct{ Err error }

// Error lists the problems.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the problems.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitCode returns 64.
func (e *UsageError) ExitCode() int { return 64 }

func (cfg Config) complete(ctx context.Context) (Config, error) {
	if cfg.Mode == "" && cfg.Answerer == nil {
		cfg.Mode = DeterministicMode
	}
	cfg.Mode = cmp.Or(cfg.Mode, VarianceMode)
	var problems []error
	usage := func(format string, args ...any) {
		problems = append(problems, &UsageError{fmt.Errorf(format, args...)})
	}
	switch {
	case cfg.Mode != DeterministicMode && cfg.Mode != VarianceMode:
		usage("there is no mode %q; there are %s and %s", cfg.Mode, DeterministicMode, VarianceMode)
	case cfg.Mode == DeterministicMode && cfg.Answerer != nil:
		usage("the mode %s answers from what is stored with the cases: leave the model out, or choose %s", DeterministicMode, VarianceMode)
	case cfg.Mode == VarianceMode && cfg.Trials == 1:
		usage("the mode %s compares trials: one is not enough", VarianceMode)
	}
	if cfg.Trials < 0 || cfg.Trials > 1000 {
		usage("%d trials are impossible: at most 1000", cfg.Trials)
	}
	if (cfg.Resume || cfg.RetryFailed) && cfg.Out == "" {
		usage("only a run that has a file can be resumed")
	}
	if cfg.Trials == 0 {
		cfg.Trials = map[Mode]int{DeterministicMode: 1, VarianceMode: 5}[cfg.Mode]
	}
	if len(cfg.Datasets) > 0 {
		cases, err := Read(ctx, cfg.Options, cfg.Datasets...)
		problems = append(problems, err)
		cfg.Cases = append(append([]Case{}, cfg.Cases...), cases...)
	} else if len(cfg.Cases) == 0 {
		usage("there is no dataset to run")
	}
	if cfg.Answerer == nil {
		cfg.System = outcome.System{Model: "stored", Provider: "stored"}
	} else {
		cfg.leaveOut()
	}
	if len(problems) == 0 && len(cfg.Cases) == 0 {
		usage("every case is about its stored answer: a system has nothing to answer")
	}
	return cfg, errors.Join(problems...)
}

// leaveOut drops the cases that expect a failure: it is that of their stored
// answer, which an Answerer does not give.
func (cfg *Config) leaveOut() {
	kept := slices.DeleteFunc(slices.Clone(cfg.Cases), func(c Case) bool {
		return c.Expected != nil && c.Expected.EmptyResultKind == EmptyByFailure
	})
	cfg.leftOut = len(cfg.Cases) - len(kept)
	cfg.Cases = kept
}

func (cfg Config) run(ctx context.Context) (Report, error) {
	if cfg.Resume {
		if err := cfg.continues(ctx); err != nil {
			return Report{}, err
		}
	}
	result, ran := experiment.Run(ctx, experiment.Config{
		Header: cfg.header(), Path: cfg.Out, Source: source(cfg.Cases), Task: task{cfg.Answerer}, Scorer: scorer{},
		Concurrency: cfg.Concurrency, Timeout: cfg.Timeout, Stop: cfg.Stop, Observer: cfg.Observer, Resume: cfg.Resume, Retry: cfg.RetryFailed,
	})
	if ran != nil && !errors.Is(ran, experiment.ErrInterrupted) {
		return Report{}, ran
	}
	run, err := runstore.Load(result.Path)
	if err != nil {
		return Report{}, errors.Join(ran, err)
	}
	report, err := Measure(context.WithoutCancel(ctx), run)
	return report, errors.Join(ran, err, run.Close())
}

// header describes the run.
func (cfg Config) header() outcome.Header {
	name := cfg.Name
	if name == "" {
		base := filepath.Base(cfg.Out)
		name = base[:len(base)-len(filepath.Ext(base))]
	}
	return outcome.Header{
		Name: name, Harness: Name, Dataset: outcome.Dataset{Name: "bench"}, System: cfg.System, Trials: cfg.Trials,
		Scorer:      outcome.Scorer{Version: "bench-" + Version, Primary: CaseSuccess},
		Environment: "bench", Metadata: cfg.metadata(), Runner: cfg.Runner,
	}
}

// The keys of the run's metadata.
const (
	keyMode    = "mode"
	keyLeftOut = "left_out"
	keySources = "cases"
)

func (cfg Config) metadata() map[string]string {
	about := map[string]string{keyMode: string(cfg.Mode)}
	if cfg.leftOut > 0 {
		about[keyLeftOut] = strconv.Itoa(cfg.leftOut)
	}
	if text := sources(cfg.Cases); text != "" {
		about[keySources] = text
	}
	return about
}

// sources counts the cases by the file that they were read from, in the order of
// the files.
func sources(cases []Case) string {
	counts := map[string]int{}
	var files []string
	for _, c := range cases {
		if counts[c.File]++; counts[c.File] == 1 {
			files = append(files, c.File)
		}
	}
	for i, file := range files {
		files[i] = fmt.Sprintf("%d of %s", counts[file], cmp.Or(file, "the caller"))
	}
	return strings.Join(files, ", ")
}

// source lists the cases as items.
type source []Case

// Pages yields the cases, a hundred at a time.
func (s source) Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		var page []dataset.Item
		for i, c := range s {
			item, err := c.item()
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if page = append(page, item); len(page) < 100 && i < len(s)-1 {
				continue
			}
			if !yield(page, nil) {
				return
			}
			page = nil
		}
	}
}
