package main

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/nearest"
)

// answersActions are what "experiment answers" can be told to do, by the first
// argument.
func answersActions() map[string]answersAction {
	return map[string]answersAction{
		"run":       {answersRunTable(), runAnswersAction},
		"benchmark": {answersBenchmarkTable(), benchmarkAction},
	}
}

type answersAction struct {
	table []settings.Setting
	run   func(c *urfave.Context, env cli.Env, values settings.Values) error
}

func answersCommand(env cli.Env) *urfave.Command {
	command := &urfave.Command{
		Name:  "answers",
		Usage: "grade answers to questions about PDF documents",
		UsageText: "experiment answers run --pdf FILE --questions FILE.jsonl [--out RUN] [flags]\n" +
			"experiment answers benchmark --config FILE [flags]",
		ArgsUsage: "run | benchmark",
		Action:    func(c *urfave.Context) error { return answersMain(c, env) },
	}
	seen := map[string]bool{}
	for _, name := range []string{"run", "benchmark"} {
		for _, s := range answersActions()[name].table {
			if !seen[s.Flag] {
				command.Flags = append(command.Flags, s.AsFlag())
			}
			seen[s.Flag] = true
		}
	}
	return command
}

// answersMain finds the action and refuses flags that it does not have.
func answersMain(c *urfave.Context, env cli.Env) error {
	actions := answersActions()
	names := []string{"run", "benchmark"}
	if c.NArg() == 0 {
		return cli.Usage("answers needs a word: experiment answers run, or experiment answers benchmark")
	}
	word := c.Args().First()
	action, ok := actions[word]
	if !ok {
		return cli.Usage("answers does not know %q%s (there are: %s)", word, nearest.Hint(word, names), strings.Join(names, ", "))
	}
	if c.NArg() > 1 {
		return cli.Usage("answers %s takes no argument, got %q", word, c.Args().Get(1))
	}
	for _, flag := range c.Command.Flags {
		name := flag.Names()[0]
		known := slices.ContainsFunc(action.table, func(s settings.Setting) bool { return s.Flag == name })
		if c.IsSet(name) && !known && name != "help" {
			return cli.Usage("answers %s has no --%s", word, name)
		}
	}
	// The configuration file of a run has no settings of answers.
	return action.run(c, env, settings.Resolve(c, action.table, env.Getenv, configs.Experiment{}, ""))
}
