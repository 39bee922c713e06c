package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/configs"
	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/custom"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/build"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
	"extraction-experiment/tracking"
)

// scorer is the rules of scoring with the options that they were made of.
type scorer struct {
	rules   *scoring.Scorer
	options scoring.Options
	custom  customScorers
}

// judge is the scorer of the run: ours, with those of external evaluators, whose
// models draw on its budget.
func (s scorer) judge(budget *pipeline.Budget) (experiment.Scorer, error) {
	base := harness.Scorer{Rules: s.rules}
	if len(s.custom.extra) == 0 {
		return base, nil
	}
	extra, err := s.custom.within(budget)
	if err != nil {
		return nil, err
	}
	made, err := custom.New(base, scoreOrder(), extra...)
	return made, withCode(err)
}

// newRules makes the scorer of the configuration file's options.
func newRules(file configs.Experiment) (scorer, error) {
	raw, err := file.ScoringJSON()
	if err != nil {
		return scorer{}, cli.Usage("%w", err)
	}
	parsed, err := scoring.ParseOptions(raw, scoring.DefaultOptions())
	if err != nil {
		return scorer{}, cli.Usage("the scoring options: %w", err)
	}
	rules, err := scoring.New(parsed)
	if err != nil {
		return scorer{}, cli.Usage("the scoring options: %w", err)
	}
	return scorer{rules: rules, options: parsed}, nil
}

// job is one run with everything that it needs.
type job struct {
	cfg    runConfig
	lf     *connect.Langfuse
	run    *runstore.Run
	path   string
	fresh  bool   // this process began the run
	begins string // why it did so in spite of --resume
	system system
	source experiment.Source
	task   experiment.Task
	scorer experiment.Scorer
	// tally sums up what the run came to, once; see carryOut.
	tally func() (outcome.Summary, error)
}

// openJob finds the dataset and the extractor and begins the run, or takes it
// up again.
func openJob(ctx context.Context, lf *connect.Langfuse, cfg runConfig, rules scorer, getenv func(string) string) (*job, error) {
	filter, err := cfg.filter()
	if err != nil {
		return nil, err
	}
	j := &job{cfg: cfg, lf: lf}
	header, err := j.header(rules, filter)
	if err != nil {
		return nil, err
	}
	j.place(&header)
	if err := j.beginIfNever(ctx); err != nil {
		return nil, err
	}
	cfg = j.cfg
	var source experiment.Source
	claim := sync.OnceValue(func() (err error) {
		if !cfg.resume {
			source, err = j.claim(ctx, &header)
		}
		return err
	})
	if cfg.system.onlyAsks() {
		go claim() // at the same time: both wait for Langfuse only
	} else if err := claim(); err != nil { // found before a prompt is pushed
		return nil, err
	}
	j.system, err = openSystem(ctx, lf, cfg.system, cfg.concurrency, getenv)
	switch claimed := claim(); {
	case claimed != nil && err == nil:
		return nil, errors.Join(claimed, j.system.close())
	case claimed != nil:
		return nil, claimed
	case err != nil:
		return nil, err
	}
	if j.system.asks.budget == nil {
		j.system.asks.budget, err = rules.custom.budget(cfg.system.limits, getenv)
	}
	if err == nil {
		j.scorer, err = rules.judge(j.system.asks.budget)
	}
	if err != nil {
		return nil, errors.Join(err, j.system.close())
	}
	j.system.header.Endpoint = endpointOf(j.system.header, getenv)
	header.System, j.task = j.system.header, harness.Task{Extractor: j.system.extractor}
	if err := j.begin(ctx, header, source, filter); err != nil {
		return nil, errors.Join(err, j.system.close())
	}
	if j.source != nil {
		j.source = harness.Documents{Source: j.source}
	}
	if err := j.system.asks.book(ctx, j.run, cfg.beside); err != nil {
		return nil, errors.Join(err, j.run.Close(), j.system.close())
	}
	return j, nil
}

// filter says which items of the dataset are run.
func (c runConfig) filter() (dataset.Filter, error) {
	filter, err := dataset.ParseFilter(c.filters...)
	if err != nil {
		return filter, err
	}
	filter = filter.WithIDs(c.items...)
	filter.Limit = c.limit
	return filter, nil
}

// header describes the run, all but what the dataset and the system tell.
func (j *job) header(rules scorer, filter dataset.Filter) (outcome.Header, error) {
	uid := make([]byte, 16)
	if _, err := rand.Read(uid); err != nil {
		return outcome.Header{}, err
	}
	options, err := json.Marshal(rules.options)
	if err != nil {
		return outcome.Header{}, err
	}
	return outcome.Header{
		Format: outcome.FormatVersion, RunUID: hex.EncodeToString(uid), Name: j.cfg.name, Harness: harness.Name,
		Dataset:     outcome.Dataset{Name: j.cfg.dataset, Selection: filter.String()},
		Scorer:      outcome.Scorer{Version: scoring.Version, Options: options, Primary: harness.Primary, Custom: rules.custom.described, OutputOnly: []string{harness.GroundedRate}},
		Trials:      j.cfg.trials,
		Description: j.cfg.description, Environment: j.cfg.environment, Publication: j.cfg.publication, Metadata: j.cfg.metadata,
		GitSHA: gitSHA(), Runner: build.Version(), Project: j.lf.Server.Project.ID, Started: time.Now().UTC(),
	}, nil
}

