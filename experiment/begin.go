package experiment

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// begin reserves the name, opens the system and creates the run file, or opens the file of a
// run that is resumed.
func begin(ctx context.Context, cfg Config) (*execution, error) {
	cfg, err := cfg.withDefaults()
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	note := ""
	if cfg.Resume && !cfg.Retry {
		if note, err = CheckResumable(ctx, []string{cfg.Header.Name}, []string{cfg.Path}); err != nil {
			return nil, err
		}
		cfg.Resume = note == ""
	}
	e := &execution{cfg: cfg}
	e.result.Path = cfg.Path
	if err := e.open(ctx); err != nil {
		return nil, errors.Join(err, e.system.close())
	}
	if e.result.Begun && note != "" {
		e.system.Notes = append(e.system.Notes, note)
	}
	return e, nil
}

// open reserves the name, opens the system and then the run. After an error only the system may
// be open.
func (e *execution) open(ctx context.Context) error {
	if err := e.reserveAndOpenSystem(ctx); err != nil {
		return err
	}
	if e.system.Task == nil || e.system.Scorer == nil {
		return errNotOpened
	}
	if err := e.openRun(ctx); err != nil {
		return err
	}
	err := e.restoreSpent(ctx)
	switch {
	case err == nil:
		return nil
	case e.result.Begun:
		return errors.Join(err, e.run.Remove())
	}
	return errors.Join(err, e.run.Close())
}

// reserveAndOpenSystem reserves the name of a new run and opens the system: with OpenEarly at the
// same time, because both only wait for Langfuse; otherwise one after the other, because Open may
// push a prompt.
func (e *execution) reserveAndOpenSystem(ctx context.Context) error {
	if e.cfg.Resume {
		return e.openSystem(ctx)
	}
	if !e.cfg.OpenEarly {
		if err := e.reserve(ctx); err != nil {
			return err
		}
		return e.openSystem(ctx)
	}
	reserved := make(chan error, 1)
	go func() { reserved <- e.reserve(ctx) }()
	err := e.openSystem(ctx)
	return cmp.Or(<-reserved, err)
}

var errNotOpened = cli.Usage("experiment: Config.Open returned no task or no scorer")

