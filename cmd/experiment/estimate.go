package main

import (
	"context"
	"fmt"
	"strings"

	"extraction-experiment/cmd/internal/output"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/experiment"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/report"
)

// bytesPerToken is how the expected output becomes tokens of an answer; the same
// cautious number as for requests.
const bytesPerToken = 3

// estimates tells what each run would take, of a sweep one after the other and
// then all of them together; judges is how many models judge each. In JSON every
// estimate is an object on its own.
func (s session) estimates(ctx context.Context, cfgs []runConfig, judges int) error {
	env := s.env
	var all []judgedEstimate
	for _, cfg := range cfgs {
		asked, err := s.estimate(ctx, cfg)
		if err != nil {
			return err
		}
		e := withJudging(asked, judges)
		all = append(all, e)
		if cfg.json {
			err = output.JSON(env, e)
		} else {
			_, err = fmt.Fprint(env.Stdout, between(all), e.Text())
		}
		if err != nil {
			return cli.Written(err)
		}
	}
	if len(all) < 2 || cfgs[0].json {
		return nil
	}
	_, err := fmt.Fprint(env.Stdout, "\n", judgedSum(all))
	return cli.Written(err)
}

// between is the empty line before all but the first of several.
func between(estimates []judgedEstimate) string {
	if len(estimates) > 1 {
		return "\n"
	}
	return ""
}

// estimate lists the items, makes every request that a run would begin with, and
// tells what they would take. Nothing is sent to the model and nothing written.
func (s session) estimate(ctx context.Context, cfg runConfig) (e report.Estimate, err error) {
	counter := &pipeline.Estimator{}
	cfg.system.Estimator = counter
	config := experiment.Config{Header: outcome.Header{Name: "estimate"}, Dataset: cfg.dataset, Filter: cfg.filter, Langfuse: &s.lf.Langfuse}
	var opened system.System
	config.Open = func(ctx context.Context, _ bool) (experiment.System, error) {
		opened, err = opener(s.env, s.lf).Open(ctx, cfg.system)
		return opened.Measured(harness.Task{Extractor: opened.Extractor}, nil), err
	}
	e = report.Estimate{Dataset: cfg.dataset, Stages: 1, Trials: cfg.trials}
	if cfg.system.TwoStages {
		e.Stages = 2
	}
	took, err := experiment.Estimate(ctx, config, func(experiment.System) bool {
		_, e.Asks = opened.Extractor.(*pipeline.Pipeline)
		return e.Asks
	})
	if err != nil {
		return e, s.explained(err, harness.Name)
	}
	e.Model, e.Items, e.Unusable, e.OutputTokens = opened.Header.Model, took.Items, took.Unusable, took.ExpectedBytes/bytesPerToken
	return priced(s.env, e, counter)
}

// priced adds up what was counted.
func priced(env cli.Env, e report.Estimate, counter *pipeline.Estimator) (report.Estimate, error) {
	known, err := system.ReadCatalogue(env.Getenv)
	if err != nil {
		return e, err
	}
	e.Requests, e.InputTokens = counter.Sum()
	e.Requests *= int64(e.Stages * e.Trials)
	e.InputTokens *= int64(e.Stages * e.Trials)
	e.OutputTokens *= int64(e.Trials)
	if price, ok := known.Price(e.Model); ok && e.Asks {
		e.CostUSD = new((float64(e.InputTokens)*price.Input + float64(e.OutputTokens)*price.Output) / 1e6)
	}
	return e, nil
}

// judgedEstimate is an estimate with the calls of the judging models among the
// evaluators of the run, which are paid for too.
type judgedEstimate struct {
	report.Estimate
	// Judging is nil where no model judges.
	Judging *judgingEstimate `json:"judging,omitempty"`
}

// judgingEstimate counts calls of judging models: one for every trial of an item
// that can be asked about, and every judge.
type judgingEstimate struct {
	Judges int   `json:"judges"`
	Calls  int64 `json:"calls"`
	// CostUSD is always nil: what a judge is told is not known before there is
	// something to judge.
	CostUSD *float64 `json:"cost_usd"`
	Note    string   `json:"note"`
}

const judgingNote = "their tokens and cost are not estimated"

// withJudging adds the calls of so many judging models to an estimate.
func withJudging(e report.Estimate, judges int) judgedEstimate {
	if judges == 0 {
		return judgedEstimate{Estimate: e}
	}
	calls := int64(e.Items-e.Unusable) * int64(e.Trials) * int64(judges)
	return judgedEstimate{e, &judgingEstimate{Judges: judges, Calls: calls, Note: judgingNote}}
}

// Text writes the estimate for a person.
func (e judgedEstimate) Text() string {
	text := e.Estimate.Text()
	if e.Judging == nil {
		return text
	}
	return text + fmt.Sprintf("%-9s %s; %s\n", "judging", judgingCalls(e.Judging.Calls), judgingNote)
}

// judgedSum writes in one line what several runs would take together.
func judgedSum(all []judgedEstimate) string {
	var list []report.Estimate
	var calls int64
	for _, e := range all {
		list = append(list, e.Estimate)
		if e.Judging != nil {
			calls += e.Judging.Calls
		}
	}
	sum := report.EstimateSum(list)
	if calls == 0 {
		return sum
	}
	return strings.TrimSuffix(sum, "\n") + fmt.Sprintf("; and %s: %s\n", judgingCalls(calls), judgingNote)
}

func judgingCalls(n int64) string {
	if n == 1 {
		return "1 call of judging models"
	}
	return report.FormatCount(n) + " calls of judging models"
}
