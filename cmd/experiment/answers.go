package main

import (
	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
)

func answersCommand(env cli.Env) *urfave.Command {
	command := &urfave.Command{Name: "answers", Usage: "grade answers to questions about PDF documents", ArgsUsage: "run | benchmark"}
	var actions []settings.Action
	seen := map[string]bool{}
	add := func(name, usage string, table []settings.Setting, run func(*urfave.Context, cli.Env, settings.Values) error) {
		action := settings.Action{Name: name, Usage: usage, Run: func(c *urfave.Context, _ []string) error {
			// The configuration file of a run has no settings of answers.
			return run(c, env, settings.Resolve(c, table, env.Getenv, configs.Experiment{}.Lookup, ""))
		}}
		for _, s := range table {
			action.Flags = append(action.Flags, s.Flag)
			if !seen[s.Flag] {
				command.Flags = append(command.Flags, s.AsFlag())
			}
			seen[s.Flag] = true
		}
		actions = append(actions, action)
	}
	add("run", "experiment answers run --pdf FILE --questions FILE.jsonl [--out RUN] [flags]", answersRunTable(), runAnswersAction)
	add("benchmark", "experiment answers benchmark --config FILE [flags]", answersBenchmarkTable(), benchmarkAction)
	command.UsageText = settings.Usages(actions)
	command.Action = func(c *urfave.Context) error { return settings.Act(c, actions, "") }
	return command
}
