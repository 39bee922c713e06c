package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"

	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// Summarise sums a run up from its file alone. Only newest attempts count, except for what
// all of them cost. The order is that in which scores are shown; see outcome.SummaryConfig.
func Summarise(ctx context.Context, run *runstore.Reader, order []string) (outcome.Summary, error) {
	return published(ctx, run, order, runstore.Query{Brief: true})
}

// Glance is like Summarise, without what needs the details of outcomes, such as groups and
// causes. It takes a third of the time.
func Glance(ctx context.Context, run *runstore.Reader) (outcome.Summary, error) {
	return published(ctx, run, nil, runstore.Query{})
}

func published(
	ctx context.Context, run *runstore.Reader, order []string, read runstore.Query,
) (s outcome.Summary, err error) {
	if s, err = tally(ctx, run, order, read); err == nil {
		err = publicationState(ctx, run, &s)
	}
	return s, err
}

// tally is Summarise but for what is in Langfuse.
func tally(ctx context.Context, run *runstore.Reader, order []string, read runstore.Query) (outcome.Summary, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return outcome.Summary{}, err
	}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{Order: order})
	var held *outcome.Outcome // until it is known whether a newer attempt follows
	for o, err := range run.Outcomes(ctx, read) {
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
	err = finishSummary(ctx, run, &s)
	return s, err
}

// finishSummary fills in what is not of outcomes: how many were planned, and the footer.
func finishSummary(ctx context.Context, run *runstore.Reader, s *outcome.Summary) error {
	counts, err := run.Counts(ctx)
	if err != nil {
		return err
	}
	s.Items.Planned = int(counts.Planned)
	footer, ended, err := run.Footer(ctx)
	if ended {
		s.Finish(footer)
	}
	return err
}

// summarise is tally of a run that has ended.
func (e *execution) summarise() (outcome.Summary, error) {
	ctx := context.Background()
	counts, err := e.run.Counts(ctx)
	if err == nil && e.added != nil {
		if s := e.added.Summary(); int64(s.Items.Scored+s.Items.Failed) == counts.Done {
			err = finishSummary(ctx, e.run.Reader, &s)
			return s, err
		}
	}
	return tally(ctx, e.run.Reader, e.cfg.Order, runstore.Query{Brief: true})
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

// Allowance is how many items may fail before a finished run counts as bad: a number, "3",
// or a share of the planned items, "5%" (also "2.5%").
type Allowance string

// ParseAllowance checks the form.
func ParseAllowance(text string) (Allowance, error) {
	text = strings.TrimSpace(text)
	if share, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return "", fmt.Errorf("%q is not a share of failed items: write a number from 0%% to 100%%", text)
		}
		return Allowance(text), nil
	}
	if n, err := strconv.Atoi(text); err != nil || n < 0 {
		return "", fmt.Errorf("%q is not a number of failed items: write one such as 3, or a share such as 5%%", text)
	}
	return Allowance(text), nil
}

// Exceeded reports whether more of the planned items failed than are allowed. Exactly the
// allowed number does not exceed it.
func (a Allowance) Exceeded(failed, planned int) bool {
	number, isShare := strings.CutSuffix(string(a), "%")
	// In decimals, as it was written: 0.57*10000 is less than 5700 in float64.
	allowed, ok := new(big.Rat).SetString(strings.TrimSpace(number))
	if !ok { // it is as good as none, or nobody parsed it
		return failed > 0
	}
	if isShare {
		allowed.Mul(allowed, big.NewRat(int64(planned), 100))
	}
	return new(big.Rat).SetInt64(int64(failed)).Cmp(allowed) > 0
}
