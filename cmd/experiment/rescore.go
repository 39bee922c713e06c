package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/build"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

func rescoreCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "rescore",
		Usage:     "score the results of a run again, with other options or a newer scorer, and no model call",
		UsageText: "experiment rescore RUN [--options FILE|JSON] [--name NEW]",
		ArgsUsage: "RUN",
		Description: "The results become a new run of the same items, beside the old one. It is not in Langfuse\n" +
			"until experiment publish NEW sends it there.",
		OnUsageError: flags.UsageError,
		Flags: []urfave.Flag{
			datasetFlag(),
			&urfave.StringFlag{Name: "options", Usage: "scoring options, as `FILE|JSON` (the file YAML or JSON); docs/metrics.md explains them"},
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
	options, err := readOptions(c.String("options"))
	if err != nil {
		return err
	}
	rules, err := scoring.New(options)
	if err != nil {
		return cli.Usage("the scoring options: %w", err)
	}
	ctx, ended := untilSignal(c.Context)
	defer func() { err = ended(err) }()
	from, err := openRun(ctx, named, c.String("dataset"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	header, err := rescoredHeader(ctx, from, options, c.String("name"))
	if err != nil {
		return err
	}
	if header.Harness == answers.Name && c.IsSet("options") {
		return cli.Usage("answers are scored in one way: leave --options out")
	}
	path := runstore.Path(connect.Folder, header.Project, header.Dataset.Name, header.Name)
	if _, err := os.Stat(path); err == nil {
		return cli.Usage("the run name %q is taken (%s): choose another with --name", header.Name, path)
	}
	to, err := runstore.Create(path, header)
	if err != nil {
		return err
	}
	if err := noteUnfinished(ctx, env, from); err != nil {
		return errors.Join(err, to.Close(), os.Remove(path))
	}
	moves := report.NewMoves()
	var scorer experiment.Scorer = harness.Scorer{Rules: rules}
	if header.Harness == answers.Name {
		scorer = answersScorer(header)
	}
	_, err = experiment.Rescore(ctx, from, to, scorer, moves.Add)
	if err != nil { // half a run is of no use, and it is made again in no time
		return errors.Join(err, to.Close(), os.Remove(path))
	}
	if err := to.Close(); err != nil {
		return err
	}
	return printMoves(env, c.Bool("json"), moves.Result(header), path)
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

// rescoredHeader describes the new run.
func rescoredHeader(ctx context.Context, from *runstore.Reader, options scoring.Options, name string) (outcome.Header, error) {
	h, err := from.Header(ctx)
	if err != nil {
		return h, err
	}
	if h.Harness != harness.Name && h.Harness != answers.Name {
		return h, cli.Usage("the run %q is of the harness %s, which is not scored again here", h.Name, h.Harness)
	}
	uid := make([]byte, 16)
	if _, err := rand.Read(uid); err != nil {
		return h, err
	}
	raw, err := json.Marshal(options)
	if err != nil {
		return h, err
	}
	h.Rescored = &outcome.Origin{Name: h.Name, RunUID: h.RunUID}
	h.Format, h.RunUID = outcome.FormatVersion, hex.EncodeToString(uid)
	h.Scorer = outcome.Scorer{Version: scoring.Version, Options: raw, Primary: harness.Primary}
	if h.Harness == answers.Name {
		h.Scorer = answersPin()
	}
	h.Runner, h.GitSHA, h.Started = build.Version(), gitSHA(), time.Now().UTC()
	if name == "" {
		name = h.Name + "-rescored"
	}
	p := &problems{}
	p.runName(name)
	h.Name = name
	return h, withCode(errors.Join(p.found...))
}

func printMoves(env cli.Env, asJSON bool, moves report.MovesResult, path string) error {
	if asJSON {
		return printJSON(env, moves)
	}
	if err := cli.Written(report.MovesText(env.Stdout, moves, textOptions(env, nil))); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.Stdout, "\n%s; experiment publish %s sends it to Langfuse\n", path, quote(moves.Name))
	return cli.Written(err)
}
