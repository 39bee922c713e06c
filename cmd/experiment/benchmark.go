package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/answers/benchmark"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
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
	failed []error // of runs, where the others went on
	paths  []string

	limiters map[string]*limit.Limiter // by model, for all runs
}

func benchmarkAction(c *urfave.Context, env cli.Env, values settings) error {
	b, err := newBenchmark(env, values)
	if err != nil {
		return err
	}
	var list []benchmark.Dataset
	err = atWorkbench(c.Context, env, b.cfg.runConfig, b.log, func(ctx context.Context, w workbench) (err error) {
		list, err = b.runAll(ctx, w)
		return err
	})
	if list == nil || cli.ExitCode(err) == cli.ExitInterrupted {
		return errors.Join(append(b.failed, err)...)
	}
	r := benchmark.Sum(b.file.Name, list)
	g := b.file.Gates
	r.Gates = r.Judge(benchmark.Gates{MinScore: g.MinScore, MaxDrop: g.MaxDrop, MaxStddev: g.MaxStddev, MaxRegressions: g.MaxRegressions}, b.base)
	problems := append(b.failed, err, b.show(r))
	if b.base != nil {
		for _, reason := range r.Incompatible(*b.base) {
			problems = append(problems, cli.Errorf(cli.ExitIncompatible, "the baseline cannot be compared: %s", reason))
		}
	}
	for _, gate := range r.Gates {
		if !gate.Passed {
			problems = append(problems, cli.Errorf(cli.ExitGate, "gate %s failed: %s", gate.Name, gate.Reason))
		}
	}
	return errors.Join(problems...)
}

func newBenchmark(env cli.Env, values settings) (*benchmarkJob, error) {
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
	if b.file, err = readBenchmark(path); err != nil {
		return nil, err
	}
	if b.cfg.name == "" {
		b.cfg.name = b.file.Name + "-" + time.Now().UTC().Format("20060102-150405")
	}
	p.runName(b.cfg.name)
	if err := errors.Join(p.found...); err != nil {
		return nil, cli.Errorf(cli.ExitUsage, "%w", err)
	}
	if from := values.text("baseline"); from != "" {
		if b.base, err = readBaseline(from); err != nil {
			return nil, err
		}
	}
	b.log, err = newLog(env.Stderr, values.text("log-level"), values.text("log-format"))
	return b, err
}

func readBaseline(path string) (*benchmark.Report, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.Usage("reading the baseline: %w", err)
	}
	var r benchmark.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, cli.Usage("reading the baseline: %s is no report of answers benchmark: %w", path, err)
	}
	if len(r.Datasets) == 0 {
		return nil, cli.Usage("reading the baseline: %s has no datasets: it is no report of answers benchmark", path)
	}
	return &r, nil
}

// runAll runs every dataset as often as is asked for. A run that fails ends the
// benchmark with fail-fast; else it is noted, and the others go on. An
// interruption always ends it.
func (b *benchmarkJob) runAll(ctx context.Context, w workbench) ([]benchmark.Dataset, error) {
	var list []benchmark.Dataset
	for _, d := range b.file.Datasets { // those that are not reached have no score
		list = append(list, benchmark.Dataset{ID: d.ID, Kind: d.Kind, Weight: d.weight(), Runs: []benchmark.Run{}})
	}
	for i, d := range b.file.Datasets {
		done := &list[i]
		for n := 1; n <= b.file.Runs; n++ {
			if w.signals.came() { // while the run before was published
				return list, cli.Errorf(cli.ExitInterrupted, "stopped before dataset %s, run %d; %s", d.ID, n, anew)
			}
			run, err := b.runOne(ctx, w, d, n)
			done.Runs = append(done.Runs, run)
			switch {
			case err == nil:
			case cli.ExitCode(err) == cli.ExitInterrupted, b.file.OnError == "fail-fast":
				return list, fmt.Errorf("dataset %s, run %d: %w", d.ID, n, err)
			default:
				b.failed = append(b.failed, fmt.Errorf("dataset %s, run %d: %w", d.ID, n, err))
			}
		}
	}
	return list, nil
}

// runOne runs one dataset once, and reads its run file back.
func (b *benchmarkJob) runOne(ctx context.Context, w workbench, d benchmarkDataset, n int) (benchmark.Run, error) {
	cfg := b.cfg
	cfg.pdf, cfg.dataset, cfg.output, cfg.quiet, cfg.json = d.PDF, d.Questions, "", true, false
	cfg.name = fmt.Sprintf("%s-%s-%d", b.cfg.name, d.ID, n)
	cfg.beside, cfg.system.limits.limiters = b.paths, b.limiters // one budget, one provider
	cfg.revival = byNothing
	run := benchmark.Run{Name: cfg.name}
	if !b.cfg.quiet {
		fmt.Fprintf(b.env.Stderr, "dataset %s, run %d of %d: %s\n", d.ID, n, b.file.Runs, cfg.name)
	}
	began := time.Now()
	path, failed := w.runAnswers(ctx, cfg)
	run.Seconds, run.Path = time.Since(began).Seconds(), path
	if failed != nil {
		run.Error = failed.Error()
	}
	if path == "" {
		return run, failed
	}
	b.paths = append(b.paths, path)
	return run, errors.Join(failed, fill(ctx, path, &run))
}

// fill reads what a run came to. One that is not complete has no score.
func fill(ctx context.Context, path string, run *benchmark.Run) (err error) {
	if _, err := os.Stat(path); err != nil {
		return nil // nothing came of it, and it was removed
	}
	reader, err := runstore.OpenAny(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	summary, err := summarise(ctx, reader)
	if err != nil {
		return err
	}
	run.Failed = summary.Items.Failed
	if a := summary.Answers; a != nil {
		run.PDFSHA256, run.QuestionsSHA256 = a.PDFSHA256, a.QuestionsSHA256
		if summary.Status == outcome.Complete {
			run.WeightedScore = a.WeightedScore
		}
	}
	run.Questions = map[string]benchmark.Question{}
	for o, err := range reader.Outcomes(ctx, runstore.Query{Newest: true}) {
		if err != nil {
			return err
		}
		q := benchmark.Question{Failed: o.Failed()}
		if s, ok := outcome.Lookup(o.Scores, answers.Primary); ok {
			if s.Value != nil {
				q.Score = *s.Value
			}
			if s.Weight != nil {
				q.Weight = *s.Weight
			}
		}
		id := o.Item
		if o.Trial > 1 {
			id = fmt.Sprintf("%s#%d", id, o.Trial)
		}
		run.Questions[id] = q
	}
	return nil
}

// show prints the report and writes it to the file.
func (b *benchmarkJob) show(r benchmark.Report) error {
	var problems []error
	switch {
	case b.cfg.json:
		problems = append(problems, printJSON(b.env, r))
	case !b.cfg.quiet:
		problems = append(problems, cli.Written(benchmarkTable(b.env.Stdout, r)))
	}
	if b.cfg.output != "" {
		err := cli.WriteFile(b.cfg.output, func(w io.Writer) error { return report.JSON(w, r, true) })
		if err != nil {
			problems = append(problems, cli.Errorf(cli.ExitIO, "writing %s: %w", b.cfg.output, err))
		}
	}
	return errors.Join(problems...)
}
