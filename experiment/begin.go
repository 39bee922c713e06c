package experiment

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
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
	if h.Dataset.Name == "" {
		h.Dataset.Name = cfg.Dataset
	}
	if IsFile(cfg.Dataset) {
		h.Dataset.Name = filepath.Base(cfg.Dataset)
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
		begun.Go(func() { pinned.Begin(ctx) })
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
		if listed { // it goes on with the items that it has
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

// resume opens the run of that name, if its items were listed, and checks that
// it is the same experiment. A run that was stopped before that has nothing to
// go on with, and its source may have changed: it is removed to begin again.
func (e *execution) resume() (listed bool, err error) {
	h := e.cfg.Header
	if _, err := os.Stat(e.cfg.Path); err != nil {
		return false, cli.Usage("there is no run %q of %s to resume (%s is missing)", h.Name, h.Dataset.Name, e.cfg.Path)
	}
	run, err := runstore.Open(e.cfg.Path)
	if err != nil {
		return false, err
	}
	began, err := run.Header(context.Background())
	if err == nil {
		err = sameExperiment(began, h, e.cfg.Keep)
	}
	if err == nil {
		listed, err = run.Listed(context.Background())
	}
	if err != nil {
		return false, errors.Join(err, run.Close())
	}
	if !listed {
		return false, errors.Join(run.Close(), os.Remove(e.cfg.Path))
	}
	e.run, e.result.Header = run, began
	return true, nil
}

// NeverBegun says that none of the named runs has begun, as a process leaves them
// that was killed at its start: they begin then; "" where one is there. A run of a
// similar name beside one of the files is an error, as it may be meant; names that
// differ in their numbers only are no mistakes.
func NeverBegun(ctx context.Context, names, paths []string) (note string, err error) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return "", nil
		}
	}
	entries, err := runstore.List(ctx, Folder)
	if err != nil {
		return "", cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	for i, name := range names {
		var similar []string
		for _, e := range entries {
			if other := e.Header.Name; filepath.Dir(e.Path) == filepath.Dir(paths[i]) && withoutDigits(other) != withoutDigits(name) {
				similar = append(similar, other)
			}
		}
		if hint := textutil.Hint(name, similar); hint != "" {
			return "", cli.Usage("there is no run %q to resume%s (without --resume it begins)", name, hint)
		}
	}
	return fmt.Sprintf("there is no run %s to resume: it begins now", strings.Join(names, ", ")), nil
}

func withoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, name)
}

// sameExperiment refuses to go on with a run under other settings: its numbers
// would be a mixture.
func sameExperiment(began, now outcome.Header, keep Keep) error {
	// What only describes the run may be left out when it is resumed.
	if keep.Description {
		now.Description = began.Description
	}
	if keep.Metadata {
		now.Metadata = began.Metadata
	}
	if keep.Environment {
		now.Environment, now.Publication.ScoreEnvironment = began.Environment, began.ScoreEnvironment()
	}
	// So may mentions, which versions that asked nothing sent always.
	if began.Publication.Form == 0 || began.Publication.Mentions {
		now.Publication.Mentions = began.Publication.Mentions
	}
	if now.Publication.Scores == nil {
		now.Publication.Scores = scoresToPublish(began)
	}
	if began.Dataset.Fingerprint == "" || now.Dataset.Fingerprint == "" { // not all items are known
		now.Dataset.Fingerprint = began.Dataset.Fingerprint
	}
	if began.System.Endpoint == "" { // of a version that did not note it
		now.System.Endpoint = ""
	}
	before, after := facts(began), facts(now)
	all := maps.Clone(before)
	maps.Copy(all, after)
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if before[name] != after[name] {
			differences = append(differences, name+": began with "+cmp.Or(before[name], "none")+", now "+cmp.Or(after[name], "none"))
		}
	}
	if len(differences) == 0 {
		return nil
	}
	return cli.Usage("the run %q is another experiment:\n  %s\nresume it with the settings that it began with, or use another name such as %s-%s",
		began.Name, strings.Join(differences, "\n  "), began.Name, time.Now().UTC().Format("0102-1504"))
}

// scoresToPublish are those that a run sends besides the default ones; one of a
// version that did not choose sends all.
func scoresToPublish(h outcome.Header) []string {
	if h.Publication.Form == 0 {
		return []string{outcome.AllScores}
	}
	return h.Publication.Scores
}

// facts are what makes a run the experiment that it is, by name. The label that led to a prompt's
// version may have moved since; the version and its text are what counts.
func facts(h outcome.Header) map[string]string {
	s := h.System
	all := map[string]string{
		"description": h.Description, "environment": h.Environment, "environment of scores": h.ScoreEnvironment(),
		"looked-up mentions": "not sent", "scores to publish": strings.Join(scoresToPublish(h), ","),
		"items (sha256)": h.Dataset.Fingerprint, "selection of items": h.Dataset.Selection,
		"trials": strconv.Itoa(max(1, h.Trials)),
		"model":  s.Model, "provider": s.Provider, "pipeline": s.Pipeline, "server of the model": s.Endpoint,
		"temperature": given(s.Temperature), "top_p": given(s.TopP), "max_tokens": given(s.MaxTokens), "seed": given(s.Seed),
		"text of the prompt (sha256)": s.Prompt.SHA256,
		"scorer version":              h.Scorer.Version, "scoring options": string(h.Scorer.Options), "harness": h.Harness,
	}
	if h.Publication.Mentions {
		all["looked-up mentions"] = "sent"
	}
	if s.Prompt.Name != "" {
		all["prompt"] = fmt.Sprintf("%s@%d", s.Prompt.Name, s.Prompt.Version)
	}
	for _, c := range h.Scorer.Custom {
		all["scorer "+c.Name] = fmt.Sprintf("%s (%s) %s", c.Evaluator, c.Fingerprint, c.Criteria)
	}
	for key, value := range h.Metadata {
		if !strings.HasPrefix(key, "langfuse.") { // where it began; it may go on elsewhere
			all["metadata "+key] = value
		}
	}
	return all
}

func given[T any](value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(*value)
}

// NameTakenError says that the name of a new run is used already.
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
