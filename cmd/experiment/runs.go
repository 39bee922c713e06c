package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/nearest"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

func runsCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:         "runs",
		Usage:        "list the runs of this folder",
		UsageText:    "experiment runs [--json]",
		OnUsageError: flags.UsageError,
		Flags:        []urfave.Flag{jsonFlag()},
		Action: func(c *urfave.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			return runsAction(c, env)
		},
	}
}

// runsAction lists the runs, the newest first. What cannot be read is an error
// beside the list of the rest.
func runsAction(c *urfave.Context, env cli.Env) error {
	entries, err := listRuns(c.Context)
	if err != nil {
		return err
	}
	var problems []error
	rows := []report.RunRow{}
	for _, e := range entries {
		if e.Err != nil {
			problems = append(problems, e.Err)
			continue
		}
		row, err := runRow(c.Context, e)
		problems = append(problems, err)
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b report.RunRow) int { return b.Started.Compare(a.Started) })
	if c.Bool("json") {
		problems = append(problems, printJSON(env, rows))
	} else {
		problems = append(problems, cli.Written(report.Runs(env.Stdout, rows, textOptions(env, nil))))
	}
	return errors.Join(problems...)
}

func runRow(ctx context.Context, e runstore.Entry) (row report.RunRow, err error) {
	status := outcome.Unfinished
	if e.Footer != nil {
		status = e.Footer.Status
	}
	row = report.RunRow{
		Name: e.Header.Name, Dataset: e.Header.Dataset.Name, Model: e.Header.System.Model, Status: string(status),
		Items: int(e.Counts.Planned) / max(1, e.Header.Trials), Trials: max(1, e.Header.Trials), Failed: int(e.Counts.Failed), Primary: e.Header.Scorer.Primary, Started: e.Header.Started.Local(),
	}
	if e.Header.Project != "" {
		row.Unpublished = int(e.Counts.Done - e.Counts.Published)
	}
	run, err := runstore.Load(e.Path)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := run.Check(ctx); err != nil {
		return row, err
	}
	sum := outcome.NewSummariser(e.Header, outcome.SummaryConfig{})
	for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true}) {
		if err != nil {
			return row, err
		}
		sum.Add(o)
	}
	summary := sum.Summary()
	stat, _ := summary.Scores.Lookup(row.Primary)
	row.Mean, row.AsZero = stat.Mean, stat.FailuresAsZero
	if summary.Answers != nil {
		row.Weighted = summary.WeightedScore
	}
	return row, nil
}

// listRuns lists the runs of this folder.
func listRuns(ctx context.Context) ([]runstore.Entry, error) {
	entries, err := runstore.List(ctx, connect.Folder)
	for i, e := range entries {
		if errors.Is(e.Err, os.ErrPermission) {
			entries[i].Err = cli.Errorf(cli.ExitIO, "reading the runs: %w", e.Err)
		}
	}
	if err != nil {
		return entries, cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	return entries, nil
}

// openRun opens the run that a person named: by its file, by an export, or by
// its name among the runs of this folder.
func openRun(ctx context.Context, named, dataset string) (*runstore.Reader, error) {
	path, err := findRun(ctx, named, dataset)
	if err != nil {
		return nil, err
	}
	run, err := runstore.OpenAny(ctx, path)
	if err != nil {
		if report, is, _ := openAnswersReport(ctx, path); is {
			return nil, cli.Usage("%s is a report, which compare reads; name the run (%s)", path, report.run.Header.Name)
		}
	}
	return run, err
}

// findRun returns the file of a run that was named.
func findRun(ctx context.Context, named, dataset string) (string, error) {
	if info, err := os.Stat(named); err == nil && !info.IsDir() {
		return named, nil
	}
	if strings.ContainsRune(named, filepath.Separator) || filepath.Ext(named) == runstore.Extension || filepath.Ext(named) == ".jsonl" {
		return "", cli.Usage("there is no file %s", named)
	}
	entries, err := listRuns(ctx)
	if err != nil {
		return "", err
	}
	var found, names, datasets, elsewhere []string
	for _, e := range entries {
		if e.Err != nil && named != e.Header.Name {
			if e.Placed(dataset, named) { // opening it says what is wrong with it
				found, datasets = append(found, e.Path), append(datasets, filepath.Base(filepath.Dir(e.Path)))
			}
			continue // experiment runs names it
		}
		names = append(names, e.Header.Name)
		if e.Header.Name == named {
			elsewhere = append(elsewhere, e.Header.Dataset.Name)
		}
		if e.Header.Name == named && (dataset == "" || e.Header.Dataset.Name == dataset) {
			found, datasets = append(found, e.Path), append(datasets, e.Header.Dataset.Name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", cli.Usage("there are runs %q of several datasets (%s): add --dataset, or name the file: %s", named, strings.Join(datasets, ", "), strings.Join(found, ", "))
	}
	if len(elsewhere) > 0 {
		return "", cli.Usage("there is no run %q of dataset %q; there is one of %s", named, dataset, strings.Join(elsewhere, ", "))
	}
	if hint := nearest.Hint(named, names); hint != "" {
		return "", cli.Usage("there is no run %q in this folder%s", named, hint)
	}
	return "", cli.Usage("there is no run %q in this folder; experiment runs lists those that are", named)
}
