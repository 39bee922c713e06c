package main

import (
	"errors"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/settings"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/spelling"
)

// benchAction is what "experiment bench" can be told to do.
type benchAction struct {
	name, usage string
	least, most int      // arguments
	flags       []string // flags that mean something here
	run         func(c *urfave.Context, env cli.Env, words []string) error
}

func benchActions() []benchAction {
	gates := []string{"json"}
	for _, g := range benches.Gates() {
		gates = append(gates, g.Name)
	}
	return []benchAction{
		{"run", "bench run [--mode deterministic|variance] [--trials N] [--dataset FILE...] [--model MODEL | --pipeline PROGRAM] [--out RUN] [--resume]", 0, 0,
			[]string{"mode", "trials", "dataset", "model", "pipeline", "out", "resume", "retry-failed", "concurrency", "timeout", "strict", "quiet", "json"}, benchRun},
		{"score", "bench score [RUN] [--min-success-rate X ...] [--json]", 0, 1, gates, benchScore},
		{"add", "bench add PACK/regressions.jsonl [--dataset FILE]", 1, 1, []string{"dataset", "strict"}, benchAdd},
	}
}

// takes says what is wrong with the words behind the action.
func (a benchAction) takes(words []string) string {
	switch {
	case len(words) < a.least:
		return "needs a file"
	case a.most == 0:
		return "takes no argument, got " + cli.Quote(words[0])
	}
	return "takes one argument, got " + cli.Quote(words[a.most]) + " as well"
}

func benchCommand(env cli.Env) *urfave.Command {
	var forms []string
	for _, a := range benchActions() {
		forms = append(forms, "experiment "+a.usage)
	}
	command := &urfave.Command{
		Name:      "bench",
		Usage:     "measure how stable and well-formed extraction is",
		UsageText: strings.Join(forms, "\n"),
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
		Action: func(c *urfave.Context) error { return benchDispatch(c, env) },
	}
	command.Flags = append(command.Flags, gateFlags()...)
	if settings.WantsHelp(env.Args) {
		onlyAction(command, env.Args)
	}
	return command
}

// onlyAction leaves of the command's help what the action takes that the words
// name; without one it stays whole.
func onlyAction(command *urfave.Command, words []string) {
	for _, a := range benchActions() {
		if !slices.Contains(words, a.name) {
			continue
		}
		command.UsageText, command.ArgsUsage = "experiment "+a.usage, ""
		command.Flags = slices.DeleteFunc(slices.Clone(command.Flags), func(f urfave.Flag) bool { return !slices.Contains(a.flags, f.Names()[0]) })
		return
	}
}

func benchDispatch(c *urfave.Context, env cli.Env) error {
	words := c.Args().Slice()
	if len(words) == 0 {
		return cli.Usage("bench needs an action: run, score or add (experiment bench --help)")
	}
	action, err := findBenchAction(words[0])
	if err != nil {
		return err
	}
	if n := len(words) - 1; n < action.least || n > action.most {
		return cli.Usage("bench %s %s: experiment %s", action.name, action.takes(words[1:]), action.usage)
	}
	var problems []error
	for _, flag := range c.Command.Flags {
		if name := flag.Names()[0]; c.IsSet(name) && !slices.Contains(action.flags, name) {
			problems = append(problems, cli.Usage("bench %s has no --%s: experiment %s", action.name, name, action.usage))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return action.run(c, env, words[1:])
}

func findBenchAction(word string) (benchAction, error) {
	var names []string
	for _, a := range benchActions() {
		if a.name == word {
			return a, nil
		}
		names = append(names, a.name)
	}
	return benchAction{}, cli.Usage("there is no action %q of bench%s; there are: %s", word, spelling.Hint(word, names), strings.Join(names, ", "))
}
