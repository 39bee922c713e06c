package main

import (
	"context"
	"io"

	"extraction-experiment/compare"
	"extraction-experiment/internal/cli"
	"extraction-experiment/report"
	"extraction-experiment/report/html"
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
func writeComparison(ctx context.Context, path string, result compare.Comparison, sources []compare.Source) error {
	if path == "" {
		return nil
	}
	return cli.WriteFile(path, func(w io.Writer) error {
		return cli.Written(comparisonPage(ctx, w, result, sources, html.Config{}))
	})
}

// comparisonPage writes the page of a comparison: sources are the base and the
// candidates, which are read once more for their items.
func comparisonPage(ctx context.Context, w io.Writer, result compare.Comparison, sources []compare.Source, cfg html.Config) error {
	var runs []report.Run
	for i, source := range sources {
		side := result.Base
		if i > 0 {
			side = result.Candidates[i-1].Candidate
		}
		run, err := wholeSource(ctx, source, side)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	return html.Compare(w, result, runs, cfg)
}

// wholeSource is a compared run as reports take it. One that is only in Langfuse
// has outcomes, and no documents.
func wholeSource(ctx context.Context, source compare.Source, side compare.Side) (report.Run, error) {
	if local, ok := source.(runSource); ok {
		return wholeRun(ctx, local.run, explained)
	}
	run := side.Summary.Run
	return report.Run{Summary: side.Summary, Items: func(yield func(report.ItemView, error) bool) {
		for o, err := range source.Outcomes(ctx) {
			if !yield(report.ItemView{Run: run.Name, Dataset: run.Dataset, Outcome: o}, err) || err != nil {
				return
			}
		}
	}}, nil
}
