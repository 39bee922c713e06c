package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

func runCommand(env cli.Env) *urfave.Command {
	table := runTable()
	return &urfave.Command{
		Name:      "run",
		Usage:     "run an experiment (what experiment does without a command)",
		UsageText: "experiment run --dataset NAME --name RUN [flags]",
		Flags:     cli.Each(table, settings.Setting.AsFlag),
		Action:    settings.NoWords(func(c *urfave.Context) error { return runAction(c, env, table) }),
	}
}

// runAction resolves the settings and runs the experiment or sweep.
func runAction(c *urfave.Context, env cli.Env, table []settings.Setting) error {
	file, path, err := configs.LoadGiven(c.String("config"), env.Getenv)
	if err != nil {
		return cli.Usage("%w", err)
	}
	values := settings.Resolve(c, table, env.Getenv, file.Lookup, path)
	sweepRuns, err := sweepRunsOf(values, file.Matrix, path)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if values.On("dry-run") {
		if err := dryRun(env, values, table, sweepRuns, file, path); err != nil {
			return err
		}
	}
	custom := cli.Each(file.Scorers, func(s configs.Scorer) string { return s.Name })
	cfgs, err := readRuns(values, sweepRuns, slices.Concat(runs.ExtractionScores(), []string{outcome.ErrorScore}, custom))
	if err != nil {
		return cli.Usage("%w", err)
	}
	rules, err := system.ReadRules(file)
	if err != nil {
		return err
	}
	if values.On("dry-run") {
		return nil
	}
	rules.Custom, err = system.Opener{Env: env}.OpenScorers(c.Context, file, path)
	if err != nil {
		return err
	}
	if !cfgs[0].estimate {
		if err := rules.Custom.Check(c.Context); err != nil {
			return err
		}
	}
	// The dataset of a new run is opened in advance. An error occurs again when it is needed.
	ask := func(ctx context.Context, client *langfuse.Client) {
		if cfgs[0].Resume || experiment.IsFile(cfgs[0].Dataset) {
			return
		}
		if found, err := tracking.OpenDataset(ctx, client, cfgs[0].Dataset); err == nil {
			cfgs[0].Source = found
		}
	}
	work := func(ctx context.Context, s session) error {
		if env.DatasetVersion != "" {
			source, err := experiment.Open(ctx, &s.lf.Langfuse, cfgs[0].Dataset)
			if now, ok := source.(*tracking.Dataset); ok {
				source, err = tracking.ReopenDataset(s.lf.Client, now.ID(), cfgs[0].Dataset, env.DatasetVersion)
			}
			if err != nil {
				return err
			}
			cfgs[0].Source = source
		}
		return s.runAll(ctx, cfgs, rules)
	}
	return withSession(c.Context, env, cfgs[0], ask, work)
}

// opener returns an Opener of systems that use the Langfuse of the session.
func (s session) opener() system.Opener { return system.Opener{Env: s.env, Langfuse: s.lf} }

// runAll runs one run or a sweep, or prints the estimate for them.
func (s session) runAll(ctx context.Context, cfgs []runConfig, rules system.Rules) error {
	switch {
	case cfgs[0].estimate:
		return s.signals.markStop(s.printEstimates(ctx, cfgs, rules.Custom.Judges()))
	case cfgs[0].sweepRun:
		return s.runSweep(ctx, cfgs, rules)
	}
	var opened system.System
	r, err := experiment.Run(ctx, s.extraction(cfgs[0], rules, &opened))
	return s.finish(cfgs[0], opened, r, err)
}

