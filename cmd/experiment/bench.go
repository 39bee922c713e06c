package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	benches "extraction-experiment/bench"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

func benchActions() []settings.Action {
	asJSON := settings.JSONFlag()
	dataset := &urfave.StringSliceFlag{Name: "dataset", Aliases: []string{"d"},
		Usage: "cases are in `FILE`; bench run reads several, bench add appends to one"}
	strict := &urfave.BoolFlag{Name: "strict", Usage: "also check the grammar of caseId and packId"}
	return []settings.Action{
		{Name: "run", Usage: "experiment bench run [--mode deterministic|variance] [--trials N] [--dataset FILE...] [--model MODEL | --pipeline PROGRAM] [--out RUN] [--resume]",
			Run: benchRun, Flags: []urfave.Flag{
				&urfave.StringFlag{Name: "mode", Usage: "run in `MODE`: deterministic answers from the cases, variance repeats trials (default: deterministic; variance with a model)"},
				&urfave.StringFlag{Name: "trials", Usage: "run each case `N` times (default: 1; 5 in mode variance)"},
				dataset,
				&urfave.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "answer with `MODEL`, as for experiment run"},
				&urfave.StringFlag{Name: "pipeline", Usage: "answer with your own pipeline, a `PROGRAM|URL`"},
				&urfave.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write to `RUN|FILE`: the name of a run, or a file that ends in .run"},
				&urfave.BoolFlag{Name: "resume", Usage: "resume the run of --out"},
				&urfave.BoolFlag{Name: "retry-failed", Usage: "resume it, and repeat the calls that failed"},
				&urfave.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print no progress"},
				&urfave.StringFlag{Name: "concurrency", Aliases: []string{"c"}, Value: "4", Usage: "work on `N` cases at once"},
				&urfave.StringFlag{Name: "timeout", Value: "5m", Usage: "allow each case `TIME`"},
				strict, asJSON,
			}},
		{Name: "score", Usage: "experiment bench score [RUN] [--min-success-rate X ...] [--json]", MaxArgs: 1,
			Run: benchScore, Flags: append(gateFlags(), asJSON)},
		{Name: "add", Usage: "experiment bench add PACK/regressions.jsonl [--dataset FILE]", MinArgs: 1, MaxArgs: 1,
			Run: benchAdd, Flags: []urfave.Flag{dataset, strict}},
	}
}

func benchCommand(env cli.Env) *urfave.Command {
	return settings.SetActions(env, &urfave.Command{
		Name:  "bench",
		Usage: "measure how stable and well-formed extraction is",
		Description: "Without --dataset, the files in ./bench/datasets are run, or if there are none, the cases that come with the program.\n" +
			"See docs/bench.md for the files and the metrics.",
	}, benchActions(), "")
}

