package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

// answersBenchmarkTable returns the settings of "answers benchmark".
func answersBenchmarkTable() []settings.Setting {
	return append([]settings.Setting{
		{Flag: "config", Usage: "read datasets, weights, repeated runs and gates from `FILE` (docs/answers.md)"},
		{Flag: "out", Alias: "o", Usage: "also write the report as JSON to `FILE`; a later --baseline reads it"},
		{Flag: "name", Alias: "n", Usage: "let the names of the runs begin with `NAME` (default: name of the configuration, and the time)"},
		{Flag: "baseline", Usage: "measure drop and regressions against the report in `FILE`"},
	}, answersSystemTable()...)
}

// benchmarkJob is a benchmark and its state.
type benchmarkJob struct {
	env     cli.Env
	cfg     answersConfig
	file    configs.Benchmark
	base    *answers.BenchmarkReport
	runErrs []error // errors of runs after which the benchmark went on
	sweep   *experiment.Sweep
	// labelled has the prompts that the labels of the benchmark stand for, and pinned the versions of
	// its datasets in Langfuse, by name.
	labelled labelledPrompts
	pinned   map[string]outcome.Dataset
}

func benchmarkAction(c *urfave.Context, env cli.Env, values settings.Values) error {
	b, err := newBenchmark(c.Context, env, values)
	if err != nil {
		return err
	}
	var list []answers.BenchmarkDataset
	err = withSession(c.Context, env, b.cfg.runConfig, nil, func(ctx context.Context, s session) (err error) {
		if err := b.prepare(ctx, s); err != nil {
			return s.explain(err, answers.Name)
		}
		list, err = b.runAll(ctx, s)
		return err
	})
	if list == nil || cli.ExitCode(err) == cli.ExitInterrupted {
		return errors.Join(append(b.runErrs, err)...)
	}
	r := answers.SumBenchmark(b.file.Name, list)
	r.Gates = r.Judge(answers.BenchmarkGates(b.file.Gates), b.base)
	r.ScorerVersion = answers.ScorerInfo().Version
	problems := append(b.runErrs, err, b.show(r))
	for _, gate := range r.Gates {
		if gate.Failed() && (len(b.runErrs) == 0 || r.Summary.WeightedScore != nil) { // else the errors of runs explain why there is no score
			problems = append(problems, cli.Errorf(cli.ExitGate, "gate %s failed: %s", gate.Name, gate.Reason))
		}
	}
	return errors.Join(problems...)
}

func newBenchmark(ctx context.Context, env cli.Env, values settings.Values) (*benchmarkJob, error) {
	cfg, p := readAnswersSystem(values)
	cfg.system.Limits.Limiters = map[string]*limit.Limiter{} // all runs share the limits of a provider
	b := &benchmarkJob{env: env, cfg: cfg}
	b.cfg.Header.Name, b.cfg.output, b.cfg.report = values.Text("name"), values.Text("out"), true
	var err error
	if path := values.Text("config"); path == "" {
		p.Add(true, "--config is missing: name the file that lists the datasets")
	} else if b.file, err = configs.LoadBenchmark(path, b.cfg.Header.Name); err != nil {
		p.Join(err)
	} else {
		read := []string{path, values.Text("baseline")}
		for _, d := range b.file.Datasets {
			read = append(read, d.PDF, d.Questions)
		}
		b.cfg.setName(p, b.file.Name, "which benchmark, with the --name that its runs begin with", read...)
	}
	if err := p.Err(); err != nil {
		return nil, cli.Usage("%w", err)
	}
	b.base, err = settings.ReadFile(ctx, values.Text("baseline"), "the baseline", parseBaseline)
	return b, err
}

func parseBaseline(raw []byte) (*answers.BenchmarkReport, error) {
	var r answers.BenchmarkReport
	if json.Unmarshal(raw, &r) != nil || len(r.Datasets) == 0 {
		return nil, cli.Usage("it is not a report of answers benchmark")
	}
	return &r, nil
}

