package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/gold"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/report"
)

func compareCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "compare",
		Usage:     "say whether a run is better than another, by how much, and how far to trust that",
		UsageText: "experiment compare BASE CANDIDATE… [--gate RULE|FILE] [--html FILE]",
		Description: "BASE and CANDIDATE are names of runs, run files, exports, reports of answers, or langfuse:NAME for a run that is only in Langfuse.\n" +
			"BASE may also be @baseline, which experiment baseline sets, or a rule: 'latest branch=main' is the newest complete run with\n" +
			"branch=main in its metadata.\n" +
			"Rules: entity_f1 >= base - 0.1 (must hold for the whole 95 % interval), entity_f1 > base, pooled(entity_f1) >= base - 0.1,\n" +
			"entity_f1 >= 0.7, coverage >= 99%, failures <= 2, cost <= base * 1.1, cost_per_item <= 0.01, latency_p95 <= 2s.\n" +
			"Exit codes: 0 compared, and every rule passed; 1 a rule failed; 2 the runs cannot be compared; 6 inconclusive, with --inconclusive 6.",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "base", Usage: "compare with the base `RUN`; all arguments are candidates then"},
			&urfave.StringFlag{Name: "base-max-age", Usage: "warn if the base is older than `AGE`, such as 14d or 36h", DefaultText: "any age"},
			&urfave.StringSliceFlag{Name: "cand", Aliases: []string{"candidate"}, Usage: "compare the candidate `RUN` with the base; may be repeated"},
			settings.DatasetFlag(),
			&urfave.StringFlag{Name: "metric", Usage: "the primary `SCORE`, which decides (default: that of the runs, entity_f1)"},
			&urfave.StringFlag{Name: "cluster-by", Usage: runs.ClusterByUsage},
			&urfave.StringSliceFlag{Name: "gate", Usage: runs.GateUsage},
			&urfave.Float64Flag{Name: "min-delta", Usage: "fail if the mean of the primary score changed by less than `X`, whatever its interval", DefaultText: "no limit"},
			&urfave.IntFlag{Name: "max-regressions", Usage: "fail if more than `N` items got worse in the primary score", DefaultText: "no limit"},
			&urfave.StringFlag{Name: "inconclusive", Usage: runs.InconclusiveUsage},
			&urfave.Uint64Flag{Name: "changed", Usage: "show the `N` items that changed most", Value: 10},
			&urfave.Uint64Flag{Name: "seed", Usage: "seed `N` of the permutation test and the bootstrap", Value: 1},
			&urfave.BoolFlag{Name: "sensitivity", Usage: "also score the outputs in other ways, and say whether the verdict stays the same"},
			&urfave.StringFlag{Name: "html", Usage: "also write the comparison to `FILE`, as a web page"},
			&urfave.BoolFlag{Name: "markdown", Usage: "print Markdown, for a comment on a pull request"},
			settings.JSONFlag(),
		},
		Action: func(c *urfave.Context) error { return compareAction(c, env) },
	}
}

func compareAction(c *urfave.Context, env cli.Env) (err error) {
	if c.Bool("json") && c.Bool("markdown") {
		return cli.Usage("--json and --markdown are two forms of one report: choose one")
	}
	base, candidates, err := compareArgs(c)
	if err != nil {
		return err
	}
	read := slices.Concat(candidates, []string{base, runs.BaselineFile}, c.StringSlice("gate"))
	if err := runs.CanWriteFile("--html", c.String("html"), read...); err != nil {
		return err
	}
	ctx := c.Context
	_, ageErr := runs.ParseAge("base-max-age", c.String("base-max-age"))
	cfg, err := compareConfig(c)
	if err := errors.Join(err, cfg.Gate.Check(), ageErr); err != nil {
		return cli.Usage("%w", err)
	}
	if base, err = resolveBase(ctx, env, base, c.String("dataset"), candidates); err != nil {
		return err
	}
	names := append([]string{base}, candidates...)
	sources, closeAll, err := runs.Sources(ctx, env, names, c.String("dataset"), cfg.ClusterBy != "")
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return err
	}
	header, err := sources[0].Header(ctx)
	if slices.Contains(runs.ScoreOrder(), cmp.Or(cfg.Metric, header.Scorer.Primary)) { // others may have any range
		err = cmp.Or(err, runs.CheckMinDelta(cfg.Gate.MinDelta))
	}
	if err != nil {
		return err
	}
	result, err := cfg.Compare(ctx, sources[0], sources[1:]...)
	if err != nil {
		return err
	}
	if c.Bool("sensitivity") {
		doubtful, err := gold.Doubtful(ctx, sources)
		if err != nil {
			return err
		}
		if err := (gold.Sensitivity{Config: cfg, Sources: sources, Doubtful: doubtful}).AddTo(ctx, &result); err != nil {
			return err
		}
	}
	runs.WarnOfAge(&result, c.String("base-max-age"))
	return errors.Join(showComparison(c, env, result), runs.WriteComparison(ctx, c.String("html"), result, sources), result.Err())
}

