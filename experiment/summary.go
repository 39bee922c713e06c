package experiment

import (
	"context"
	"errors"
	"path/filepath"

	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// Summarise sums a run up from its file alone. Newest attempts count only, but for
// what all of them cost. order is that in which scores are shown; see
// outcome.SummaryConfig.
func Summarise(ctx context.Context, run *runstore.Reader, order []string) (outcome.Summary, error) {
	s, err := tally(ctx, run, order)
	if err != nil {
		return s, err
	}
	return s, publicationState(ctx, run, &s)
}

// tally is Summarise but for what is in Langfuse.
func tally(ctx context.Context, run *runstore.Reader, order []string) (outcome.Summary, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return outcome.Summary{}, err
	}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{Order: order})
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

// publicationState tells how much of a run is in Langfuse, and where.
func publicationState(ctx context.Context, run *runstore.Reader, s *outcome.Summary) error {
	if filepath.Ext(run.Path()) != runstore.Extension {
		return nil // an export does not say what was published, nor where
	}
	header, err := run.Header(ctx)
	if err != nil || header.Project == "" {
		return err // it is published nowhere
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
