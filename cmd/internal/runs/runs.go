// Package runs finds the runs that a person names, and opens, lists, shows and compares
// them: those of this folder, exports, reports of answers, and runs that are only in
// Langfuse.
package runs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/runstore"
)

// withDenied gives a run that the system does not let us read its exit code.
func withDenied(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	return err
}

// List lists the runs of this folder.
func List(ctx context.Context) ([]runstore.Entry, error) {
	entries, err := runstore.List(ctx, connect.Folder)
	for i, e := range entries {
		entries[i].Err = withDenied(e.Err)
	}
	if err != nil {
		return entries, cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	return entries, nil
}

// Open opens the run that a person named: by its file, by an export, or by
// its name among the runs of this folder.
func Open(ctx context.Context, named, dataset string) (*runstore.Reader, error) {
	path, err := Find(ctx, named, dataset)
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

// Find returns the file of a run that was named.
func Find(ctx context.Context, named, dataset string) (string, error) {
	if info, err := os.Stat(named); err == nil && !info.IsDir() {
		return named, nil
	}
	if strings.ContainsRune(named, filepath.Separator) || filepath.Ext(named) == runstore.Extension || filepath.Ext(named) == ".jsonl" {
		return "", cli.Usage("there is no file %s", named)
	}
	entries, err := List(ctx)
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
	if hint := textutil.Hint(named, names); hint != "" {
		return "", cli.Usage("there is no run %q in this folder%s", named, hint)
	}
	return "", cli.Usage("there is no run %q in this folder; experiment runs lists those that are", named)
}
