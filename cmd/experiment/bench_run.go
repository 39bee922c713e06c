package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/bench/datasets"
	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/experiment"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

// benchRun runs the cases and prints what they come to.
func benchRun(c *urfave.Context, env cli.Env, _ []string) (err error) {
	cfg, err := benchConfig(c)
	if err != nil {
		return err
	}
	ctx, signals := watchSignals(c.Context, env.Stderr)
	defer signals.stop()
	cfg.Stop = signals.soft
	answerer, opened, err := opener(env, nil).OpenBench(system.Config{Model: c.String("model"), Pipeline: c.String("pipeline"), Limits: system.Limits{Concurrency: cfg.Concurrency, Timeout: cfg.Timeout}})
	if err != nil {
		return signals.interrupted(err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	cfg.Answerer, cfg.System = answerer, opened.Header
	view := runs.NewProgress(env, c.Bool("quiet"), benches.CaseSuccess, slog.New(slog.DiscardHandler))
	opened.Asks.Follow(view.Waiting)
	cfg.Observer = experiment.Observer{
		Opened: func(_ string, _ bool, notes []string) {
			for _, note := range notes {
				fmt.Fprintln(env.Stderr, "note: "+textutil.Line(note))
			}
		},
		Listed: view.Listed, Planned: view.Planned, Started: view.Started, Done: view.Done, Working: signals.working.Store,
	}
	result, ran := benches.Run(ctx, cfg)
	view.Close()
	if result.Run == "" {
		return alreadyThere(ran, cfg.Out)
	}
	failed, again := result.Err(), benchResume(c, env.Args, cfg.Name)
	switch {
	case ran != nil:
		ran = cli.Errorf(cli.ExitCode(ran), "%w; go on with: %s", ran, again)
	case failed != nil:
		failed = cli.Errorf(cli.ExitCode(failed), "%w; ask again about these with: %s --retry-failed", failed, again)
	}
	problems := []error{ran, failed, benchWrite(c, env, result)}
	if !c.Bool("json") && ran == nil && failed == nil {
		_, err := fmt.Fprintf(env.Stdout, "\n%s\nexperiment bench score %s judges it\n", cfg.Out, cli.Quote(cmp.Or(cfg.Name, cfg.Out)))
		problems = append(problems, cli.Written(err))
	}
	return errors.Join(problems...)
}

// benchResume is the command line that goes on with the run of this name.
func benchResume(c *urfave.Context, args []string, name string) string {
	kept := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--retry-failed" })
	if !c.IsSet("out") {
		kept = append(kept, "--out", name)
	}
	return resumeCommand(kept)
}

// alreadyThere explains that the run is there already.
func alreadyThere(err error, out string) error {
	if taken := (*experiment.NameTakenError)(nil); errors.As(err, &taken) {
		return cli.Usage("the run %s is there already: choose another with --out, or go on with it with --resume", out)
	}
	return err
}

func benchConfig(c *urfave.Context) (benches.Config, error) {
	p := &settings.Problems{}
	cfg := benches.Config{
		Datasets: c.StringSlice("dataset"), Mode: benches.Mode(c.String("mode")), Options: benches.Options{Strict: c.Bool("strict")},
		Concurrency: p.Count("concurrency", c.String("concurrency"), 1, 1000), Timeout: p.Duration("timeout", c.String("timeout")),
		Resume: c.Bool("resume") || c.Bool("retry-failed"), RetryFailed: c.Bool("retry-failed"), Runner: cli.Version(),
	}
	if text := c.String("trials"); text != "" {
		cfg.Trials = p.Count("trials", text, 1, 1000)
	}
	if c.String("model") != "" && c.String("pipeline") != "" {
		p.Add("--model and --pipeline cannot both answer")
	}
	cfg.Out = c.String("out")
	if filepath.Ext(cfg.Out) != runstore.Extension {
		name := cfg.Out
		if name == "" && cfg.Resume {
			p.Add("--resume and --retry-failed need the run: --out RUN")
		}
		if name == "" {
			name = madeName("bench")
		}
		checkRunNameOf(p, "out", name)
		cfg.Name, cfg.Out = name, runstore.Path(connect.Folder, "", "bench", name)
	}
	if err := p.Err(); err != nil {
		return cfg, withCode(err)
	}
	if len(cfg.Datasets) == 0 {
		var err error
		if cfg.Datasets, err = filepath.Glob(filepath.Join(filepath.Dir(defaultRegression), "*.jsonl")); err != nil {
			return cfg, err
		}
	}
	if len(cfg.Datasets) > 0 {
		return cfg, nil
	}
	for _, file := range []struct{ name, text string }{{"the built-in smoke.jsonl", datasets.Smoke}, {"the built-in regression.jsonl", datasets.Regression}} {
		cases, err := benches.Parse(cfg.Options, file.name, []byte(file.text))
		if err != nil {
			return cfg, err
		}
		cfg.Cases = append(cfg.Cases, cases...)
	}
	return cfg, nil
}

func benchWrite(c *urfave.Context, env cli.Env, r benches.Report) error {
	if c.Bool("json") {
		return runs.PrintJSON(env, r)
	}
	return cli.Written(report.Bench(env.Stdout, r))
}