// withDefaults checks the Config and fills in the defaults that need no request.
func (cfg Config) withDefaults() (Config, error) {
	var problems textutil.Problems
	check := func(invalid bool, problem string) { problems.Add(invalid, "experiment: Config.%s", problem) }
	check(cfg.Header.Name == "", "Header.Name is missing")
	check(cfg.Dataset == "" && cfg.Source == nil, "Dataset is missing")
	check(cfg.Open == nil && cfg.Task == nil, "Task is missing")
	check(cfg.Open == nil && cfg.Scorer == nil, "Scorer is missing")
	check(cfg.Concurrency < 0, "Concurrency is negative")
	check(cfg.Timeout < 0, "Timeout is negative")
	h := &cfg.Header
	check(h.Trials < 0 || h.Trials > runstore.MaxTrials, fmt.Sprintf("Header.Trials is not from 0 to %d", runstore.MaxTrials))
	for _, class := range cfg.RetryClasses {
		check(!slices.Contains(outcome.Classes(), class), fmt.Sprintf("RetryClasses has %q, which is no class of failures", class))
	}
	if _, err := json.Marshal(h.System); err != nil {
		check(true, "Header.System: "+err.Error())
	}
	check(len(h.Scorer.Options) > 0 && !json.Valid(h.Scorer.Options), "Header.Scorer.Options is not JSON")
	for _, name := range []string{h.Environment, h.Publication.ScoreEnvironment} {
		check(!langfuse.ValidEnvironment(name),
			fmt.Sprintf("Header has the environment %q: use up to 40 of a-z, 0-9, - and _, not beginning with langfuse", name))
	}
	check(cfg.Verify && cfg.Langfuse == nil, "Verify needs Langfuse")
	check(cfg.Overwrite && (cfg.Resume || cfg.Retry), "Overwrite begins the run again, which Resume continues")
	check(cfg.Langfuse != nil && (cfg.Langfuse.Client == nil || cfg.Langfuse.Server.Project.ID == ""),
		"Langfuse has no client or no project: Connect returns one that has both")
	if err := errors.Join(problems...); err != nil {
		return cfg, cli.WithCode(cli.ExitUsage, err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Resume = cfg.Resume || cfg.Retry
	h.Format, h.RunUID, h.Started = outcome.FormatVersion, newUID(), cfg.Now().UTC()
	h.Trials, h.Dataset.Selection = max(1, h.Trials), cmp.Or(cfg.Filter.String(), h.Dataset.Selection)
	h.Environment = cmp.Or(h.Environment, outcome.SpanEnvironment)
	if given := h.Publication.ScoreEnvironment; h.Publication.Form == 0 {
		h.Publication = h.NewPublication()
		h.Publication.ScoreEnvironment = cmp.Or(given, h.Publication.ScoreEnvironment)
	}
	cfg.setLocation()
	return cfg, nil
}

// newUID returns a random id for a run, 32 hex digits.
func newUID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // documented never to fail
	return hex.EncodeToString(id[:])
}

// setLocation fills in the names of project and dataset, and the path of the run file.
func (cfg *Config) setLocation() {
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

// openSystem opens the system. After an error there is nothing to close.
func (e *execution) openSystem(ctx context.Context) error {
	if e.cfg.Open == nil {
		e.system = System{Task: e.cfg.Task, Scorer: e.cfg.Scorer, Header: e.cfg.Header.System}
		return nil
	}
	opened, err := e.cfg.Open(ctx, e.cfg.Resume)
	if err == nil {
		e.system = opened
	}
	return err
}

// reserve opens the source of a new run and checks that its name is free, while the first items
// are being fetched.
func (e *execution) reserve(ctx context.Context) error {
	if err := e.openSource(ctx); err != nil {
		return err
	}
	if err := e.checkReplaceable(ctx); err != nil {
		return err
	}
	var prefetch sync.WaitGroup
	if pinned, ok := e.source.(*tracking.Dataset); ok {
		prefetch.Go(func() { pinned.Begin(ctx, e.cfg.Filter.Limit) })
	}
	err := e.checkNameFree(ctx)
	prefetch.Wait()
	return err
}

// openRun creates the run file, or opens that of a run that is resumed.
func (e *execution) openRun(ctx context.Context) error {
	e.cfg.Header.System = e.system.Header
	if e.cfg.Resume {
		listed, err := e.resume()
		if err != nil {
			return err
		}
		if listed {
			return nil
		}
		if err := e.reserve(ctx); err != nil {
			return err
		}
	}
	e.cfg.Header.Dataset.Fingerprint = "" // the header has it only after the items are listed
	if p := &e.cfg.Header.Publication; p.Scores == nil && e.cfg.Header.Harness == "" {
		p.Scores = []string{outcome.AllScores}
	}
	if err := runstore.CheckHeader(e.cfg.Header); err != nil {
		return err
	}
	e.source = Selected{Source: e.source, Filter: e.cfg.Filter}
	e.result.Begun = true
	if e.cfg.Overwrite { // as late as possible: earlier errors leave the old run alone
		old, err := runstore.Open(e.cfg.Path) // which fails if another process has begun to write it
		if err == nil {
			err = old.Remove()
		}
		if err != nil && !errors.Is(err, runstore.ErrMissing) {
			return cli.WithCode(cli.ExitIO, fmt.Errorf("replacing the run: %w", err))
		}
	}
	var err error
	e.run, err = runstore.Create(e.cfg.Path, e.cfg.Header)
	e.result.Header = e.cfg.Header
	return err
}

// NameTakenError is the error for a new run whose name is already in use.
type NameTakenError struct {
	Name string
	// Where is the path of the run file; empty if the run is only in Langfuse.
	Where string
	Free  string // a name that is free, or empty
}

// Place returns the path of the run file, or "in Langfuse".
func (e *NameTakenError) Place() string { return cmp.Or(e.Where, "in Langfuse") }

// Error names the run and its place.
func (e *NameTakenError) Error() string {
	return fmt.Sprintf("the run name %q is taken (%s)", e.Name, e.Place())
}

// ExitCode returns 64.
func (*NameTakenError) ExitCode() int { return cli.ExitUsage }

// checkNameFree returns a *NameTakenError, with a name that is free, if the name of the run
// belongs to a run file or to a run in Langfuse.
func (e *execution) checkNameFree(ctx context.Context) error {
	where, taken, err := e.cfg.nameTaken(ctx, e.cfg.Header.Name)
	if err != nil || !taken {
		return err
	}
	var free string
	for i := 2; err == nil && taken; i++ {
		free = fmt.Sprintf("%s-%d", e.cfg.Header.Name, i)
		_, taken, err = e.cfg.nameTaken(ctx, free)
	}
	return cmp.Or(err, error(&NameTakenError{Name: e.cfg.Header.Name, Where: where, Free: free}))
}

// nameTaken reports whether a run of that name exists. where is the path of its file, or empty
// if the run is in Langfuse.
func (cfg Config) nameTaken(ctx context.Context, name string) (where string, taken bool, err error) {
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
		exists, err := tracking.RunExists(ctx, cfg.Langfuse.Site, h.Dataset.ID, tracking.RunName(h, trial))
		if err != nil || exists {
			return "", exists, err
		}
	}
	return "", false, nil
}

// checkReplaceable checks for Overwrite that no process writes the old run, and that it is not
// published, except to the embedded server, where runs of one name do not collide.
func (e *execution) checkReplaceable(ctx context.Context) (err error) {
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
	if err != nil {
		return err
	}
	opened, err := run.Experiments(ctx)
	published := counts.Published > 0 || len(opened) > 0
	if lf := e.cfg.Langfuse; err == nil && published && lf != nil && !lf.Embedded {
		err = cli.Usage("the run %q is published to Langfuse (%s), and no such run is replaced: use another name", e.cfg.Header.Name, lf.Client.BaseURL())
	}
	return err
}

// restoreSpent charges the earlier outcomes of the run, and those of the other runs of its
// sweep, to the budget.
func (e *execution) restoreSpent(ctx context.Context) error {
	if e.system.Spent == nil {
		return nil
	}
	for _, path := range e.cfg.sweepPaths {
		if _, missing := os.Stat(path); missing != nil || path == e.cfg.Path {
			continue
		}
		run, err := runstore.Load(path)
		if err == nil {
			err = errors.Join(visitOutcomes(ctx, run, e.system.Spent), run.Close())
		}
		if err != nil {
			return err
		}
	}
	return visitOutcomes(ctx, e.run.Reader, e.system.Spent)
}

func visitOutcomes(ctx context.Context, run *runstore.Reader, visit func(outcome.Header, outcome.Outcome)) error {
	h, err := run.Header(ctx)
	q := runstore.Query{Depth: runstore.Brief}
	if len(h.Scorer.Custom) > 0 { // judging models may have been asked
		q.Depth = runstore.Full
	}
	for o, damaged := range run.Outcomes(ctx, q) {
		if err = cmp.Or(err, damaged); err != nil {
			return err
		}
		visit(h, o)
	}
	return err
}
