package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/report/html"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// Summarise sums a stored run up.
func Summarise(ctx context.Context, run *runstore.Reader) (outcome.Summary, error) {
	s, err := experiment.Summarise(ctx, run, ScoreOrder())
	if err != nil {
		return s, err
	}
	header, err := run.Header(ctx)
	s.Warnings = append(s.Warnings, answers.DocumentWarnings(header)...)
	return s, err
}

// ScoreOrder is the order in which scores are shown: those of extractions, then of
// answers.
func ScoreOrder() []string {
	return slices.Concat(ExtractionScores(), answers.ScoreOrder(), []string{outcome.ErrorScore})
}

// ExtractionScores are those of the catalogue, then grounding.
func ExtractionScores() []string {
	var names []string
	for _, d := range scoring.Catalog() {
		names = append(names, d.Name)
	}
	return append(names, harness.GroundedRate)
}

// Comparison is how runs are compared without flags.
func Comparison() compare.Config {
	return compare.Config{
		Order: ScoreOrder(), LowerIsBetter: []string{harness.InventedRate, answers.CitationPenalty}, Matches: matchedLines,
	}
}

// matchedLines lists what an outcome's explanation says was matched, as a person
// reads it. What was extracted under another name is the same match.
func matchedLines(explanation json.RawMessage) ([]string, error) {
	if lines, ok := foundTerms(explanation); ok {
		return lines, nil
	}
	var why harness.Explanation
	if err := json.Unmarshal(explanation, &why); err != nil {
		return nil, fmt.Errorf("the explanation is not one of this program: %w", err)
	}
	var lines []string
	for _, m := range why.Entities {
		lines = append(lines, typed(m.Expected, m.ExpectedType))
	}
	for _, m := range why.Relationships {
		lines = append(lines, stated(m.Expected))
	}
	return lines, nil
}

// CanWritePage finds out before anything is compared.
func CanWritePage(path string) error {
	switch path {
	case "":
		return nil
	case "-":
		return cli.Usage("--html takes a file: the report on standard output is the one for people, --json or --markdown")
	}
	return cli.CanWrite(path)
}

// WriteComparison writes the page of a comparison to a file, if one is named:
// also of runs that cannot be compared, and where the gate is not passed.
func WriteComparison(ctx context.Context, path string, result compare.Comparison, sources []compare.Source) error {
	if path == "" {
		return nil
	}
	return cli.WriteFile(path, func(w io.Writer) error {
		return cli.Written(ComparisonPage(ctx, w, result, sources, html.Config{}))
	})
}

// ComparisonPage writes the page of a comparison: sources are the base and the
// candidates, which are read once more for their items.
func ComparisonPage(ctx context.Context, w io.Writer, result compare.Comparison, sources []compare.Source, cfg html.Config) error {
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
	if local, ok := source.(Source); ok {
		return Whole(ctx, local.Run, true)
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
