package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/configs"
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
		Usage:     "score the results of a run again, with other options or a newer scorer, without the model",
		UsageText: "experiment rescore RUN [--options FILE|JSON] [--config FILE] [--name NEW]",
		ArgsUsage: "RUN",
		Description: "The results become a new run of the same items, beside the old one. It is not in Langfuse\n" +
			"until experiment publish NEW sends it there. Scores of external evaluators are taken over as they are;\n" +
			"--config asks the evaluators that it names.",
		OnUsageError: flags.UsageError,
		Flags: []urfave.Flag{
			datasetFlag(),
			&urfave.StringFlag{Name: "options", Usage: "scoring options, as `FILE|JSON` (the file YAML or JSON); docs/metrics.md explains them"},
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
	for _, flag := range []string{"options", "config"} {
		if header.Harness == answers.Name && c.IsSet(flag) {
			return cli.Usage("answers are scored in one way: leave --%s out", flag)
		}
	}
	again := scorer{rules: rules, options: options}
	if again.custom, err = evaluatorsAgain(ctx, env, c.String("config")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, again.custom.close()) }()
	carry := carryOver(&header, again.custom.described)
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
	scorer, err := again.judge(nil)
	if header.Harness == answers.Name {
		scorer = answersScorer(header)
	}
	if err == nil {
		_, err = experiment.Rescore(ctx, from, to, scorer, carry, moves.Add)
	}
	if err != nil { // half a run is of no use, and it is made again in no time
		return errors.Join(err, to.Close(), os.Remove(path))
	}
	if err := to.Close(); err != nil {
		return err
	}
	return printMoves(env, c.Bool("json"), moves.Result(header), path)
}

// evaluatorsAgain opens the evaluators that a configuration file names; none
// without one.
func evaluatorsAgain(ctx context.Context, env cli.Env, path string) (customScorers, error) {
	if path == "" {
		return customScorers{}, nil
	}
	file, err := configs.Load(path)
	if err != nil {
		return customScorers{}, cli.Errorf(cli.ExitUsage, "%w", err)
	}
	if len(file.Scorers) == 0 {
		return customScorers{}, cli.Usage("%s names no evaluators under scorers:", path)
	}
	opened, err := openScorers(ctx, env, file, path)
	if err != nil {
		return customScorers{}, err
	}
	if err := opened.check(ctx); err != nil {
		return customScorers{}, errors.Join(err, opened.close())
	}
	return opened, nil
}

// carryOver lists the scores of evaluators that are taken over from the old run,
// those that are not asked anew, and describes all of them in the header.
func carryOver(h *outcome.Header, anew []outcome.CustomScorer) (names []string) {
	before := h.Scorer.Custom
	h.Scorer.Custom = nil
	for _, c := range before {
		if slices.ContainsFunc(anew, func(a outcome.CustomScorer) bool { return a.Name == c.Name }) {
			continue
		}
		c.Carried = cmp.Or(c.Carried, h.Rescored.Name)
		h.Scorer.Custom, names = append(h.Scorer.Custom, c), append(names, c.Name)
	}
	h.Scorer.Custom = append(h.Scorer.Custom, anew...)
	return names
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
	h.Publication = h.PublishedAnew()
	h.Format, h.RunUID = outcome.FormatVersion, hex.EncodeToString(uid)
	h.Scorer = outcome.Scorer{Version: scoring.Version, Options: raw, Primary: harness.Primary, Custom: h.Scorer.Custom, OutputOnly: []string{harness.GroundedRate}}
	if h.Harness == answers.Name {
		h.Scorer, h.Publication.Scores = answersPin(), []string{outcome.AllScores}
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
