package experiment

import (
	"context"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// Summarise computes the summary of a run from its file alone. Only newest attempts count,
// except for the cost, which includes all. order is the order in which scores are shown; see
// outcome.SummaryConfig. With the depth runstore.RowOnly in place of Brief, it takes a third of the
// time, and the summary lacks what needs the details of outcomes, for example groups and causes.
func Summarise(
	ctx context.Context, run *runstore.Reader, order []string, depth runstore.Depth,
) (s outcome.Summary, err error) {
	if s, err = tally(ctx, run, order, depth); err == nil {
		err = fillPublication(ctx, run, &s)
	}
	return s, err
}

// tally computes the summary without what is in Langfuse.
func tally(ctx context.Context, run *runstore.Reader, order []string, depth runstore.Depth) (outcome.Summary, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return outcome.Summary{}, err
	}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{Order: order})
	var previous *outcome.Outcome // the previous outcome, which a newer attempt may replace
	for o, err := range run.Outcomes(ctx, runstore.Query{Depth: depth}) {
		switch {
		case err != nil:
			return outcome.Summary{}, err
		case previous == nil:
		case previous.Item == o.Item && previous.Trial == o.Trial:
			sum.AddReplaced(*previous)
		default:
			sum.Add(*previous)
		}
		previous = &o
	}
	if previous != nil {
		sum.Add(*previous)
	}
	s := sum.Summary()
	err = finishSummary(ctx, run, &s)
	return s, err
}

// finishSummary fills in what outcomes do not contain: the number of planned ones, and the
// footer.
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

// summarise computes the summary of a run that has ended. It reads the outcomes only if they
// were not all added up as they were committed.
func (e *execution) summarise() (outcome.Summary, error) {
	ctx := context.Background()
	counts, err := e.run.Counts(ctx)
	if err == nil && e.summariser != nil {
		if s := e.summariser.Summary(); int64(s.Items.Scored+s.Items.Failed) == counts.Done {
			err = finishSummary(ctx, e.run.Reader, &s)
			return s, err
		}
	}
	return tally(ctx, e.run.Reader, e.cfg.Order, runstore.Brief)
}

// fillPublication fills in how much of a run is in Langfuse, and where.
func fillPublication(ctx context.Context, run *runstore.Reader, s *outcome.Summary) error {
	header, err := run.Header(ctx)
	if err != nil || header.Project == "" {
		return err // runs without a project are not published
	}
	counts, err := run.Counts(ctx)
	if err != nil {
		return err
	}
	if !run.Imported() { // exports do not say what was published
		waiting := min(max(counts.Done-counts.Published, counts.ToWithdraw), counts.Done)
		s.Published = &outcome.PublishedCount{Outcomes: int(counts.Done - waiting), Waiting: int(waiting)}
	}
	e, _, err := run.Experiment(ctx, 1)
	s.Run.ID, s.Run.URL = e.ID, e.URL
	for i := 0; err == nil && s.Trials != nil && i < len(s.Trials.Runs); i++ {
		t := &s.Trials.Runs[i]
		e, _, err = run.Experiment(ctx, t.Trial)
		t.Name, t.ID, t.URL = tracking.RunName(header, t.Trial), e.ID, e.URL
	}
	return err
}

// FailureLimit is the number of items that may fail before a finished run counts as bad: a number,
// "3", or a share of the planned items, "5%" (also "2.5%").
type FailureLimit string

// ParseFailureLimit checks the form of a FailureLimit and removes spaces around it.
func ParseFailureLimit(text string) (FailureLimit, error) {
	text = strings.TrimSpace(text)
	if share, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return "", fmt.Errorf("%q is not a share of failed items: write a number from 0%% to 100%%", text)
		}
		return FailureLimit(text), nil
	}
	if n, err := strconv.Atoi(text); err != nil || n < 0 {
		return "", fmt.Errorf("%q is not a number of failed items: write one such as 3, or a share such as 5%%", text)
	}
	return FailureLimit(text), nil
}

// Exceeded reports whether more of the planned items failed than are allowed. Exactly the
// allowed number does not exceed it. A FailureLimit that ParseFailureLimit would refuse counts as 0.
func (a FailureLimit) Exceeded(failed, planned int) bool {
	number, isShare := strings.CutSuffix(string(a), "%")
	// Exact decimals: in float64, 0.57*10000 is less than 5700.
	allowed, ok := new(big.Rat).SetString(strings.TrimSpace(number))
	if _, err := ParseFailureLimit(string(a)); err != nil || !ok {
		return failed > 0
	}
	if isShare {
		allowed.Mul(allowed, big.NewRat(int64(planned), 100))
	}
	return new(big.Rat).SetInt64(int64(failed)).Cmp(allowed) > 0
}
