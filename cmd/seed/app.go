package main

import (
	"context"
	"errors"
	"os/signal"
	"strings"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/internal/build"
	"extraction-experiment/internal/cli"
)

// Run carries out one command line and returns the exit code.
func Run(ctx context.Context, env cli.Env) (code int) {
	defer cli.Recover(env.Stderr, &code)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	app := newApp(env)
	args := cli.FlagsFirst(env.Args, flags.Takes(app.Flags))
	err := app.RunContext(ctx, append([]string{app.Name}, args...))
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
			&urfave.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "create and update the items of `FILE` (JSONL, JSON or CSV)"},
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

// jobs maps the flag that says what to do to what does it; exactly one is given.
var jobs = []struct {
	flag string
	do   func(*urfave.Context, cli.Env) error
}{
	{"file", fileAction},
	{"check", checkAction},
	{"export", exportAction},
	{"archive", archiveAction},
	{"list", listAction},
}

func action(c *urfave.Context, env cli.Env) error {
	var names []string
	var do func(*urfave.Context, cli.Env) error
	for _, job := range jobs {
		if c.IsSet(job.flag) {
			names, do = append(names, "--"+job.flag), job.do
		}
	}
	if namesTraces(c) {
		names, do = append(names, "trace ids and what selects traces"), traceAction
	}
	switch {
	case len(names) > 1:
		return cli.Usage("%s cannot be used together", strings.Join(names, " and "))
	case len(names) == 0:
		return cli.Usage("nothing to do: give trace ids, something that selects traces, or one of --file, --check, --export, --archive, --list (seed --help explains)")
	case c.String("dataset") == "" && names[0] != "--check" && names[0] != "--list":
		return cli.Usage("%s: --dataset NAME is needed", names[0])
	}
	return do(c, env)
}
