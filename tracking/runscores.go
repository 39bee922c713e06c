package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// Names of the scores on a run. The names of means and pooled values are those of the score
// with one of the suffixes.
const (
	itemsPlanned = "items_planned"
	itemsScored  = "items_scored"
	itemsFailed  = "items_failed"
	// weightedScore has the name of the summary's field.
	weightedScore = "weighted_score"

	meanSuffix   = "_mean"
	asZeroSuffix = "_as_zero"
	pooledSuffix = "_pooled"
)

// runScoreValues returns the scores on the run itself, by name:
//   - how many items were planned, scored and failed, because Langfuse shows means without
//     the number of items;
//   - of the primary score, the mean with failed items as 0 (entity_f1_as_zero) and the pooled
//     value (entity_f1_pooled); of relationship_f1, the pooled value;
//   - weighted_score, for answers about documents.
//
// It omits undefined values. With Form 0 it returns the mean and the pooled value of every
// score instead.
func runScoreValues(h outcome.Header, s outcome.Summary) map[string]float64 {
	values := map[string]float64{
		itemsPlanned: float64(s.Items.Planned),
		itemsScored:  float64(s.Items.Scored),
		itemsFailed:  float64(s.Items.Failed),
	}
	if s.Answers != nil && s.WeightedScore != nil {
		values[weightedScore] = *s.WeightedScore
	}
	add := func(name, suffix string, value *float64) {
		if value != nil {
			values[scoreName(name)+suffix] = *value
		}
	}
	for _, stat := range s.Scores {
		primary, all := stat.Name == h.Scorer.Primary, h.Publication.Form == 0
		if all {
			add(stat.Name, meanSuffix, stat.Mean)
		} else if primary {
			add(stat.Name, asZeroSuffix, stat.FailuresAsZero)
		}
		if all || primary || stat.Name == scoring.RelationshipF1 {
			add(stat.Name, pooledSuffix, stat.Pooled)
		}
	}
	return values
}

// scoreName replaces dots in a name by underscores, as the comparison pages of Langfuse do,
// so that all pages show the same name.
func scoreName(name string) string { return strings.ReplaceAll(textutil.ValidUTF8(name), ".", "_") }

// sumTrial computes the run scores of one trial from its newest attempts.
func sumTrial(ctx context.Context, run *runstore.Reader, h outcome.Header, trial int) (map[string]float64, error) {
	h.Trials = 1
	sum := outcome.NewSummariser(h, outcome.SummaryConfig{Worst: -1, Messages: -1})
	for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true, Trial: trial}) {
		if err != nil {
			return nil, err
		}
		sum.Add(o)
	}
	planned, err := run.CountItems(ctx)
	if err != nil {
		return nil, err
	}
	s := sum.Summary()
	s.Items.Planned = int(planned)
	return runScoreValues(h, s), nil
}

// sendRunScores sends the run scores of every trial if the run has ended. It sends scores
// that are stored but not acknowledged unchanged, changed scores with a later timestamp, and
// acknowledged scores not at all.
func (p *publisher) sendRunScores(ctx context.Context) error {
	if p.runScoresSent {
		return nil
	}
	footer, ended, err := p.cfg.Run.Footer(ctx)
	if err != nil {
		return err
	}
	if !ended {
		p.runScoresSent = true // there are none to send
		return nil
	}
	p.refusedRunScores = nil
	var problems []error
	for trial := 1; trial <= max(1, p.header.Trials); trial++ {
		problems = append(problems, p.sendTrialScores(ctx, trial, footer.Ended))
	}
	err = errors.Join(problems...)
	p.runScoresSent = err == nil && len(p.refusedRunScores) == 0
	return err
}

// sendTrialScores sends the run scores of a trial. It adds those that Langfuse refuses for good
// to p.refusedRunScores, and returns the first of the other errors.
func (p *publisher) sendTrialScores(ctx context.Context, trial int, ended time.Time) error {
	known, opened, err := p.cfg.Run.Experiment(ctx, trial)
	if err != nil || !opened {
		return err
	}
	var values map[string]float64
	if p.cfg.Summary != nil && p.header.Trials <= 1 {
		var s outcome.Summary
		s, err = p.cfg.Summary()
		values = runScoreValues(p.header, s)
	} else {
		values, err = sumTrial(ctx, p.cfg.Run.Reader, p.header, trial)
	}
	if err != nil {
		return err
	}
	scores, sent, err := p.cfg.Run.RunScores(ctx, trial)
	if err != nil {
		return err
	}
	same := sent && maps.Equal(scores.Values, values)
	if same && scores.Acknowledged {
		return nil
	}
	if !same {
		scores = runstore.RunScores{Trial: trial, Values: values, At: latest(ended, scores.At.Add(time.Millisecond))}
		if err := p.cfg.Run.SetRunScores(ctx, scores); err != nil {
			return err
		}
	}
	scores.Acknowledged = true
	for _, failure := range p.createScores(ctx, runScoreRequests(p.header, known.ID, scores)) {
		scores.Acknowledged = scores.Acknowledged && failure == nil
		if errors.Is(failure, langfuse.ErrRefused) {
			p.refusedRunScores = append(p.refusedRunScores, refusal{err: failure})
		} else {
			err = cmp.Or(err, failure)
		}
	}
	if err != nil {
		return fmt.Errorf("the scores of the run: %w", err)
	}
	if !scores.Acknowledged {
		return nil
	}
	return p.cfg.Run.SetRunScores(context.WithoutCancel(ctx), scores)
}

// runScoreRequests returns the run scores of a trial as requests to Langfuse, sorted by name.
func runScoreRequests(h outcome.Header, experiment string, scores runstore.RunScores) []langfuse.ScoreCreate {
	var requests []langfuse.ScoreCreate
	for _, name := range slices.Sorted(maps.Keys(scores.Values)) {
		requests = append(requests, langfuse.ScoreCreate{
			ID: digest(16, h.RunUID, "run score", RunName(h, scores.Trial), name), Name: name,
			Value: langfuse.NumberValue(scores.Values[name]), Type: langfuse.ScoreNumeric,
			DatasetRunID: experiment, Environment: h.ScoreEnvironment(), Timestamp: scores.At,
		})
	}
	return requests
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