// extraction returns the configuration of an extraction run. opened is set when the system is
// opened.
func (s session) extraction(cfg runConfig, rules system.Rules, opened *system.System) experiment.Config {
	cfg.Header.Scorer = harness.ScorerInfo(rules.Raw)
	cfg.Header.Scorer.Custom = rules.Custom.Described
	config := s.engine(&cfg, opened)
	config.OpenEarly = cfg.system.ReadOnly()
	config.Open = func(ctx context.Context, resumed bool) (experiment.System, error) {
		_, err := os.Stat(cfg.system.Record)
		cfg.system.Resume = cfg.system.Resume && (resumed || err == nil)
		if resumed {
			cfg.system.Began = s.began(ctx, cfg)
		}
		if *opened, err = s.opener().Open(ctx, cfg.system); err != nil {
			return experiment.System{}, err
		}
		if opened.Model.Budget == nil {
			opened.Model.Budget, err = rules.Custom.Budget(cfg.system.Limits, s.env.Getenv)
		}
		judge, judgeErr := rules.NewScorer(opened.Model.Budget)
		if err = errors.Join(err, judgeErr); err == nil {
			err = s.opener().Push(ctx, cfg.system, opened)
		}
		if err != nil {
			return experiment.System{}, errors.Join(err, opened.Close())
		}
		sys := opened.Measured(&harness.Task{Extractor: opened.Extractor}, judge)
		if cfg.workers.Address == "" {
			return sys, nil
		}
		if cfg.concurrencyGiven {
			s.note("--concurrency has no effect with --workers: each experiment worker has its own")
		}
		return system.Coordinate(ctx, s.env, cfg.workers, cfg.system, opened, sys, s.note)
	}
	return config
}

// began returns the prompt that a run to be resumed began with; see header.
func (s session) began(ctx context.Context, cfg runConfig) *outcome.Prompt {
	return new(s.header(ctx, cfg).System.Prompt)
}

// header returns the header of a run that has begun; an empty one if its file cannot be read, which
// is an error later on.
func (s session) header(ctx context.Context, cfg runConfig) outcome.Header {
	path := runstore.Path(settings.Folder, s.lf.Server.Project.ID, experiment.DatasetName(cfg.Dataset), cfg.Header.Name)
	return runstore.ReadEntry(ctx, path).Header
}

// bytesPerToken converts the size of the expected output to tokens of an answer, with the same
// cautious number as for requests.
const bytesPerToken = 3

// printEstimates prints the estimate of each run, and after those of a sweep their sum. judges
// is the number of models that judge each item. In JSON the estimates of a sweep are a list, without
// a sum.
func (s session) printEstimates(ctx context.Context, cfgs []runConfig, judges int) error {
	var all []report.Estimate
	list := cfgs[0].json && cfgs[0].sweepRun
	for _, cfg := range cfgs {
		e, err := s.estimate(ctx, cfg)
		if err != nil {
			return err
		}
		e.AddJudging(judges)
		if len(cfgs) > 1 {
			e.Run = cfg.Header.Name
		}
		all = append(all, e)
		if list {
			continue
		}
		if err := runs.PrintText(s.env, cfg.json, e, strings.Repeat("\n", min(1, len(all)-1))+e.Text()); err != nil {
			return err
		}
	}
	if list {
		return runs.PrintJSON(s.env, all)
	}
	if len(all) < 2 {
		return nil
	}
	return runs.PrintText(s.env, false, nil, "\n"+report.EstimateSum(all))
}

// estimate reads the items, builds every first request of a run, and estimates tokens and cost.
// It sends nothing to the model and writes nothing.
func (s session) estimate(ctx context.Context, cfg runConfig) (e report.Estimate, err error) {
	counter := &pipeline.Estimator{}
	cfg.system.Estimator = counter
	config := experiment.Config{Header: outcome.Header{Name: "estimate"}, Dataset: cfg.Dataset, Filter: cfg.Filter, Langfuse: &s.lf.Langfuse}
	var opened system.System
	config.Open = func(ctx context.Context, _ bool) (experiment.System, error) {
		opened, err = s.opener().Open(ctx, cfg.system)
		gold := harness.Scorer{Documents: new(extraction.Decoder)} // it reads the gold and scores nothing
		return opened.Measured(&harness.Task{Extractor: opened.Extractor}, gold), err
	}
	e = report.Estimate{Dataset: cfg.Dataset, Stages: 1, Trials: cfg.Header.Trials}
	if cfg.system.TwoStages {
		e.Stages = 2
	}
	size, err := experiment.Estimate(ctx, config, func(experiment.System) bool {
		_, asks := opened.Extractor.(*pipeline.Pipeline)
		e.Asks = asks && opened.Header.Pipeline != provider.Recorded
		return e.Asks
	})
	if err != nil {
		return e, s.explain(err, harness.Name)
	}
	catalogue, err := system.ReadCatalogue(s.env.Getenv)
	if err != nil {
		return e, err
	}
	e.Model, e.Items, e.Unusable = opened.Header.Model, size.Items, size.Unusable
	requests, input := counter.Sum()
	e.Requests, e.InputTokens = requests*int64(e.Stages*e.Trials), input*int64(e.Stages*e.Trials)
	e.OutputTokens = size.ExpectedBytes / bytesPerToken * int64(e.Trials)
	if most := opened.Header.MaxTokens; most != nil {
		e.OutputTokens = min(e.OutputTokens, e.Requests*int64(*most))
	}
	if price, ok := catalogue.Price(e.Model); ok && e.Asks {
		e.CostUSD = new((float64(e.InputTokens)*price.Input + float64(e.OutputTokens)*price.Output) / 1e6)
	}
	return e, nil
}

