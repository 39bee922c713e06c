package main

import (
	"context"
	"errors"
	"fmt"

	"extraction-experiment/cmd/internal/connect"
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
func estimates(ctx context.Context, env cli.Env, lf *connect.Langfuse, cfgs []runConfig, judges int) error {
	var all []judgedEstimate
	for _, cfg := range cfgs {
		asked, err := estimate(ctx, env, lf, cfg)
		if err != nil {
			return err
		}
		e := withJudging(asked, judges)
		all = append(all, e)
		if cfg.json {
			err = printJSON(env, e)
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
func estimate(ctx context.Context, env cli.Env, lf *connect.Langfuse, cfg runConfig) (e report.Estimate, err error) {
	counter := &pipeline.Estimator{}
	cfg.system.estimator = counter
	filter, err := cfg.filter()
	if err != nil {
		return e, err
	}
	j := &job{cfg: cfg, lf: lf}
	source, err := j.pinSource(ctx, &outcome.Header{})
	if err != nil {
		return e, err
	}
	s, err := openSystem(ctx, lf, cfg.system, cfg.concurrency, env.Getenv)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	e = report.Estimate{Dataset: cfg.dataset, Model: s.header.Model, Stages: 1, Trials: cfg.trials}
	if _, asks := s.extractor.(*pipeline.Pipeline); asks {
		e.Asks = true
	}
	if cfg.system.twoStages {
		e.Stages = 2
	}
	task := harness.Task{Extractor: s.extractor}
	for page, err := range (experiment.Selected{Source: source, Filter: filter}).Pages(ctx) {
		if err != nil {
			return e, err
		}
		for _, item := range page {
			e.Items++
			e.OutputTokens += int64(len(item.Expected)) / bytesPerToken
			if !e.Asks {
				continue
			}
			_, err := task.Do(ctx, experiment.Item{ID: item.ID, Input: item.Input, Metadata: item.Metadata})
			if ctx.Err() != nil {
				return e, ctx.Err()
			}
			if err != nil {
				e.Unusable++
			}
		}
	}
	if e.Items == 0 {
		return e, experiment.ErrNoItems
	}
	return priced(env, e, counter)
}

// priced adds up what was counted.
func priced(env cli.Env, e report.Estimate, counter *pipeline.Estimator) (report.Estimate, error) {
	known, err := readCatalogue(env.Getenv)
	if err != nil {
		return e, err
	}
	e.Requests, e.InputTokens = counter.Sum()
	e.Requests *= int64(e.Stages * e.Trials)
	e.InputTokens *= int64(e.Stages * e.Trials)
	e.OutputTokens *= int64(e.Trials)
	if price, ok := known.price(e.Model); ok && e.Asks {
		e.CostUSD = new((float64(e.InputTokens)*price.Input + float64(e.OutputTokens)*price.Output) / 1e6)
	}
	return e, nil
}
