package main

import (
	"context"
	"io"

	"extraction-experiment/compare"
	"extraction-experiment/internal/cli"
	"extraction-experiment/report"
	"extraction-experiment/report/html"
	"extraction-experiment/runstore"
)

// canWritePage finds out before anything is compared.
func canWritePage(path string) error {
	switch path {
	case "":
		return nil
	case "-":
		return cli.Usage("--html takes a file: the report on standard output is the one for people, --json or --markdown")
	}
	return cli.CanWrite(path)
}

// writeComparison writes the page of a comparison to a file, if one is named:
// also of runs that cannot be compared, and where the gate is not passed.
func writeComparison(ctx context.Context, path string, result compare.Comparison, runs []*runstore.Reader) error {
	if path == "" {
		return nil
	}
	return cli.WriteFile(path, func(w io.Writer) error {
		return streamed(comparisonPage(ctx, w, result, runs, html.Config{}))
	})
}

// comparisonPage writes the page of a comparison: runs are the base and the
// candidates, which are read once more for their items.
func comparisonPage(ctx context.Context, w io.Writer, result compare.Comparison, runs []*runstore.Reader, cfg html.Config) error {
	var wholes []report.Run
	for _, run := range runs {
		whole, err := wholeRun(ctx, run, explained)
		if err != nil {
			return err
		}
		wholes = append(wholes, whole)
	}
	return html.Compare(w, result, wholes, cfg)
}
