package main

import (
	"context"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/cmd/internal/seedcmd"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/build"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/nearest"
	"extraction-experiment/outcome"
)

// commands is the table of commands, in the order in which help shows them.
func commands(env cli.Env) []*urfave.Command {
	list := []*urfave.Command{
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
	for _, c := range list {
		c.HideHelpCommand = true // a run may be called help
	}
	return list
}

// Run carries out one command line and returns the exit code.
func Run(ctx context.Context, env cli.Env) (code int) {
	defer cli.Recover(env.Stderr, &code)
	app := newApp(env)
	args, err := arrange(app, env.Args)
	if err == nil {
		err = app.RunContext(ctx, append([]string{app.Name}, args...))
	}
	if err != nil {
		cli.Report(env.Stderr, app.Name, err)
	}
	return cli.ExitCode(err)
}

func newApp(env cli.Env) *urfave.App {
	run := runCommand(env)
	return &urfave.App{
		Name:                      "experiment",
		Usage:                     "run knowledge extraction experiments and record them in Langfuse",
		UsageText:                 "experiment --dataset extraction-eval --name baseline-v1\nexperiment COMMAND [flags] [arguments]",
		Version:                   build.Version(),
		Writer:                    env.Stdout,
		ErrWriter:                 env.Stderr,
		Flags:                     run.Flags,
		Action:                    run.Action,
		Commands:                  commands(env),
		EnableBashCompletion:      true,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		OnUsageError:              flags.UsageError,
		ExitErrHandler:            func(*urfave.Context, error) {}, // Run decides
	}
}

// arrange brings a command line into the order that the command library needs:
// the command, its flags, its arguments. A word that is no command is an error
// that names the nearest one: the library would run an experiment instead.
func arrange(app *urfave.App, args []string) ([]string, error) {
	if len(args) > 0 && args[len(args)-1] == "--generate-bash-completion" {
		return args, nil
	}
	at, err := firstWord(allFlags(app), args)
	if err != nil {
		return nil, err
	}
	if at < 0 {
		return ordered(app.Flags, args)
	}
	command := app.Command(args[at])
	if command == nil {
		return nil, unknownCommand(app, args[at])
	}
	rest := append(append([]string{}, args[:at]...), args[at+1:]...)
	if wantsHelp(rest) {
		if command.Name == benches.Name {
			onlyAction(command, rest)
		}
		return []string{command.Name, "--help"}, nil
	}
	if err := knownFlags(command, rest); err != nil {
		return nil, err
	}
	rest, err = ordered(command.Flags, rest)
	return append([]string{command.Name}, rest...), err
}

// ordered puts the flags of a command before its arguments.
func ordered(list []urfave.Flag, args []string) ([]string, error) {
	args, err := cli.FlagsFirst(args, flags.Takes(list))
	if err != nil {
		return nil, err
	}
	return args, filesNamed(list, args)
}

func unknownCommand(app *urfave.App, word string) error {
	if first, _, _ := strings.Cut(word, ","); slices.Contains(outcome.Classes(), outcome.Class(first)) {
		return cli.Usage("there is no command %q; for a class of failure write --retry-failed=%s", word, word)
	}
	var names []string
	for _, c := range app.Commands {
		names = append(names, c.Name)
	}
	if hint := nearest.Hint(word, names); hint != "" {
		return cli.Usage("there is no command %q%s", word, hint)
	}
	return cli.Usage("there is no command %q; there are: %s", word, strings.Join(names, ", "))
}

// wantsHelp reports whether help is asked for; the library would take the other
// words for its topic.
func wantsHelp(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--help", "-h":
			return true
		}
	}
	return false
}

// knownFlags refuses a flag that the command does not have.
func knownFlags(command *urfave.Command, args []string) error {
	list := append([]urfave.Flag{urfave.HelpFlag}, command.Flags...)
	for {
		at, err := firstWord(list, args)
		if err != nil || at < 0 {
			return err
		}
		args = args[at+1:]
	}
}

// firstWord returns where the first word stands that is neither a flag nor the
// value of one, or -1. A flag that is not in the list is an error: whether the
// word behind it is its value cannot be known.
func firstWord(all []urfave.Flag, args []string) (int, error) {
	takes := flags.Takes(all)
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return -1, nil
		}
		if !strings.HasPrefix(args[i], "-") || args[i] == "-" {
			return i, nil
		}
		name, _, inline := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		known, value := takes(name)
		if !known {
			return 0, flags.Unknown(all, "experiment", name)
		}
		if value && !inline {
			i++
		}
	}
	return -1, nil
}

// allFlags returns the flags of all commands together, those of the library
// included.
func allFlags(app *urfave.App) []urfave.Flag {
	list := append([]urfave.Flag{urfave.HelpFlag, urfave.VersionFlag}, app.Flags...)
	for _, c := range app.Commands {
		list = append(list, c.Flags...)
	}
	return list
}

// noWords refuses leftover words of a command that takes none.
func noWords(c *urfave.Context) error {
	if c.Args().Present() {
		return cli.Usage("%s takes no argument, got %q", c.Command.Name, c.Args().First())
	}
	return nil
}