// dryRunRow is one value of a dry run and its source.
type dryRunRow struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	From    string `json:"from"`
}

// dryRun prints every value and its source: settings, scoring options and environment. It sends
// no requests, so it does not show values from the config of a prompt. It never shows keys.
func dryRun(env cli.Env, values settings.Values, order []settings.Setting, sweepRuns []experiment.SweepSettings, file configs.Experiment, path string) error {
	var rows []dryRunRow
	for _, o := range order {
		r := values[o.Flag]
		value := maskUser(strings.Join(r.Words, " "))
		if namesProgram("--"+o.Flag) && len(r.Words) > 0 {
			value = provider.MaskTarget(value)
		}
		rows = append(rows, dryRunRow{o.Flag, value, r.From})
	}
	rows = append(rows, dryRunRow{"environment of scores", scoreEnvironment(values), values["environment"].From})
	scoring, err := file.ScoringJSON()
	if err != nil {
		return cli.Usage("%w", err)
	}
	from := "default"
	if len(file.Scoring) > 0 {
		from = path
	}
	rows = append(rows, dryRunRow{"scoring", string(scoring), from})
	for _, sweepRun := range sweepRuns {
		rows = append(rows, dryRunRow{"run", sweepRun.Name, "sweep"})
	}
	rows = append(rows, environment(env.Getenv)...)
	t := report.Table{Columns: []report.Column{{Title: "setting"}, {Title: "value"}, {Title: "from"}}}
	for _, r := range rows {
		t.Rows = append(t.Rows, report.Row{Cells: []string{r.Setting, textutil.Line(r.Value), textutil.Line(r.From)}})
	}
	return runs.PrintText(env, values.On("json"), rows, t.Text())
}

// maskUser masks the user and password of addresses in a value.
func maskUser(value string) string {
	return regexp.MustCompile(`(\w://)[^/?#\s]*@`).ReplaceAllString(value, "$1***@")
}

// environment returns the environment variables other than those of settings. It masks the
// values of secrets.
func environment(getenv func(string) string) []dryRunRow {
	names := []string{langfuse.EnvBaseURL, langfuse.EnvHost, langfuse.EnvPublicKey, langfuse.EnvSecretKey, system.EnvModels, system.EnvPrices, system.EnvPipelineToken}
	var rows []dryRunRow
	for _, name := range append(names, provider.Variables()...) {
		row := dryRunRow{name, "", "not set"}
		if value := getenv(name); value != "" {
			row.Value, row.From = maskUser(value), "environment"
			if secret.IsSecretName(name) {
				row.Value = "***"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// observeRun returns an observer that shows the progress of a run and of its publication. It adds to limits
// that it also shows why the model waits. opened is set when the system is opened.
func observeRun(env cli.Env, signals *signals, log *slog.Logger, quiet bool, primary string, trials int,
	limits *system.Limits, opened *system.System) experiment.Observer {
	view := runs.NewProgress(env, quiet, primary, log)
	if trials > 1 {
		view.Counting("outcome") // as the summary does
	}
	limits.OnWait = view.Waiting
	observer := view.Observer()
	observer.Opened = func(path string, begun bool, notes []string) {
		log.Info("run file", "path", path, "new", begun)
		for _, text := range notes {
			fmt.Fprintln(env.Stderr, "note: "+textutil.Line(text))
		}
	}
	observer.Working = func(working bool) {
		if working { // opened is set by now
			view.Workers = opened.Workers
		}
		signals.working.Store(working) // after the work a signal ends the publication at once: nothing is lost
	}
	if !quiet {
		observer.Missing = runs.StillMissing(env)
	}
	return observer
}
