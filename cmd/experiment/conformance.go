package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

func conformanceCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "conformance",
		Usage:     "certify that an evaluator gives valid and stable scores on labelled fixtures",
		UsageText: "experiment conformance [--fixture FILE] [--runs N] [--max-flip-rate X] [--output FILE]",
		Description: "The fixture file names the evaluator: a script, url, model or scorer (docs/evaluators.md).\n" +
			"A pass fixture must score 1 and a fail fixture 0, except in the share of runs that --max-flip-rate allows; an ambiguous\n" +
			"one must stay within its score_bounds. An evaluator is consistent only if it needed no such allowance.\n" +
			"Exit codes: 0 every fixture passed; 1 one did not; 5 stopped before every fixture was evaluated, and nothing written;\n" +
			"64 the file cannot be used; 69 the evaluator cannot be reached.",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "fixture", Value: "fixtures.yaml", Usage: "read labelled fixtures from `FILE`"},
			&urfave.StringFlag{Name: "runs", Value: "5", Usage: "evaluate each fixture `N` times"},
			&urfave.StringFlag{Name: "max-flip-rate", Value: "0", Usage: "allow this share `X`, from 0 to 1, of the runs of a pass or fail fixture to score otherwise, and to differ from the first"},
			&urfave.StringFlag{Name: "score-tolerance", Value: "0", Usage: "let a pass score down to 1-`X` and a fail up to X, for judges that never give the extremes"},
			&urfave.StringFlag{Name: "timeout", Value: "1m", Usage: "allow each evaluation `TIME`"},
			&urfave.StringFlag{Name: "concurrency", Value: "4", Usage: "run `N` evaluations at once"},
			&urfave.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the report as JSON to `FILE`"},
			&urfave.BoolFlag{Name: "json", Usage: "print the report as JSON instead of the table"},
			&urfave.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print no progress"},
		},
		Action: settings.NoWords(func(c *urfave.Context) error { return conformanceAction(c, env) }),
	}
}

// conformanceConfig parses the flags. The error contains every problem.
func conformanceConfig(c *urfave.Context) (conformance.Config, time.Duration, error) {
	p := &settings.Problems{}
	cfg := conformance.Config{
		Runs:        p.Count("runs", c.String("runs"), 1, 100_000),
		Concurrency: p.Count("concurrency", c.String("concurrency"), 1, 1000),
	}
	share := func(flag string) float64 { return *cmp.Or(p.Number(flag, c.String(flag), 0, 1), new(0.0)) }
	cfg.MaxFlipRate, cfg.ScoreTolerance = share("max-flip-rate"), share("score-tolerance")
	p.Add(cfg.ScoreTolerance == 1, "--score-tolerance: 1 would accept any score")
	timeout := p.Duration("timeout", c.String("timeout"))
	p.Add(c.String("output") == "-", "--output - is not a file: --json prints the report on standard output")
	p.Join(runs.CanWrite(c.String("output"), c.String("fixture")))
	return cfg, timeout, cli.WithCode(cli.ExitUsage, p.Err())
}

func conformanceAction(c *urfave.Context, env cli.Env) (err error) {
	cfg, timeout, err := conformanceConfig(c)
	if err != nil {
		return err
	}
	set, err := conformance.Read(c.String("fixture"))
	if err != nil {
		return err
	}
	ctx := c.Context
	opened, err := system.Opener{Env: env}.OpenEvaluator(ctx, set.Evaluator, filepath.Dir(set.Path), timeout)
	if err != nil {
		return fmt.Errorf("%s: line %d: %w", set.Path, set.Evaluator.Line, err)
	}
	cfg.Evaluator, cfg.Fingerprint = opened.Evaluator, opened.Fingerprint
	cfg.Fixtures, cfg.Warnings = set.Fixtures, set.Warnings
	result, err := certify(ctx, cfg, runs.NewProgress(env, c.Bool("quiet"), "", slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("%w; nothing was written", err)
	}
	return showConformance(c, env, result)
}

// certify runs a certification and shows its progress.
func certify(ctx context.Context, cfg conformance.Config, view *runs.Progress) (conformance.Report, error) {
	defer view.Close()
	cfg.Started = view.Started
	cfg.Done = func(fixture string, err error) {
		o := outcome.Outcome{Item: fixture, Class: outcome.OK}
		if err != nil {
			o.Class = outcome.Provider
		}
		view.Answered(fixture)
		view.Done(o)
	}
	view.Counting("evaluation")
	view.Planned(cfg.Runs*len(cfg.Fixtures), 0)
	return conformance.Run(ctx, cfg)
}

// showConformance writes and prints a report. If it did not pass, that is an error.
func showConformance(c *urfave.Context, env cli.Env, r conformance.Report) error {
	err := cli.WriteFile(c.String("output"), func(w io.Writer) error { return report.JSON(w, r, true) })
	text := func(w io.Writer, r conformance.Report, _ report.Options) error { return report.Conformance(w, r) }
	err = errors.Join(err, runs.Print(env, c.Bool("json"), r, text))
	if failed := r.TotalFixtures - r.PassedFixtures(); !r.Passed() {
		err = errors.Join(err, cli.Errorf(cli.ExitGate, "the evaluator is not certified: %d of %d fixtures failed", failed, r.TotalFixtures))
	}
	return err
}
