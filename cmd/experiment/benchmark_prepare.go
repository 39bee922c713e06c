package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"extraction-experiment/harness/answers/benchmark"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// prepare finds out which runs have begun, and whether the baseline can be
// compared with: what would be wrong at the end is said before anything is paid.
func (b *benchmarkJob) prepare(ctx context.Context, w workbench) error {
	var begun, names []string
	for _, d := range b.file.Datasets {
		for n := 1; n <= b.file.Runs; n++ {
			path := b.runPath(w, d, n)
			if _, err := os.Stat(path); err == nil {
				begun = append(begun, b.runName(d, n))
			}
			b.paths, names = append(b.paths, path), append(names, b.runName(d, n))
		}
	}
	switch {
	case b.cfg.retry && len(begun) == 0:
		return cli.Usage("no run of the benchmark %s has begun, there is nothing to try again: leave --retry-failed out", b.cfg.name)
	case b.cfg.resume:
		if err := w.sayNeverBegun(ctx, names, b.paths); err != nil {
			return err
		}
	case len(begun) > 0:
		return cli.Usage("runs of the benchmark are there already (%s): use --resume to go on with it, or another --name", strings.Join(begun, ", "))
	}
	if b.base == nil {
		return nil
	}
	planned, err := b.planned(ctx, w)
	if err != nil {
		return err
	}
	var problems []error
	for _, reason := range planned.Incompatible(*b.base) {
		problems = append(problems, cli.Errorf(cli.ExitIncompatible, "the baseline cannot be compared: %s", reason))
	}
	return errors.Join(problems...)
}

// planned is a report of what will be asked of which document, without answers.
func (b *benchmarkJob) planned(ctx context.Context, w workbench) (benchmark.Report, error) {
	var r benchmark.Report
	var problems []error
	for _, d := range b.file.Datasets {
		run, err := b.identified(ctx, w, d)
		if err != nil {
			problems = append(problems, fmt.Errorf("dataset %s: %w", d.ID, err))
		}
		r.Datasets = append(r.Datasets, benchmark.Dataset{ID: d.ID, Weight: d.weight(), Runs: []benchmark.Run{run}})
	}
	return r, errors.Join(problems...)
}

// identified is a run of a dataset of which only document and questions are known.
func (b *benchmarkJob) identified(ctx context.Context, w workbench, d benchmarkDataset) (benchmark.Run, error) {
	doc, err := readDocument(ctx, d.PDF, w.env.Getenv)
	if err != nil {
		return benchmark.Run{}, err
	}
	j := &job{cfg: runConfig{dataset: d.Questions}, lf: w.lf}
	questions, err := j.questions(ctx, &outcome.Header{})
	return benchmark.Run{PDFSHA256: doc.SHA256, QuestionsSHA256: questions.SHA256}, err
}

// runName is that of the n-th run of a dataset.
func (b *benchmarkJob) runName(d benchmarkDataset, n int) string {
	return fmt.Sprintf("%s-%s-%d", b.cfg.name, d.ID, n)
}

// runPath is where that run is, or will be.
func (b *benchmarkJob) runPath(w workbench, d benchmarkDataset, n int) string {
	j := &job{cfg: runConfig{dataset: d.Questions}}
	j.place(&outcome.Header{Name: b.runName(d, n), Project: w.lf.Server.Project.ID, Dataset: outcome.Dataset{Name: d.Questions}})
	return j.path
}