// resolveBase returns the run that a rule or @baseline selects, and prints a note about it. Any
// other word is returned unchanged.
func resolveBase(ctx context.Context, env cli.Env, word, dataset string, candidates []string) (string, error) {
	if !runs.IsRule(word) {
		return word, nil
	}
	finder := runs.Finder{Env: env, Dataset: dataset}
	for _, candidate := range candidates {
		name, remote := strings.CutPrefix(candidate, runs.InLangfuse)
		finder.Except = append(finder.Except, name)
		if remote {
			continue
		}
		run, err := runs.Named(ctx, env, candidate, dataset)
		if err != nil {
			return "", err
		}
		finder.Except, finder.Dataset = append(finder.Except, run.Header.Name), cmp.Or(finder.Dataset, run.Header.Dataset.Name)
	}
	if finder.Dataset == "" {
		return "", cli.Usage("--base %s: add --dataset", word)
	}
	base, err := finder.Find(ctx, word)
	if err == nil {
		fmt.Fprintf(env.Stderr, "note: the base is %s, %s\n", textutil.Line(base.Header.Name), textutil.Line(base.Age(time.Now())))
	}
	return base.Named, err
}

// showComparison prints the comparison. For a single candidate that cannot be compared it prints
// nothing in text, because the error lists the reasons.
func showComparison(c *urfave.Context, env cli.Env, result compare.Comparison) error {
	switch {
	case c.Bool("markdown"):
		return runs.Print(env, false, result, report.CompareMarkdown)
	case !c.Bool("json") && len(result.Candidates) == 1 && len(result.Candidates[0].Incompatible) > 0:
		return nil
	}
	return runs.Print(env, c.Bool("json"), result, report.Compare)
}

// compareArgs returns the base and the candidates from flags and arguments.
func compareArgs(c *urfave.Context) (base string, candidates []string, err error) {
	words := c.Args().Slice()
	base = c.String("base")
	if base == "" && len(words) > 0 {
		base, words = words[0], words[1:]
	}
	candidates = append(words, c.StringSlice("cand")...)
	if base == "" || len(candidates) == 0 {
		return "", nil, cli.Usage("compare takes the run to compare with and one or more candidates: experiment compare BASE CANDIDATE; experiment runs lists the runs")
	}
	return base, candidates, nil
}

func compareConfig(c *urfave.Context) (compare.Config, error) {
	gate, metric, err := runs.ReadGate(c.StringSlice("gate"), c.String("metric"), c.String("inconclusive"))
	if c.IsSet("min-delta") {
		gate.MinDelta = new(c.Float64("min-delta"))
	}
	if c.IsSet("max-regressions") {
		gate.MaxRegressions = new(c.Int("max-regressions"))
	}
	cfg := runs.Comparison()
	cfg.Metric, cfg.ClusterBy, cfg.Gate = metric, c.String("cluster-by"), gate
	cfg.Seed, cfg.MaxChanged = c.Uint64("seed"), cmp.Or(int(c.Uint64("changed")), -1)
	return cfg, err
}

