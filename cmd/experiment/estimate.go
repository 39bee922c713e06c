package main

import (
	"context"
	"fmt"
	"strings"

	"extraction-experiment/cmd/internal/runs"
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
	var all []report.Estimate
	for _, cfg := range cfgs {
		e, err := s.estimate(ctx, cfg)
		if err != nil {
			return err
		}
		e.AddJudging(judges)
		all = append(all, e)
		if cfg.json {
			err = runs.PrintJSON(env, e)
		} else {
			_, err = fmt.Fprint(env.Stdout, strings.Repeat("\n", min(1, len(all)-1)), e.Text())
		}
		if err != nil {
			return cli.Written(err)
		}
	}
	if len(all) < 2 || cfgs[0].json {
		return nil
	}
	_, err := fmt.Fprint(env.Stdout, "\n", report.EstimateSum(all))
	return cli.Written(err)
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
