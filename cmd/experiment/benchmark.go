package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/harness/answers/benchmark"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/wholefile"
	"extraction-experiment/report"
)

// answersBenchmarkTable lists the settings of "answers benchmark".
func answersBenchmarkTable() []setting {
	return append([]setting{
		{flag: "config", usage: "`FILE` that lists datasets, weights, repeated runs and gates (docs/answers.md)"},
		{flag: "out", alias: "o", usage: "also write the report as JSON to `FILE`; a later --baseline reads it"},
		{flag: "name", alias: "n", usage: "`NAME` that the runs begin with (default: that of the configuration and the time)"},
		{flag: "baseline", usage: "`FILE` is the report that drop and regressions are measured against"},
	}, answersSystemTable()...)
}

// benchmarkJob is a benchmark with everything that it needs.
type benchmarkJob struct {
	env    cli.Env
	cfg    answersConfig
	file   benchmarkConfig
	base   *benchmark.Report
	log    *slog.Logger
	failed []error  // of runs, where the others went on
	paths  []string // of all runs, also of those that have not begun

	limiters map[string]*limit.Limiter // by model, for all runs
}

func benchmarkAction(c *urfave.Context, env cli.Env, values settings) error {
	b, err := newBenchmark(c.Context, env, values)
	if err != nil {
		return err
	}
	var list []benchmark.Dataset
	err = atWorkbench(c.Context, env, b.cfg.runConfig, b.log, nil, func(ctx context.Context, w workbench) (err error) {
		if err := b.prepare(ctx, w); err != nil {
			return w.signals.interrupted(err)
		}
		list, err = b.runAll(ctx, w)
		return err
	})
	if list == nil || cli.ExitCode(err) == cli.ExitInterrupted {
		return errors.Join(append(b.failed, err)...)
	}
	r := benchmark.Sum(b.file.Name, list)
	g := b.file.Gates
	r.Gates = r.Judge(benchmark.Gates{MinScore: g.MinScore, MaxDrop: g.MaxDrop, MaxStddev: g.MaxStddev, MaxRegressions: g.MaxRegressions}, b.base)
	r.ScorerVersion = answersPin().Version
	problems := append(b.failed, err, b.show(r))
	for _, gate := range r.Gates {
		if gate.Failed() && (len(b.failed) == 0 || r.Summary.WeightedScore != nil) { // else why there is no score was said
			problems = append(problems, cli.Errorf(cli.ExitGate, "gate %s failed: %s", gate.Name, gate.Reason))
		}
	}
	return errors.Join(problems...)
}

func newBenchmark(ctx context.Context, env cli.Env, values settings) (*benchmarkJob, error) {
	cfg, p := values.answersSystem()
	b := &benchmarkJob{env: env, cfg: cfg, limiters: map[string]*limit.Limiter{}}
	path := values.text("config")
	if path == "" {
		p.add("--config is missing: name the file that lists the datasets")
	}
	b.cfg.name, b.cfg.output = values.text("name"), values.text("out")
	if b.cfg.output != "" {
		p.err(os.MkdirAll(filepath.Dir(b.cfg.output), 0o755))
		p.err(cli.CanWrite(b.cfg.output))
	}
	if err := errors.Join(p.found...); err != nil {
		return nil, cli.Errorf(cli.ExitUsage, "%w", err)
	}
	var err error
	if b.file, err = readBenchmark(ctx, path, b.cfg.name); err != nil {
		return nil, err
	}
	if b.cfg.name == "" {
		b.cfg.name = madeName(b.file.Name)
		b.cfg.nameMade = b.cfg.name
	}
	if b.cfg.resume && b.cfg.nameMade != "" {
		p.add("--resume: say which benchmark, with the --name that its runs begin with")
	}
	p.runName(b.cfg.name)
	if err := errors.Join(p.found...); err != nil {
		return nil, cli.Errorf(cli.ExitUsage, "%w", err)
	}
	if from := values.text("baseline"); from != "" {
		if b.base, err = readBaseline(ctx, from); err != nil {
			return nil, err
		}
	}
	b.log, err = newLog(env.Stderr, values.text("log-level"), values.text("log-format"))
	return b, err
}

func readBaseline(ctx context.Context, path string) (*benchmark.Report, error) {
	raw, err := wholefile.Read(ctx, path, wholefile.MaxText)
	if err != nil {
		return nil, cli.Usage("reading the baseline: %w", err)
	}
	var r benchmark.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, cli.Usage("reading the baseline: %s is no report of answers benchmark", path)
	}
	if len(r.Datasets) == 0 {
		return nil, cli.Usage("reading the baseline: %s has no datasets: it is no report of answers benchmark", path)
	}
	return &r, nil
}

// show prints the report and writes it to the file.
func (b *benchmarkJob) show(r benchmark.Report) error {
	var problems []error
	switch {
	case b.cfg.json:
		problems = append(problems, printJSON(b.env, r))
	case !b.cfg.quiet:
		problems = append(problems, cli.Written(report.Benchmark(b.env.Stdout, r, textOptions(b.env, nil))))
	}
	if b.cfg.output != "" {
		err := cli.WriteFile(b.cfg.output, func(w io.Writer) error { return report.JSON(w, r, true) })
		if err != nil {
			problems = append(problems, cli.Errorf(cli.ExitIO, "writing %s: %w", b.cfg.output, err))
		}
	}
	return errors.Join(problems...)
}
