package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/output"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/nearest"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

func runsCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "runs",
		Usage:     "list the runs of this folder",
		UsageText: "experiment runs [--json]",
		Flags:     []urfave.Flag{settings.JSONFlag()},
		Action: func(c *urfave.Context) error {
			if err := settings.NoWords(c); err != nil {
				return err
			}
			return runsAction(c, env)
		},
	}
}

// runsAction lists the runs, the newest first. What cannot be read is an error
// beside the list of the rest.
func runsAction(c *urfave.Context, env cli.Env) error {
	listed, err := runRows(c.Context)
	if err != nil {
		return err
	}
	var problems []error
	rows := []report.RunRow{}
	for _, l := range listed {
		problems = append(problems, l.err)
		if l.row != nil {
			rows = append(rows, *l.row)
		}
	}
	if c.Bool("json") {
		problems = append(problems, output.JSON(env, rows))
	} else {
		problems = append(problems, cli.Written(report.Runs(env.Stdout, rows, output.Text(env, nil))))
	}
	return errors.Join(problems...)
}

// listedRun is a run file, its row as far as it can be read, and what is wrong with it.
type listedRun struct {
	path string
	row  *report.RunRow
	err  error
}

// runRows sums up the runs of this folder, the newest first. What was summed up before
// and has not changed is taken from the cache.
func runRows(ctx context.Context) ([]listedRun, error) {
	entries, err := runstore.Files(ctx, connect.Folder)
	if err != nil {
		return nil, cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	cache := readRunCache(ctx)
	var listed []listedRun
	for _, e := range entries {
		l := listedRun{path: e.Path, err: e.Err}
		if e.Err == nil {
			l.row, l.err = cache.row(e.Path, func() (*report.RunRow, error) { return readRow(ctx, e.Path) })
		}
		l.err = withDenied(l.err)
		listed = append(listed, l)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	cache.write()
	slices.SortStableFunc(listed, func(a, b listedRun) int { return b.started().Compare(a.started()) })
	return listed, nil
}

func (l listedRun) started() time.Time {
	if l.row == nil {
		return time.Time{}
	}
	return l.row.Started
}

// readRow sums up a run file, which is read as a whole if it is small. With an error of
// the outcomes comes what else is known.
func readRow(ctx context.Context, path string) (row *report.RunRow, err error) {
	run, err := runstore.Load(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	header, err := run.Header(ctx)
	if err != nil {
		return nil, err
	}
	footer, ended, err := run.Footer(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := run.Counts(ctx)
	if err != nil {
		return nil, err
	}
	status := outcome.Unfinished
	if ended {
		status = footer.Status
	}
	row = &report.RunRow{
		Name: header.Name, Dataset: header.Dataset.Name, Model: header.System.Model, Status: string(status),
		Items: int(counts.Planned) / max(1, header.Trials), Trials: max(1, header.Trials), Failed: int(counts.Failed),
		Primary: header.Scorer.Primary, Started: header.Started.Local(),
	}
	if header.Project != "" {
		row.Unpublished = int(counts.Done - counts.Published)
	}
	if err := run.Check(ctx); err != nil {
		return row, err
	}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{})
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

// withDenied gives a run that the system does not let us read its exit code.
func withDenied(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	return err
}

// listRuns lists the runs of this folder.
func listRuns(ctx context.Context) ([]runstore.Entry, error) {
	entries, err := runstore.List(ctx, connect.Folder)
	for i, e := range entries {
		entries[i].Err = withDenied(e.Err)
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
