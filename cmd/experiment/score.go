package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/ci"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

func scoreCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:        "score",
		Usage:       "score pairs of expected and extracted, without a model and without Langfuse",
		UsageText:   "experiment score FILE.jsonl [--options FILE|JSON] [--summary]",
		ArgsUsage:   "FILE.jsonl",
		Description: `A line is {"id", "expected": {…}, "extracted": {…} or null, "error"?, "options"?}; - reads standard input.`,
		Flags: []urfave.Flag{
			settings.OptionsFlag(),
			&urfave.BoolFlag{Name: "summary", Usage: "print the means and pooled values instead of a line for each pair", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "json", Usage: "print the summary, as JSON", DisableDefaultText: true},
		},
		Action: func(c *urfave.Context) error { return scoreAction(c, env) },
	}
}

func scoreAction(c *urfave.Context, env cli.Env) (err error) {
	if c.NArg() != 1 {
		return cli.Usage("score takes one file of pairs, or - for standard input")
	}
	options, err := settings.ScoringOptions(c.String("options"))
	if err != nil {
		return err
	}
	ctx, ended := untilSignal(c.Context)
	defer func() { err = ended(err) }()
	in, name := env.Stdin, "standard input"
	if path := c.Args().First(); path != "-" {
		f, err := files.Open(ctx, path)
		if err != nil {
			return cli.Usage("reading pairs: %w", err)
		}
		defer f.Close() // only read: nothing can be lost
		in, name = f, path
	}
	pairs := harness.Pairs{Options: options, Name: name}
	if !c.Bool("summary") && !c.Bool("json") {
		return cli.Written(pairs.Score(ctx, in, env.Stdout))
	}
	header := outcome.Header{Scorer: outcome.Scorer{Version: scoring.Version, Primary: harness.Primary}}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{Order: runs.ScoreOrder()})
	pairs.Scored = sum.Add
	scored := cli.Written(pairs.Score(ctx, in, io.Discard))
	summary := sum.Summary()
	summary.Status = "" // pairs are no run, finished or not
	if c.Bool("json") {
		return errors.Join(scored, runs.PrintJSON(env, summary))
	}
	return errors.Join(scored, cli.Written(report.Text(env.Stdout, summary, runs.TextOptions(env, nil))))
}

func rescoreCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "rescore",
		Usage:     "score the results of a run again, with other options or a newer scorer, without the model",
		UsageText: "experiment rescore RUN [--options FILE|JSON] [--config FILE] [--name NEW]",
		ArgsUsage: "RUN",
		Description: "The results become a new run of the same items, beside the old one. It is not in Langfuse\n" +
			"until experiment publish NEW sends it there. Scores of external evaluators are taken over as they are;\n" +
			"--config asks the evaluators that it names.",
		Flags: []urfave.Flag{
			settings.DatasetFlag(),
			settings.OptionsFlag(),
			&urfave.StringFlag{Name: "config", TakesFile: true, Usage: "ask the evaluators under scorers: in the YAML `FILE` anew (nothing else of it is read)"},
			&urfave.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "`NAME` of the new run (default: RUN-rescored)"},
			&urfave.BoolFlag{Name: "json", Usage: "print what moved as JSON", DisableDefaultText: true},
		},
		Action: func(c *urfave.Context) error { return rescoreAction(c, env) },
	}
}

