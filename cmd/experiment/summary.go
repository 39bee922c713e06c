package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"extraction-experiment/harness/answers"
	benches "extraction-experiment/harness/bench"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
	"extraction-experiment/tracking"
)

// summarise sums a run up from its file alone.
func summarise(ctx context.Context, run *runstore.Reader) (outcome.Summary, error) {
	s, err := tally(ctx, run)
	if err != nil {
		return s, err
	}
	return s, standing(ctx, run, &s)
}

// tally is summarise but for what is in Langfuse. Newest attempts count only, but
// for what all of them cost.
func tally(ctx context.Context, run *runstore.Reader) (outcome.Summary, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return outcome.Summary{}, err
	}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{Order: scoreOrder()})
	var held *outcome.Outcome // until it is known whether a newer attempt follows
	for o, err := range run.Outcomes(ctx, runstore.Query{Brief: true}) {
		switch {
		case err != nil:
			return outcome.Summary{}, err
		case held == nil:
		case held.Item == o.Item && held.Trial == o.Trial:
			sum.AddReplaced(*held)
		default:
			sum.Add(*held)
		}
		held = &o
	}
	if held != nil {
		sum.Add(*held)
	}
	s := sum.Summary()
	s.Warnings = append(s.Warnings, documentWarnings(header)...)
	counts, err := run.Counts(ctx)
	if err != nil {
		return s, err
	}
	s.Items.Planned = int(counts.Planned)
	footer, ended, err := run.Footer(ctx)
	if ended {
		s.Finish(footer)
	}
	return s, err
}

// standing tells how much of a run is in Langfuse, and where.
func standing(ctx context.Context, run *runstore.Reader, s *outcome.Summary) error {
	if filepath.Ext(run.Path()) != runstore.Extension {
		return nil // an export does not say what was published, nor where
	}
	header, err := run.Header(ctx)
	if err != nil || header.Harness == benches.Name {
		return err // a bench is never published
	}
	counts, err := run.Counts(ctx)
	if err != nil {
		return err
	}
	s.Published = &outcome.PublishedCount{Outcomes: int(counts.Published), Waiting: int(counts.Done - counts.Published)}
	e, _, err := run.Experiment(ctx, 1)
	s.Run.ID, s.Run.URL = e.ID, e.URL
	return errors.Join(err, whereTrials(ctx, run, header, s.Trials))
}

// whereTrials fills in what each trial is called in Langfuse, and where it is.
func whereTrials(ctx context.Context, run *runstore.Reader, h outcome.Header, t *outcome.Trials) error {
	if t == nil {
		return nil
	}
	for i, trial := range t.Runs {
		e, _, err := run.Experiment(ctx, trial.Trial)
		if err != nil {
			return err
		}
		t.Runs[i].Name, t.Runs[i].ID, t.Runs[i].URL = tracking.RunName(h, trial.Trial), e.ID, e.URL
	}
	return nil
}

// scoreOrder is the order in which scores are shown: those of extractions, then of
// answers.
func scoreOrder() []string {
	return slices.Concat(extractionScores(), answers.ScoreOrder(), []string{outcome.ErrorScore})
}

// extractionScores are those of the catalogue, then grounding.
func extractionScores() []string {
	var names []string
	for _, d := range scoring.Catalog() {
		names = append(names, d.Name)
	}
	return append(names, harness.GroundedRate)
}