// show prints the report and writes it to the file of --out.
func (b *benchmarkJob) show(r answers.BenchmarkReport) error {
	err := cli.WriteFile(b.cfg.output, func(w io.Writer) error { return report.JSON(w, r, true) })
	if b.cfg.json || !b.cfg.quiet {
		err = errors.Join(runs.Print(b.env, b.cfg.json, r, report.Benchmark), err)
	}
	return err
}

// prepare finds out which runs have begun and whether the baseline can be compared, so that
// problems are reported before anything is paid.
func (b *benchmarkJob) prepare(ctx context.Context, s session) error {
	b.sweep = &experiment.Sweep{Langfuse: &s.lf.Langfuse, Resume: b.cfg.Resume, Retry: b.cfg.Retry, What: "the benchmark", Note: s.note}
	b.labelled, b.pinned = labelledPrompts{}, map[string]outcome.Dataset{}
	for _, d := range b.file.Datasets {
		for n := 1; n <= b.file.Runs; n++ {
			cfg := b.cfg.runConfig
			cfg.Dataset, cfg.Header.Name = d.Questions, b.runName(d, n)
			began := s.header(ctx, cfg)
			b.labelled.add(began.System.Prompt)
			b.pin(d, began.Dataset)
			b.sweep.Runs = append(b.sweep.Runs, experiment.SweepRun{Name: b.runName(d, n), Dataset: d.Questions, Trials: b.cfg.Header.Trials})
		}
	}
	if err := b.sweep.Prepare(ctx); err != nil {
		return err
	}
	if b.base == nil {
		return nil
	}
	planned, err := b.plan(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(cli.Each(planned.Incompatible(*b.base), func(reason string) error {
		return cli.Errorf(cli.ExitIncompatible, "the baseline cannot be compared: %s", reason)
	})...)
}

// plan returns a report of the documents and questions of the benchmark, without answers.
func (b *benchmarkJob) plan(ctx context.Context, s session) (answers.BenchmarkReport, error) {
	var r answers.BenchmarkReport
	var problems []error
	for _, d := range b.file.Datasets {
		var run answers.BenchmarkRun
		doc, err := readDocument(ctx, d.PDF, s.env.Getenv)
		if err == nil {
			var questions answers.Questions
			questions, err = s.questions(ctx, d.Questions, b.pinned[d.Questions], &outcome.Dataset{})
			run = answers.BenchmarkRun{PDFSHA256: doc.SHA256, QuestionsSHA256: questions.SHA256}
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("dataset %s: %w", d.ID, err))
		}
		r.Datasets = append(r.Datasets, answers.BenchmarkDataset{ID: d.ID, Weight: d.WeightOrDefault(), Runs: []answers.BenchmarkRun{run}})
	}
	return r, errors.Join(problems...)
}

// runName returns the name of the n-th run of a dataset.
func (b *benchmarkJob) runName(d configs.BenchmarkDataset, n int) string {
	return fmt.Sprintf("%s-%s-%d", b.cfg.Header.Name, d.ID, n)
}

// pin makes the version of a dataset that of all its runs, unless an earlier run has decided.
func (b *benchmarkJob) pin(d configs.BenchmarkDataset, version outcome.Dataset) {
	if b.pinned[d.Questions].Version == "" && version.Version != "" {
		b.pinned[d.Questions] = version
	}
}