func rescoreAction(c *urfave.Context, env cli.Env) (err error) {
	named, err := oneRun(c)
	if err != nil {
		return err
	}
	options, err := settings.ScoringOptions(c.String("options"))
	if err != nil {
		return err
	}
	again, err := scorerOf(options)
	if err != nil {
		return err
	}
	ctx, ended := untilSignal(c.Context)
	defer func() { err = ended(err) }()
	from, err := runs.Open(ctx, named, c.String("dataset"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	header, err := from.Header(ctx)
	if err != nil {
		return err
	}
	name := cmp.Or(c.String("name"), header.Name+"-rescored")
	if err := rescorable(c, header, name); err != nil {
		return err
	}
	if again.custom, err = evaluatorsAgain(ctx, env, c.String("config")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, again.custom.Close()) }()
	cfg := experiment.RescoreConfig{
		From: from, Name: name,
		Pin: outcome.Scorer{Version: scoring.Version, Options: again.raw, Primary: harness.Primary, Custom: again.custom.Described, OutputOnly: []string{harness.GroundedRate}},
		Describe: func(h *outcome.Header) {
			sha, _, modified := ci.Revision()
			h.Runner, h.GitSHA = cli.Version(), ci.GitSHA(sha, modified)
			if h.Harness == answers.Name {
				h.Publication.Scores = []string{outcome.AllScores}
			}
		},
	}
	if cfg.Scorer, err = again.judge(nil); err != nil {
		return err
	}
	if header.Harness == answers.Name {
		cfg.Pin, cfg.Scorer = answers.Pin(), answersScorer(header)
	}
	if err := noteUnfinished(ctx, env, from); err != nil {
		return err
	}
	moves := report.NewMoves(cfg.Pin.Primary)
	cfg.Moved = moves.Add
	made, path, err := experiment.Rescore(ctx, cfg)
	var taken *experiment.NameTakenError
	if errors.As(err, &taken) {
		return cli.Usage("%w: choose another with --name", err)
	}
	if err != nil {
		return err
	}
	return printMoves(env, c.Bool("json"), moves.Result(made, runs.ScoreOrder()), path)
}

// rescorable refuses a run, a name or flags of which nothing can come.
func rescorable(c *urfave.Context, h outcome.Header, name string) error {
	if h.Harness != harness.Name && h.Harness != answers.Name {
		return cli.Usage("the run %q is of the harness %s, which is not scored again here", h.Name, h.Harness)
	}
	p := &settings.Problems{}
	checkRunName(p, name)
	for _, flag := range []string{"options", "config"} {
		if h.Harness == answers.Name && c.IsSet(flag) {
			p.Add("answers are scored in one way: leave --%s out", flag)
		}
	}
	return withCode(p.Err())
}

// evaluatorsAgain opens the evaluators that a configuration file names; none
// without one.
func evaluatorsAgain(ctx context.Context, env cli.Env, path string) (system.Scorers, error) {
	if path == "" {
		return system.Scorers{}, nil
	}
	file, err := configs.Load(path)
	if err != nil {
		return system.Scorers{}, cli.Errorf(cli.ExitUsage, "%w", err)
	}
	if len(file.Scorers) == 0 {
		return system.Scorers{}, cli.Usage("%s names no evaluators under scorers:", path)
	}
	opened, err := opener(env, nil).OpenScorers(ctx, file, path)
	if err != nil {
		return system.Scorers{}, err
	}
	if err := opened.Check(ctx); err != nil {
		return system.Scorers{}, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// noteUnfinished says how much of a run there is that has not ended, and who
// writes it.
func noteUnfinished(ctx context.Context, env cli.Env, from *runstore.Reader) error {
	_, ended, err := from.Footer(ctx)
	if err != nil || ended {
		return err
	}
	counts, err := from.Counts(ctx)
	if err != nil {
		return err
	}
	pid, writing, err := from.Writer()
	if err != nil {
		return err
	}
	whose := "it was stopped before its end"
	switch {
	case writing && pid != "":
		whose = "process " + pid + " writes it"
	case writing:
		whose = "another process writes it"
	}
	_, err = fmt.Fprintf(env.Stderr, "note: the run is not finished: %d of %d are there; %s\n", counts.Done, counts.Planned, whose)
	return cli.Written(err)
}

func printMoves(env cli.Env, asJSON bool, moves report.MovesResult, path string) error {
	if asJSON {
		return runs.PrintJSON(env, moves)
	}
	if err := cli.Written(report.MovesText(env.Stdout, moves, runs.TextOptions(env, nil))); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.Stdout, "\n%s; experiment publish %s sends it to Langfuse\n", path, cli.Quote(moves.Name))
	return cli.Written(err)
}