func baselineCommand(env cli.Env) *urfave.Command {
	flags := []urfave.Flag{settings.DatasetFlag()}
	return settings.SetActions(env, &urfave.Command{
		Name:  "baseline",
		Usage: "set, show or clear the run that others are compared with",
		Description: "Writes " + runs.BaselineFile + " in this folder, a file to commit: it names a run for each dataset, which check and compare\n" +
			"@baseline CANDIDATE use. RUN is a name, a file, langfuse:NAME, or a rule: 'latest branch=main'.",
	}, []settings.Action{
		{Name: "set", Usage: "experiment baseline set RUN", MinArgs: 1, MaxArgs: 1, Flags: flags, Run: setBaseline},
		{Name: "show", Usage: "experiment baseline show", Flags: flags, Run: showBaselines},
		{Name: "clear", Usage: "experiment baseline clear --dataset NAME", Flags: flags, Run: clearBaseline},
	}, "")
}

// setBaseline stores a word as the baseline and prints the run that it names.
func setBaseline(c *urfave.Context, env cli.Env, words []string) error {
	ctx, dataset, word := c.Context, experiment.DatasetName(c.String("dataset")), words[0]
	if dataset == "" {
		if runs.IsRule(word) {
			return cli.Usage("add --dataset: it is not known for which dataset %q is the base", word)
		}
		run, err := runs.Named(ctx, env, word, "")
		if err != nil {
			return err
		}
		dataset = run.Header.Dataset.Name
	}
	if word == runs.Baseline {
		return cli.Usage("%s is not a run", word)
	}
	base, err := runs.Finder{Env: env, Dataset: dataset}.Find(ctx, word)
	if cli.ExitCode(err) == cli.ExitIncompatible && !runs.IsRule(word) { // an unknown run
		err = cli.Usage("%w", err)
	}
	if err == nil {
		err = base.CheckComplete()
	}
	if err == nil {
		err = runs.SetBaseline(ctx, dataset, word)
	}
	if err != nil {
		return err
	}
	return printBaseline(env, dataset, word, base)
}

// showBaselines prints the baselines with the run that each selects at the moment.
func showBaselines(c *urfave.Context, env cli.Env, _ []string) error {
	baselines, err := runs.ReadBaselines(c.Context)
	if only := experiment.DatasetName(c.String("dataset")); err == nil && only != "" {
		err = checkBaseline(baselines, only)
		baselines = map[string]string{only: baselines[only]}
	}
	if err != nil {
		return err
	}
	if len(baselines) == 0 {
		fmt.Fprintf(env.Stderr, "no baseline is set: experiment baseline set RUN\n")
	}
	var problems []error
	for _, dataset := range slices.Sorted(maps.Keys(baselines)) {
		word := baselines[dataset]
		base, err := runs.Finder{Env: env, Dataset: dataset}.Find(c.Context, word)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", dataset, err))
			continue
		}
		problems = append(problems, printBaseline(env, dataset, word, base))
	}
	return errors.Join(problems...)
}

// clearBaseline removes the baseline of a dataset.
func clearBaseline(c *urfave.Context, _ cli.Env, _ []string) error {
	dataset := experiment.DatasetName(c.String("dataset"))
	if dataset == "" {
		return cli.Usage("--dataset is missing: experiment baseline show lists the datasets that have a baseline")
	}
	baselines, err := runs.ReadBaselines(c.Context)
	if err == nil {
		err = checkBaseline(baselines, dataset)
	}
	if err != nil {
		return err
	}
	return runs.SetBaseline(c.Context, dataset, "")
}

// checkBaseline returns an error if a dataset has no baseline.
func checkBaseline(baselines map[string]string, dataset string) error {
	if _, ok := baselines[dataset]; ok {
		return nil
	}
	names := cmp.Or(textutil.Listed(dataset, slices.Sorted(maps.Keys(baselines))), "none")
	return cli.Usage("there is no baseline of dataset %q; there are: %s", dataset, names)
}

// printBaseline prints the baseline of a dataset and the run that word selects.
func printBaseline(env cli.Env, dataset, word string, base runs.Base) error {
	if base.Header.Name != word {
		word += " → " + base.Header.Name
	}
	_, err := fmt.Fprintf(env.Stdout, "%s: %s (%s)\n", textutil.Line(dataset), textutil.Line(word), textutil.Line(base.Age(time.Now())))
	return cli.WriteError(err)
}