// runAll runs every dataset as often as configured. A dataset that it does not reach has no
// score. With fail-fast an error of a run ends the benchmark; otherwise it is recorded in
// runErrs. An interruption always ends the benchmark.
func (b *benchmarkJob) runAll(ctx context.Context, s session) ([]answers.BenchmarkDataset, error) {
	list := cli.Each(b.file.Datasets, func(d configs.BenchmarkDataset) answers.BenchmarkDataset {
		return answers.BenchmarkDataset{ID: d.ID, Kind: d.Kind, Weight: d.WeightOrDefault(), Runs: []answers.BenchmarkRun{}}
	})
	for i, d := range b.file.Datasets {
		current := &list[i]
		for n := 1; n <= b.file.Runs; n++ {
			if s.signals.received() { // the signal came while the previous run was published
				return list, cli.Errorf(cli.ExitInterrupted, "stopped before dataset %s, run %d; resume with: %s",
					d.ID, n, resumeCommand(withName(b.env.Args, b.cfg.generatedName)))
			}
			run, err := b.runOne(ctx, s, i*b.file.Runs+n-1, d, n)
			current.Runs = append(current.Runs, run)
			switch {
			case err == nil:
			case cli.ExitCode(err) == cli.ExitInterrupted, b.file.OnError == "fail-fast":
				return list, fmt.Errorf("dataset %s, run %d: %w", d.ID, n, err)
			default:
				b.runErrs = append(b.runErrs, fmt.Errorf("dataset %s, run %d: %w", d.ID, n, err))
			}
		}
	}
	return list, nil
}

// runOne runs or resumes one run of a dataset and reads the scores from its run file. at is the
// index of the run in the sweep.
func (b *benchmarkJob) runOne(ctx context.Context, s session, at int, d configs.BenchmarkDataset, n int) (answers.BenchmarkRun, error) {
	cfg := b.cfg
	cfg.pdf, cfg.Dataset, cfg.output, cfg.quiet, cfg.json = d.PDF, d.Questions, "", true, false
	cfg.Header.Name = b.runName(d, n)
	run := answers.BenchmarkRun{Name: cfg.Header.Name}
	if !b.cfg.quiet {
		fmt.Fprintf(b.env.Stderr, "dataset %s, run %d of %d: %s\n", d.ID, n, b.file.Runs, run.Name)
	}
	began := time.Now()
	var opened system.System
	var r experiment.Result
	cfg.system, cfg.pinned = b.labelled.pin(cfg.system), b.pinned[d.Questions]
	config, runErr := s.answers(ctx, cfg, &opened)
	if runErr == nil {
		b.pin(d, config.Header.Dataset)
		r, runErr = b.sweep.Run(ctx, at, config)
	}
	b.labelled.add(opened.Header.Prompt)
	run.Path, runErr = r.Path, s.finish(cfg.runConfig, opened, r, runErr)
	run.Seconds = time.Since(began).Seconds()
	if runErr != nil {
		run.Error = runErr.Error()
	}
	if r.Path == "" || r.Removed {
		return run, runErr
	}
	run.Failed = r.Summary.Items.Failed
	if sum := r.Summary.Answers; sum != nil {
		run.PDFSHA256, run.QuestionsSHA256 = sum.PDFSHA256, sum.QuestionsSHA256
		if r.Summary.Status == outcome.Complete {
			run.WeightedScore = sum.WeightedScore
		}
	}
	var err error
	run.Questions, err = questionsOf(ctx, r.Path)
	return run, errors.Join(runErr, err)
}

// questionsOf returns each question of a run with its mean score over the trials.
func questionsOf(ctx context.Context, path string) (questions map[string]answers.BenchmarkQuestion, err error) {
	reader, err := runstore.Load(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	questions = map[string]answers.BenchmarkQuestion{}
	trials := map[string]float64{}
	for o, err := range reader.Outcomes(ctx, runstore.Query{Newest: true}) {
		if err != nil {
			return nil, err
		}
		q := questions[o.Item]
		q.Failed = q.Failed || o.Failed()
		if s, ok := outcome.Lookup(o.Scores, answers.Primary); ok {
			if s.Value != nil {
				q.Score += *s.Value
			}
			if s.Weight != nil {
				q.Weight = *s.Weight
			}
		}
		questions[o.Item] = q
		trials[o.Item]++
	}
	for id, q := range questions {
		q.Score /= trials[id]
		questions[id] = q
	}
	return questions, nil
}
