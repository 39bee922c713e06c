package experiment

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// begin reserves the name, opens the system and makes the run file, or takes the
// run up again.
func begin(ctx context.Context, cfg Config) (*execution, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	e := &execution{cfg: cfg}
	e.result.Path = cfg.Path
	var notes []string
	if cfg.Resume && !cfg.Retry {
		note, err := NeverBegun(ctx, []string{cfg.Header.Name}, []string{cfg.Path})
		if err != nil {
			return nil, err
		}
		if note != "" {
			e.cfg.Resume, notes = false, []string{note}
		}
	}
	reserve := sync.OnceValue(func() error {
		if e.cfg.Resume {
			return nil
		}
		return e.reserve(ctx)
	})
	if cfg.OpenEarly {
		go reserve() // at the same time: both wait for Langfuse only
	} else if err := reserve(); err != nil { // found before a prompt is pushed
		return nil, err
	}
	if err := e.openSystem(ctx, reserve); err != nil {
		return nil, err
	}
	if e.system.Task == nil || e.system.Scorer == nil {
		return nil, errors.Join(cli.Usage("experiment: Config.Open returned no task or no scorer"), e.system.close())
	}
	if err := e.openRun(ctx); err != nil {
		return nil, errors.Join(err, e.system.close())
	}
	if e.result.Begun {
		e.system.Notes = append(e.system.Notes, notes...)
	}
	if err := e.spend(ctx); err != nil {
		return nil, errors.Join(err, e.run.Close(), e.system.close())
	}
	return e, nil
}

// complete checks the Config and fills in what can be known without asking anybody.
func (cfg Config) complete() (Config, error) {
	var problems []error
	refuse := func(wrong bool, what string) {
		if wrong {
			problems = append(problems, cli.Usage("experiment: Config.%s", what))
		}
	}
	refuse(cfg.Header.Name == "", "Header.Name is missing")
	refuse(cfg.Dataset == "" && cfg.Source == nil, "Dataset is missing")
	refuse(cfg.Open == nil && cfg.Task == nil, "Task is missing")
	refuse(cfg.Open == nil && cfg.Scorer == nil, "Scorer is missing")
	refuse(cfg.Concurrency < 0, "Concurrency is negative")
	refuse(cfg.Timeout < 0, "Timeout is negative")
	if err := errors.Join(problems...); err != nil {
		return cfg, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Concurrency, cfg.Timeout = cmp.Or(cfg.Concurrency, 4), cmp.Or(cfg.Timeout, 5*time.Minute)
	cfg.Resume = cfg.Resume || cfg.Retry
	h := &cfg.Header
	h.Format, h.RunUID, h.Started = outcome.FormatVersion, newUID(), cfg.Now().UTC()
	h.Trials = max(1, h.Trials)
	if h.Environment == "" {
		h.Environment = outcome.SpanEnvironment
	}
	if h.Publication.Form == 0 {
		h.Publication = outcome.Publication{Form: outcome.PublicationForm, ScoreEnvironment: outcome.ScoreEnvironment, Scores: h.Publication.Scores}
	}
	cfg.place()
	return cfg, nil
}

// newUID makes the random id of a run, 32 hex digits.
func newUID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // documented never to fail
	return hex.EncodeToString(id[:])
}

// place says what project and dataset are called, and where the run file is.
func (cfg *Config) place() {
	h := &cfg.Header
	if cfg.Langfuse != nil {
		h.Project = cfg.Langfuse.Server.Project.ID
	}
	if h.Dataset.Name == "" || IsFile(cfg.Dataset) {
		h.Dataset.Name = DatasetName(cfg.Dataset)
	}
	if cfg.Path == "" {
		cfg.Path = runstore.Path(Folder, h.Project, h.Dataset.Name, h.Name)
	}
}

// openSystem opens the system and waits for the name to be reserved.
func (e *execution) openSystem(ctx context.Context, reserve func() error) (err error) {
	e.system = System{Task: e.cfg.Task, Scorer: e.cfg.Scorer, Header: e.cfg.Header.System}
	if e.cfg.Open != nil {
		e.system, err = e.cfg.Open(ctx, e.cfg.Resume)
	}
	switch reserved := reserve(); {
	case reserved != nil && err == nil:
		return errors.Join(reserved, e.system.close())
	case reserved != nil:
		return reserved
	case err != nil:
		return err
	}
	e.cfg.Header.System = e.system.Header
	return nil
}

// reserve finds the items of a new run and checks that its name is free, while the
// first of them are on their way.
func (e *execution) reserve(ctx context.Context) error {
	if err := e.openSource(ctx); err != nil {
		return err
	}
	if err := e.replaceable(ctx); err != nil {
		return err
	}
	var begun sync.WaitGroup
	if pinned, ok := e.source.(*tracking.Dataset); ok {
		begun.Go(func() { pinned.Begin(ctx, e.cfg.Filter.Limit) })
	}
	err := e.nameIsFree(ctx)
	begun.Wait()
	return err
}

