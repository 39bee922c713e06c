package main

import (
	"errors"
	"io"
	"runtime/debug"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/scoring"
)

func scoreCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "score",
		Usage:     "score pairs of expected and extracted, without a model and without Langfuse",
		UsageText: "experiment score FILE.jsonl [--options FILE|JSON] [--summary]",
		Description: `Each line is {"id", "expected": {…}, "extracted": {…} or null, "error"?, "options"?}; - reads standard input.
A line with an error, or whose extracted is null, is a failed item; extracted is required.`,
		Flags: []urfave.Flag{
			settings.OptionsFlag(),
			&urfave.BoolFlag{Name: "summary", Usage: "print means and pooled values instead of one line per pair"},
			&urfave.BoolFlag{Name: "json", Usage: "print the summary as JSON"},
		},
		Action: settings.Words(1, 1, func(c *urfave.Context) error { return scoreAction(c, env) }),
	}
}

func scoreAction(c *urfave.Context, env cli.Env) (err error) {
	options, err := settings.ScoringOptions(c.String("options"))
	if err != nil {
		return err
	}
	ctx := c.Context
	var in io.Reader
	name := "standard input"
	if path := c.Args().First(); path == "-" {
		in = files.ContextReader(ctx, env.Stdin)
	} else {
		f, err := files.Open(ctx, path)
		if err != nil {
			return cli.Usage("reading pairs: %w", err)
		}
		defer f.Close() // closing a file that was only read loses nothing
		in, name = f, path
	}
	if env.Getenv("GOGC") == "" { // little memory stays in use, so the default would collect a hundred times a second
		defer debug.SetGCPercent(debug.SetGCPercent(200))
	}
	pairs := harness.Pairs{Options: options, Name: name}
	if !c.Bool("summary") && !c.Bool("json") {
		return cli.WriteError(pairs.Score(ctx, in, env.Stdout))
	}
	header := outcome.Header{Scorer: outcome.Scorer{Version: scoring.Version, Primary: harness.Primary}}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{Order: runs.ScoreOrder()})
	pairs.Scored = sum.Add
	scoreErr := cli.WriteError(pairs.Score(ctx, in, nil))
	summary := sum.Summary()
	summary.Status = "" // the pairs are not a run
	return errors.Join(scoreErr, runs.Print(env, c.Bool("json"), summary, report.Text))
}
