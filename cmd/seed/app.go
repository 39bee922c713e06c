package main

import (
	"context"
	"errors"
	"os/signal"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/internal/build"
	"extraction-experiment/internal/cli"
)

// Run carries out one command line and returns the exit code.
func Run(ctx context.Context, env cli.Env) (code int) {
	defer cli.Recover(env.Stderr, &code)
	ctx, stop := signal.NotifyContext(ctx, cli.EndSignals()...)
	defer stop()
	app := newApp(env)
	args, err := cli.FlagsFirst(env.Args, flags.Takes(app.Flags))
	if err == nil {
		err = app.RunContext(ctx, append([]string{app.Name}, args...))
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = cli.Errorf(cli.ExitInterrupted, "stopped; the same command goes on where it was: items that are there already are not written again")
	}
	if err != nil {
		cli.Report(env.Stderr, app.Name, err)
	}
	return cli.ExitCode(err)
}

func newApp(env cli.Env) *urfave.App {
	return &urfave.App{
		Name:  "seed",
		Usage: "fill Langfuse datasets from files and from production traces",
		UsageText: strings.Join([]string{
			"seed --dataset NAME --file items.jsonl|json|csv",
			"seed --dataset NAME TRACE_ID…",
			"seed --dataset NAME --queue QUEUE --since 7d",
			"seed --check items.jsonl",
			"seed --dataset NAME --export items.jsonl",
			"seed --dataset NAME --archive ID --archive ID",
			"seed --list",
		}, "\n"),
		Version:   build.Version(),
		Writer:    env.Stdout,
		ErrWriter: env.Stderr,
		Flags: append([]urfave.Flag{
			&urfave.StringFlag{Name: "dataset", Aliases: []string{"d"}, Usage: "`NAME` of the dataset"},
			&urfave.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "create and update the items of `FILE` (JSONL, JSON or CSV), which may be questions (docs/answers.md)"},
			&urfave.StringFlag{Name: "check", Usage: "check the items of `FILE` and send nothing"},
			&urfave.StringFlag{Name: "export", Usage: "write the dataset's items to `FILE`; its ending says the form, - is JSONL on standard output"},
			&urfave.StringSliceFlag{Name: "archive", Usage: "archive the item `ID`; may be repeated"},
			&urfave.BoolFlag{Name: "list", DisableDefaultText: true, Aliases: []string{"l"}, Usage: "list the datasets"},
			&urfave.StringFlag{Name: "schema", Usage: "JSON Schemas of the dataset from `FILE`: {\"input\": …, \"expectedOutput\": …}"},
			&urfave.StringFlag{Name: "description", Usage: "`TEXT` beside the dataset"},
			&urfave.StringFlag{Name: "id-prefix", Usage: "put `P` before every id"},
			&urfave.BoolFlag{Name: "keep-going", Usage: "seed the good items of a file that has bad ones", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "dry-run", Usage: "show what would be written, and write nothing", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "json", Usage: "print JSON on standard output", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "quiet", DisableDefaultText: true, Aliases: []string{"q"}, Usage: "no progress and no warnings"},
		}, traceFlags()...),
		Action:                    func(c *urfave.Context) error { return action(c, env) },
		EnableBashCompletion:      true,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		OnUsageError:              flags.UsageError,
		ExitErrHandler:            func(*urfave.Context, error) {},
	}
}

// job is one of the things that this command does.
type job struct {
	flag string // that asks for it
	do   func(*urfave.Context, cli.Env) error
	also string // the other flags that mean something to it
}

// jobs are those that a flag asks for; exactly one is given.
var jobs = []job{
	{"file", fileAction, "schema description id-prefix keep-going dry-run redact"},
	{"check", checkAction, "schema id-prefix"},
	{"export", exportAction, ""},
	{"archive", archiveAction, ""},
	{"list", listAction, ""},
}

// traceJob is the job that trace ids and the flags of traces ask for.
func traceJob() job {
	j := job{"trace ids and what selects traces", traceAction, "schema description id-prefix dry-run"}
	for _, flag := range traceFlags() {
		j.also += " " + flag.Names()[0]
	}
	return j
}

func action(c *urfave.Context, env cli.Env) error {
	var names []string
	var chosen job
	for _, job := range jobs {
		if c.IsSet(job.flag) {
			names, chosen = append(names, "--"+job.flag), job
		}
	}
	if namesTraces(c) {
		names, chosen = append(names, traceJob().flag), traceJob()
	}
	switch {
	case len(names) > 1:
		return cli.Usage("%s cannot be used together", strings.Join(names, " and "))
	case len(names) == 0:
		return cli.Usage("nothing to do: give trace ids, something that selects traces, or one of --file, --check, --export, --archive, --list (seed --help explains)")
	case c.String("dataset") == "" && names[0] != "--check" && names[0] != "--list":
		return cli.Usage("%s: --dataset NAME is needed", names[0])
	}
	if err := chosen.takes(c, names[0]); err != nil {
		return err
	}
	return chosen.do(c, env)
}

// takes refuses the flags that mean nothing to the job: one that is passed over
// in silence may be one that somebody relies on.
func (j job) takes(c *urfave.Context, name string) error {
	known := append(strings.Fields(j.also), j.flag, "dataset", "json", "quiet", "help", "version")
	var problems []error
	for _, flag := range c.App.Flags {
		if flag := flag.Names()[0]; c.IsSet(flag) && !slices.Contains(known, flag) {
			problems = append(problems, cli.Usage("--%s means nothing with %s: leave it away", flag, name))
		}
		if isEmpty(c, flag) {
			problems = append(problems, cli.Usage("--%s has no value: leave it away, or say what is meant", flag.Names()[0]))
		}
	}
	return errors.Join(problems...)
}

// isEmpty reports whether a flag was given nothing, as by a variable of a script
// that is not set: without it more would be selected, or sent, than was meant.
func isEmpty(c *urfave.Context, flag urfave.Flag) bool {
	name := flag.Names()[0]
	switch flag.(type) {
	case *urfave.StringFlag:
		return c.IsSet(name) && strings.TrimSpace(c.String(name)) == "" && name != "description" && name != "id-prefix"
	case *urfave.StringSliceFlag:
		return slices.ContainsFunc(c.StringSlice(name), func(value string) bool { return strings.TrimSpace(value) == "" })
	case *urfave.IntFlag:
		return c.IsSet(name) && c.Int(name) == 0
	}
	return false
}
