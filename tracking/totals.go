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

// Names of run-level scores; those of means and pooled values are the score's
// own with one of the endings.
const (
	itemsPlanned = "items_planned"
	itemsScored  = "items_scored"
	itemsFailed  = "items_failed"
	// weightedScore is called as in the summary.
	weightedScore = "weighted_score"

	meanEnding   = "_mean"
	asZeroEnding = "_as_zero"
	pooledEnding = "_pooled"
)

// runScores returns what a run comes to as scores on the run itself, by name: how
// many items were planned, scored and failed, because Langfuse shows means without
// saying over how many; of the primary score the mean with failed items as 0
// (entity_f1_as_zero) and the pooled value (entity_f1_pooled), of relationship_f1 the
// pooled value; and weighted_score of answers about a document. What is undefined is
// left out. Form 0 has the mean and the pooled value of every score instead.
func runScores(h outcome.Header, s outcome.Summary) map[string]float64 {
	values := map[string]float64{
		itemsPlanned: float64(s.Items.Planned),
		itemsScored:  float64(s.Items.Scored),
		itemsFailed:  float64(s.Items.Failed),
	}
	if s.Answers != nil && s.WeightedScore != nil {
		values[weightedScore] = *s.WeightedScore
	}
	add := func(name, ending string, value *float64) {
		if value != nil {
			values[scoreName(name)+ending] = *value
		}
	}
	for _, stat := range s.Scores {
		primary, all := stat.Name == h.Scorer.Primary, h.Publication.Form == 0
		if all {
			add(stat.Name, meanEnding, stat.Mean)
		} else if primary {
			add(stat.Name, asZeroEnding, stat.FailuresAsZero)
		}
		if all || primary || stat.Name == scoring.RelationshipF1 {
			add(stat.Name, pooledEnding, stat.Pooled)
		}
	}
	return values
}

// scoreName returns a name as Langfuse shows it unchanged: comparison pages turn
// dots into underscores.
func scoreName(name string) string { return strings.ReplaceAll(textutil.ValidUTF8(name), ".", "_") }

// totalsOf sums one trial up: newest attempts, as the summary of the command
// line does.
func totalsOf(ctx context.Context, run *runstore.Reader, h outcome.Header, trial int) (map[string]float64, error) {
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
	return runScores(h, s), nil
}

// totals sends the scores of every trial, once the run has ended: unchanged where
// they were sent before and not acknowledged, at a later time where they changed,
// not at all where Langfuse has them.
func (p *publisher) totals(ctx context.Context) error {
	if p.totalled {
		return nil
	}
	footer, ended, err := p.cfg.Run.Footer(ctx)
	if err != nil {
		return err
	}
	if !ended {
		p.totalled = true // there are none
		return nil
	}
	p.refusedTotals = nil
	var problems []error
	for trial := 1; trial <= max(1, p.header.Trials); trial++ {
		problems = append(problems, p.totalsOfTrial(ctx, trial, footer.Ended))
	}
	err = errors.Join(problems...)
	p.totalled = err == nil && len(p.refusedTotals) == 0
	return err
}

func (p *publisher) totalsOfTrial(ctx context.Context, trial int, ended time.Time) error {
	known, opened, err := p.cfg.Run.Experiment(ctx, trial)
	if err != nil || !opened {
		return err
	}
	var values map[string]float64
	if p.cfg.Summary != nil && p.header.Trials <= 1 {
		var s outcome.Summary
		s, err = p.cfg.Summary()
		values = runScores(p.header, s)
	} else {
		values, err = totalsOf(ctx, p.cfg.Run.Reader, p.header, trial)
	}
	if err != nil {
		return err
	}
	said, before, err := p.cfg.Run.Totals(ctx, trial)
	if err != nil {
		return err
	}
	same := before && maps.Equal(said.Values, values)
	if same && said.Acknowledged {
		return nil
	}
	if !same {
		said = runstore.Totals{Trial: trial, Values: values, At: latest(ended, said.At.Add(time.Millisecond))}
		if err := p.cfg.Run.SetTotals(ctx, said); err != nil {
			return err
		}
	}
	if taken, err := p.sendTotals(ctx, known.ID, said); err != nil || !taken {
		return err
	}
	said.Acknowledged = true
	return p.cfg.Run.SetTotals(context.WithoutCancel(ctx), said)
}

// sendTotals reports whether all were taken. What is refused for good is noted;
// of the others the first error stands for all.
func (p *publisher) sendTotals(ctx context.Context, experiment string, said runstore.Totals) (taken bool, err error) {
	taken = true
	for _, failure := range p.createScores(ctx, totalScores(p.header, experiment, said)) {
		taken = taken && failure == nil
		if errors.Is(failure, langfuse.ErrRefused) {
			p.refusedTotals = append(p.refusedTotals, failure)
		} else {
			err = cmp.Or(err, failure)
		}
	}
	if err != nil {
		err = fmt.Errorf("the scores of the run: %w", err)
	}
	return taken, err
}

// totalScores returns the scores of a trial as a whole as Langfuse takes them.
func totalScores(h outcome.Header, experiment string, said runstore.Totals) []langfuse.ScoreCreate {
	var scores []langfuse.ScoreCreate
	for _, name := range slices.Sorted(maps.Keys(said.Values)) {
		scores = append(scores, langfuse.ScoreCreate{
			ID: digest(16, h.RunUID, "run score", RunName(h, said.Trial), name), Name: name,
			Value: langfuse.NumberValue(said.Values[name]), Type: langfuse.ScoreNumeric,
			DatasetRunID: experiment, Environment: h.ScoreEnvironment(), Timestamp: said.At,
		})
	}
	return scores
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