// place says where the run file is.
func (j *job) place(h *outcome.Header) {
	if isItemFile(j.cfg.dataset) {
		h.Dataset.Name = filepath.Base(j.cfg.dataset)
	}
	j.path = runstore.Path(connect.Folder, h.Project, h.Dataset.Name, h.Name)
}

// claim finds the items of a new run and checks that its name is free, while the
// first of them are on their way.
func (j *job) claim(ctx context.Context, h *outcome.Header) (experiment.Source, error) {
	source, err := j.pinSource(ctx, h)
	if err != nil {
		return nil, err
	}
	var begun sync.WaitGroup
	if pinned, ok := source.(*tracking.Dataset); ok {
		begun.Go(func() { pinned.Begin(ctx, j.cfg.limit) })
	}
	err = j.nameIsFree(ctx, *h)
	begun.Wait()
	return source, err
}

// begin makes the run file, or with --resume opens it; source is then nil, or
// what was read of the items anyway.
func (j *job) begin(ctx context.Context, h outcome.Header, source experiment.Source, filter dataset.Filter) error {
	if j.cfg.resume {
		listed, err := j.resume(h)
		if err != nil {
			return err
		}
		if listed {
			note, err := j.changedSource(ctx, source, filter)
			if err != nil {
				return closing(j.run, err)
			}
			if note != "" {
				j.system.notes = append(j.system.notes, note)
			}
			return nil
		}
		claimed, err := j.claim(ctx, &h)
		if err != nil {
			return err
		}
		if source == nil {
			source = claimed
		}
	}
	j.source = experiment.Selected{Source: source, Filter: filter}
	j.fresh = true
	if j.begins != "" {
		j.system.notes = append(j.system.notes, j.begins)
	}
	if j.cfg.overwrite { // as late as can be: what failed until here has cost nothing
		if err := os.Remove(j.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return cli.Errorf(cli.ExitIO, "replacing the run: %w", err)
		}
	}
	var err error
	j.run, err = runstore.Create(j.path, h)
	return err
}

// pinSource returns where the items come from, and notes it in the header.
func (j *job) pinSource(ctx context.Context, h *outcome.Header) (experiment.Source, error) {
	if isItemFile(j.cfg.dataset) {
		info, err := os.Stat(j.cfg.dataset)
		switch {
		case err != nil:
			return nil, cli.Usage("there is no file %s to read items from", j.cfg.dataset)
		case info.IsDir():
			return nil, cli.Usage("%s is a folder; a dataset is one file", j.cfg.dataset)
		case j.cfg.output != "" && cli.SameFile(j.cfg.dataset, j.cfg.output):
			return nil, cli.Usage("--output %s would replace the dataset: name another file", j.cfg.output)
		}
		return experiment.File(j.cfg.dataset), nil
	}
	pinned, err := j.openDataset(ctx)
	if err != nil {
		return nil, j.datasetError(err)
	}
	h.Dataset.ID, h.Dataset.Version = pinned.ID(), pinned.Version()
	return pinned, nil
}

// pinEarly pins the dataset of a new run, if it can. What goes wrong is met again
// when the dataset is needed.
func (c *runConfig) pinEarly(ctx context.Context, client *langfuse.Client) {
	if c.resume || isItemFile(c.dataset) {
		return
	}
	if found, err := tracking.OpenDataset(ctx, client, c.dataset); err == nil {
		c.pin = found
	}
}

// openDataset pins the dataset, unless it is pinned already.
func (j *job) openDataset(ctx context.Context) (*tracking.Dataset, error) {
	if j.cfg.pin != nil {
		return j.cfg.pin, nil
	}
	return tracking.OpenDataset(ctx, j.lf.Client, j.cfg.dataset)
}

// isItemFile reports whether a dataset is meant to be a file: it is there, or
// its name ends as the names of item files do.
func isItemFile(name string) bool {
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		return true
	}
	_, err := dataset.FormatOf(name)
	return err == nil || filepath.IsAbs(name)
}

func (j *job) datasetError(err error) error {
	if !errors.Is(err, langfuse.ErrNotFound) {
		return err
	}
	return cli.Usage("there is no dataset %q in Langfuse (%s); seed --list shows those that are, seed --dataset %s --file FILE makes it",
		j.cfg.dataset, j.lf.Client.BaseURL(), quote(j.cfg.dataset))
}

// publisher sends the run to Langfuse.
func (j *job) publisher(view *progress, log *slog.Logger) (*tracking.Publisher, error) {
	cfg := publishing(j.lf, j.run, log)
	cfg.Published, cfg.Withdrawing = view.published, view.withdraw
	return tracking.NewPublisher(cfg)
}