// openRun makes the run file, or opens that of a run that goes on.
func (e *execution) openRun(ctx context.Context) error {
	if e.cfg.Resume {
		listed, err := e.resume()
		if err != nil {
			return err
		}
		if listed { // it continues with the items that it has
			return nil
		}
		if err := e.reserve(ctx); err != nil {
			return err
		}
	}
	e.source = Selected{Source: e.source, Filter: e.cfg.Filter}
	e.result.Begun = true
	if e.cfg.Overwrite { // as late as can be: what failed until here has cost nothing
		if err := os.Remove(e.cfg.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return cli.Errorf(cli.ExitIO, "replacing the run: %w", err)
		}
	}
	e.cfg.Header.Dataset.Fingerprint = "" // it says that the items are listed
	var err error
	e.run, err = runstore.Create(e.cfg.Path, e.cfg.Header)
	e.result.Header = e.cfg.Header
	return err
}

// NameTakenError says that the name of a new run is already in use.
type NameTakenError struct {
	Name string
	// Where is the run file, or empty where only Langfuse knows the run.
	Where string
	Free  string // a name that is free, where one was looked for
}

// Place says where the run is.
func (e *NameTakenError) Place() string { return cmp.Or(e.Where, "in Langfuse") }

// Error says where the run is.
func (e *NameTakenError) Error() string {
	return fmt.Sprintf("the run name %q is taken (%s)", e.Name, e.Place())
}

// ExitCode returns 64.
func (*NameTakenError) ExitCode() int { return cli.ExitUsage }

// nameIsFree checks that neither a run file nor Langfuse knows the run's name;
// else it proposes one that is free.
func (e *execution) nameIsFree(ctx context.Context) error {
	where, taken, err := e.cfg.taken(ctx, e.cfg.Header.Name)
	if err != nil || !taken {
		return err
	}
	for i := 2; ; i++ {
		free := fmt.Sprintf("%s-%d", e.cfg.Header.Name, i)
		_, taken, err := e.cfg.taken(ctx, free)
		if err != nil {
			return err
		}
		if !taken {
			return &NameTakenError{Name: e.cfg.Header.Name, Where: where, Free: free}
		}
	}
}

// taken reports whether a run of that name is there: where its file is, or "" in
// Langfuse.
func (cfg Config) taken(ctx context.Context, name string) (where string, taken bool, err error) {
	h := cfg.Header
	path := cfg.Path
	if name != h.Name {
		path = runstore.Path(Folder, h.Project, h.Dataset.Name, name)
	}
	if _, err := os.Stat(path); err == nil && !(cfg.Overwrite && path == cfg.Path) {
		return path, true, nil
	}
	if cfg.Langfuse == nil {
		return "", false, nil
	}
	h.Name = name
	for trial := 1; trial <= h.Trials; trial++ {
		known, err := tracking.RunExists(ctx, cfg.Langfuse.Site, h.Dataset.ID, tracking.RunName(h, trial))
		if err != nil || known {
			return "", known, err
		}
	}
	return "", false, nil
}

// replaceable checks with Overwrite that the run of the name, if there is one,
// may go: nobody is writing it, and it is in no Langfuse but that of this folder,
// where runs of one name do not meet.
func (e *execution) replaceable(ctx context.Context) (err error) {
	if !e.cfg.Overwrite {
		return nil
	}
	run, err := runstore.Open(e.cfg.Path)
	if errors.Is(err, runstore.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	counts, err := run.Counts(ctx)
	published := counts.Published > 0
	for trial := 1; err == nil && !published && trial <= e.cfg.Header.Trials; trial++ {
		_, published, err = run.Experiment(ctx, trial)
	}
	if lf := e.cfg.Langfuse; err == nil && published && lf != nil && !lf.Embedded {
		err = cli.Usage("the run %q is published to Langfuse (%s), and no such run is replaced: use another name", e.cfg.Header.Name, lf.Client.BaseURL())
	}
	return err
}

// spend tells the budget what the run took before it was resumed, and what the
// other runs of its sweep took.
func (e *execution) spend(ctx context.Context) error {
	if e.system.Spent == nil {
		return nil
	}
	for _, path := range e.cfg.siblings {
		if path == e.cfg.Path {
			continue
		}
		if err := spent(ctx, path, e.system.Spent); err != nil {
			return err
		}
	}
	return outcomesOf(ctx, e.run.Reader, e.system.Spent)
}

// spent tells the outcomes of a run file; one that is not there has none.
func spent(ctx context.Context, path string, tell func(outcome.Outcome)) (err error) {
	if _, missing := os.Stat(path); missing != nil {
		return nil
	}
	run, err := runstore.Load(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	return outcomesOf(ctx, run, tell)
}

func outcomesOf(ctx context.Context, run *runstore.Reader, tell func(outcome.Outcome)) error {
	for o, err := range run.Outcomes(ctx, runstore.Query{Brief: true}) {
		if err != nil {
			return err
		}
		tell(o)
	}
	return nil
}