// benchRun runs the cases and prints the report.
func benchRun(c *urfave.Context, env cli.Env, _ []string) (err error) {
	cfg, err := benchConfig(c)
	if err != nil {
		return err
	}
	ctx, signals := watchSignals(c.Context, env.Stderr, leftForResume)
	defer signals.stop()
	cfg.Stop = signals.first.Done()
	limits := system.Limits{Concurrency: cfg.Concurrency, Timeout: cfg.Timeout}
	config := system.Config{Model: c.String("model"), Pipeline: c.String("pipeline"), Limits: limits}
	var opened system.System
	cfg.Observer = observeRun(env, signals, slog.New(slog.DiscardHandler), c.Bool("quiet"), benches.CaseSuccess,
		cfg.Trials, &config.Limits, &opened)
	cfg.Answerer, opened, err = system.Opener{Env: env}.OpenBench(config)
	if err != nil {
		return signals.markStop(err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	cfg.System = opened.Header
	result, runErr := benches.Run(ctx, cfg)
	if result.Run == "" {
		if _, taken := errors.AsType[*experiment.NameTakenError](runErr); taken {
			return cli.Usage("the run %s exists already: choose another with --out, or go on with it with --resume", cfg.Out)
		}
		return signals.markStop(runErr)
	}
	callsErr, resume := result.Err(), benchResume(c, env.Args, cfg.Name)
	if callsErr != nil {
		resume += " --retry-failed"
	}
	switch {
	case runErr != nil:
		runErr = cli.Errorf(cli.ExitCode(runErr), "%w; resume with: %s", runErr, resume)
	case callsErr != nil:
		callsErr = cli.Errorf(cli.ExitCode(callsErr), "%w; ask again about these with: %s", callsErr, resume)
	}
	text := func(w io.Writer, r benches.Report, opt report.Options) error {
		err := report.Bench(w, r, opt)
		if runErr == nil && callsErr == nil {
			_, writeErr := fmt.Fprintf(w, "\n%s\nexperiment bench score %s judges it\n", cfg.Out,
				cli.Quote(cmp.Or(cfg.Name, cfg.Out)))
			err = cli.JoinDistinct(err, writeErr)
		}
		return err
	}
	return errors.Join(runErr, callsErr, runs.Print(env, c.Bool("json"), result, text))
}

// benchResume returns the command line that resumes the run with this name.
func benchResume(c *urfave.Context, args []string, name string) string {
	words := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--retry-failed" })
	if !c.IsSet("out") {
		words = append(words, "--out", name)
	}
	return resumeCommand(words)
}

func benchConfig(c *urfave.Context) (benches.Config, error) {
	p := &settings.Problems{}
	cfg := benches.Config{
		Trials: p.Optional("trials", c.String("trials"), 1, 1000), Datasets: c.StringSlice("dataset"),
		Mode: benches.Mode(c.String("mode")), Strict: c.Bool("strict"),
		Concurrency: p.Count("concurrency", c.String("concurrency"), 1, 1000), Timeout: p.Duration("timeout", c.String("timeout")),
		Resume: c.Bool("resume") || c.Bool("retry-failed"), RetryFailed: c.Bool("retry-failed"), Runner: cli.Version(),
	}
	p.Add(c.String("model") != "" && c.String("pipeline") != "", "--model and --pipeline cannot both answer")
	cfg.Out = c.String("out")
	if filepath.Ext(cfg.Out) != runstore.Extension {
		p.Add(cfg.Out == "" && cfg.Resume, "--resume and --retry-failed need the run: --out RUN")
		cfg.Name = cmp.Or(cfg.Out, runs.GeneratedName("bench"))
		settings.CheckRunName(p, "out", cfg.Name)
		cfg.Out = runstore.Path(settings.Folder, "", "bench", cfg.Name)
	}
	err := cli.WithCode(cli.ExitUsage, p.Err())
	if err != nil {
		return cfg, err
	}
	if len(cfg.Datasets) == 0 {
		cfg.Datasets, err = filepath.Glob(filepath.Join(filepath.Dir(defaultRegression), "*.jsonl"))
	}
	if err == nil && len(cfg.Datasets) == 0 {
		cfg.Cases, err = benches.BuiltIn(cfg.Strict)
	}
	return cfg, err
}

// gateFlags returns the flags for the gates of bench score.
func gateFlags() []urfave.Flag {
	return cli.Each(benches.Gates(), func(g benches.Gate) urfave.Flag {
		usage := "fail above `X`: " + g.About
		if strings.HasPrefix(g.Name, "min-") {
			usage = "fail below `X`: " + g.About
		}
		return &urfave.StringFlag{Category: "Gates", Name: g.Name, Value: fmt.Sprintf("%g", g.Limit), Usage: usage}
	})
}

// readGates returns the gates with the limits from the flags. The error contains every problem.
func readGates(c *urfave.Context) ([]benches.Gate, error) {
	gates, p := benches.Gates(), &settings.Problems{}
	for i, g := range gates {
		if text := c.String(g.Name); g.Count {
			gates[i].Limit = float64(p.Count(g.Name, text, 0, int(g.Highest)))
		} else if limit := p.Number(g.Name, text, 0, g.Highest); limit != nil {
			gates[i].Limit = *limit
		}
	}
	return gates, cli.WithCode(cli.ExitUsage, p.Err())
}

// scoredBench is the output of bench score --json.
type scoredBench struct {
	benches.Report
	Gates      map[string]float64  `json:"gates"`
	Violations []benches.Violation `json:"violations"`
}

// benchScore judges a run by the gates. Without an argument it judges the newest bench run.
func benchScore(c *urfave.Context, env cli.Env, words []string) (err error) {
	gates, err := readGates(c)
	if err != nil {
		return err
	}
	path := ""
	if len(words) > 0 {
		path = words[0]
	} else if path, err = newestBench(c.Context); err != nil {
		return err
	}
	run, err := runs.Open(c.Context, path, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	result, err := benches.Measure(c.Context, run)
	if err != nil {
		return err
	}
	scored := scoredBench{result, map[string]float64{}, benches.Check(result, gates)}
	for _, g := range gates {
		scored.Gates[g.Name] = g.Limit
	}
	line, verdict := benches.Verdict(len(gates), scored.Violations)
	return errors.Join(runs.Print(env, c.Bool("json"), scored, func(w io.Writer, s scoredBench, opt report.Options) error {
		err := report.Bench(w, s.Report, opt)
		_, writeErr := fmt.Fprintf(w, "\n%s\n", line)
		return cli.JoinDistinct(err, writeErr)
	}), verdict)
}

// newestBench returns the path of the bench run that started last.
func newestBench(ctx context.Context) (string, error) {
	entries, err := runs.List(ctx)
	if err != nil {
		return "", err
	}
	var newest runstore.Entry
	for _, e := range entries {
		if e.Err == nil && e.Header.Harness == benches.Name && e.Header.Started.After(newest.Header.Started) {
			newest = e
		}
	}
	if newest.Path == "" {
		return "", cli.Usage("there is no run of the bench here: experiment bench run creates one")
	}
	return newest.Path, nil
}

// defaultRegression is the dataset to which bench add appends. bench run reads all datasets of
// its folder, if there are any.
const defaultRegression = "bench/datasets/regression.jsonl"

// benchAdd validates the records of a pack and appends them to the dataset.
func benchAdd(c *urfave.Context, env cli.Env, words []string) error {
	datasets := append(c.StringSlice("dataset"), defaultRegression)
	target := datasets[0]
	if len(datasets) > 2 {
		return cli.Usage("bench add appends to one dataset")
	}
	if cli.SameFile(words[0], target) {
		return cli.Usage("%s is the dataset itself", target)
	}
	if err := cli.CanWrite(target); errors.Is(err, fs.ErrNotExist) && !c.IsSet("dataset") {
		return cli.Usage("there is no folder %s here to add to: name the dataset with --dataset", filepath.Dir(target))
	} else if err != nil {
		return err
	}
	lines, n, err := benches.Additions(c.Context, c.Bool("strict"), words[0], target)
	if err != nil {
		return err
	}
	if err := appendLines(target, lines); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "added %s to %s\n", textutil.Counted(n, "record"), target)
	return cli.WriteError(err)
}

// appendLines appends whole lines to a file and keeps the mode of the file and symbolic links to
// it. If a write fails, it removes the part that was written.
func appendLines(path string, lines []byte) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666) // minus umask
	if err != nil {
		return cli.Errorf(cli.ExitIO, "writing %s: %w", path, err)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil && end > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, end-1); err == nil && last[0] != '\n' {
			lines = append([]byte{'\n'}, lines...)
		}
	}
	if err == nil {
		if _, err = f.Write(lines); err != nil {
			err = errors.Join(err, f.Truncate(end))
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return cli.Errorf(cli.ExitIO, "writing %s: %w", path, err)
	}
	return nil
}
