// Command experiment runs knowledge extraction experiments and records them in
// Langfuse.
package main

import (
	"context"
	"os"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/seedcmd"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
)

func main() { os.Exit(cli.Profiled(Main)) }

// Main runs the command line of this process and returns its exit code.
func Main() int { return Run(context.Background(), cli.Process()) }

// commands is the table of commands, in the order in which help shows them.
func commands(env cli.Env) []*urfave.Command {
	return []*urfave.Command{
		runCommand(env),
		runsCommand(env),
		showCommand(env),
		compareCommand(env),
		reportCommand(env),
		publishCommand(env),
		verifyCommand(env),
		exportCommand(env),
		scoreCommand(env),
		rescoreCommand(env),
		benchCommand(env),
		conformanceCommand(env),
		answersCommand(env),
		promptsCommand(env),
		seedcmd.Command(env),
		serveCommand(env),
		doctorCommand(env),
		completionCommand(env),
	}
}

// Run carries out one command line and returns the exit code.
func Run(ctx context.Context, env cli.Env) int {
	run := runCommand(env)
	return settings.Run(ctx, env, &urfave.App{
		Name:      "experiment",
		Usage:     "run knowledge extraction experiments and record them in Langfuse",
		UsageText: "experiment --dataset extraction-eval --name baseline-v1\nexperiment COMMAND [flags] [arguments]",
		Flags:     run.Flags,
		Action:    run.Action,
		Commands:  commands(env),
	})
}

// withCode gives a refused configuration exit code 64 where it has none.
func withCode(err error) error { return cli.WithCode(cli.ExitUsage, err) }

// oneRun returns the only argument of a command: the name or file of a run.
func oneRun(c *urfave.Context) (string, error) {
	if c.NArg() != 1 {
		return "", cli.Usage("%s takes the name or file of one run; experiment runs lists them", c.Command.Name)
	}
	return c.Args().First(), nil
}
