package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/answers/benchmark"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

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
				return list, cli.Errorf(cli.ExitInterrupted, "stopped before dataset %s, run %d; go on with: %s",
					d.ID, n, resumeCommand(named(b.env.Args, b.cfg.nameMade)))
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

// runOne runs one dataset once, or goes on with that run, and reads its run file
// back.
func (b *benchmarkJob) runOne(ctx context.Context, w workbench, d benchmarkDataset, n int) (benchmark.Run, error) {
	cfg := b.cfg
	cfg.pdf, cfg.dataset, cfg.output, cfg.quiet, cfg.json = d.PDF, d.Questions, "", true, false
	cfg.name = b.runName(d, n)
	cfg.beside, cfg.system.limits.limiters = b.paths, b.limiters // one budget, one provider
	if _, err := os.Stat(b.runPath(w, d, n)); err != nil {
		cfg.beginAnew()
	}
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
	run.Questions, err = questionsOf(ctx, reader)
	return err
}

// questionsOf is each question of a run with its mean over the trials.
func questionsOf(ctx context.Context, reader *runstore.Reader) (map[string]benchmark.Question, error) {
	questions, trials := map[string]benchmark.Question{}, map[string]float64{}
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
