package main

import (
	"slices"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/settings"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/cli"
)

func benchActions(env cli.Env) []settings.Action {
	with := func(do func(*urfave.Context, cli.Env, []string) error) func(*urfave.Context, []string) error {
		return func(c *urfave.Context, words []string) error { return do(c, env, words) }
	}
	gates := []string{"json"}
	for _, g := range benches.Gates() {
		gates = append(gates, g.Name)
	}
	return []settings.Action{
		{Name: "run", Usage: "experiment bench run [--mode deterministic|variance] [--trials N] [--dataset FILE...] [--model MODEL | --pipeline PROGRAM] [--out RUN] [--resume]",
			Flags: []string{"mode", "trials", "dataset", "model", "pipeline", "out", "resume", "retry-failed", "concurrency", "timeout", "strict", "quiet", "json"}, Run: with(benchRun)},
		{Name: "score", Usage: "experiment bench score [RUN] [--min-success-rate X ...] [--json]", Most: 1, Flags: gates, Run: with(benchScore)},
		{Name: "add", Usage: "experiment bench add PACK/regressions.jsonl [--dataset FILE]", Least: 1, Most: 1, Flags: []string{"dataset", "strict"}, Run: with(benchAdd)},
	}
}

func benchCommand(env cli.Env) *urfave.Command {
	actions := benchActions(env)
	command := &urfave.Command{
		Name:      "bench",
		Usage:     "measure how stable and well-formed extraction is",
		UsageText: settings.Usages(actions),
		ArgsUsage: "[run | score | add]",
		Description: "Without --dataset the files of ./bench/datasets are run, or where there are none the cases that come with the program.\n" +
			"docs/bench.md explains files and metrics.",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "mode", Usage: "`MODE`: deterministic answers from the cases, variance repeats trials (default: deterministic, variance with a model)"},
			&urfave.StringFlag{Name: "trials", Usage: "`N` trials of each case (default: 1, in mode variance 5)"},
			&urfave.StringSliceFlag{Name: "dataset", Aliases: []string{"d"}, Usage: "`FILE` of cases; may be repeated"},
			&urfave.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "`MODEL` that answers, as of experiment run"},
			&urfave.StringFlag{Name: "pipeline", Usage: "`PROGRAM|URL` of a team's own pipeline that answers"},
			&urfave.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`RUN|FILE` is the name of the run, or a file that ends in .run"},
			&urfave.BoolFlag{Name: "resume", Usage: "go on with the run of --out, which was stopped", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "retry-failed", Usage: "go on with it, and ask again what nobody answered", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress", DisableDefaultText: true},
			&urfave.StringFlag{Name: "concurrency", Aliases: []string{"c"}, Value: "4", Usage: "`N` cases at once"},
			&urfave.StringFlag{Name: "timeout", Value: "5m", Usage: "`TIME` that one case may take"},
			&urfave.BoolFlag{Name: "strict", Usage: "also demand the grammars of caseId and packId", DisableDefaultText: true},
			settings.JSONFlag(),
		},
		Action: func(c *urfave.Context) error { return settings.Act(c, actions, "") },
	}
	command.Flags = append(command.Flags, gateFlags()...)
	if settings.WantsHelp(env.Args) {
		onlyAction(command, actions, env.Args)
	}
	return command
}

// onlyAction leaves of the command's help what the action takes that the words
// name; without one it stays whole.
func onlyAction(command *urfave.Command, actions []settings.Action, words []string) {
	for _, a := range actions {
		if slices.Contains(words, a.Name) {
			command.UsageText, command.ArgsUsage = a.Usage, ""
			command.Flags = slices.DeleteFunc(command.Flags, func(f urfave.Flag) bool { return !slices.Contains(a.Flags, f.Names()[0]) })
			return
		}
	}
}
