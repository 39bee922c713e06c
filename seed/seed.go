// Package seed fills datasets in Langfuse, with items from files and with items
// made of production traces that people validated, and looks after them: it
// checks items before anything is sent, writes only what changed, and archives
// and exports.
//
// It is not a runner and does not score; what makes good gold is checked here,
// once, so that a run need not.
//
// The steps of File: check every item and name all problems with file, line
// and path; open or create the dataset; index what is there (some hundred bytes
// an item); write what is new or different; count the rest.
//
//	items := dataset.ReadFile(ctx, "items.jsonl")
//	result, err := seed.File(ctx, client, items, seed.Config{Dataset: "docs"})
//	fmt.Println(result.Created, result.Updated, result.Unchanged, result.Refused)
//
// The steps of FromTraces: select traces; read them with what people said of
// them; demand Evidence; make an item by the Mapping; take out what the
// Redaction says; check and write the items as File does. A trace of an experiment
// is refused: with TraceConfig.Corrections what people said of it changes the item
// that it is linked to.
//
//	selection := seed.Selection{Queue: "review", Since: lastWeek}
//	result, err := seed.FromTraces(ctx, client, server.Capabilities, selection, seed.TraceConfig{Config: seed.Config{Dataset: "docs"}})
package seed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// Config says how File seeds. Only Dataset is required.
type Config struct {
	// Dataset is the name of the dataset in Langfuse; it is created if absent.
	Dataset string
	// Description replaces that of the dataset; empty keeps it.
	Description string
	// Schemas replace those of the dataset; nil keeps them. Every item is
	// checked against those given here before anything is sent.
	Schemas Schemas
	// IDPrefix is put before every id. Ids are unique in a Langfuse project,
	// not only in a dataset.
	IDPrefix string
	// Foreign, if set, says of each item whether it is of another harness than
	// extraction; err is then what is wrong with it, a problem each if they are
	// joined, and odd what is probably a mistake.
	Foreign func(item dataset.Item) (is bool, odd []string, err error)
	// KeepGoing seeds the good items of a file that has bad ones; otherwise a
	// bad item keeps the whole file from being written.
	KeepGoing bool
	// Redaction, if set, is applied to every item before anything is sent,
	// written or shown.
	Redaction *Redaction
	// DryRun finds out what would be done and writes nothing.
	DryRun bool
	// Progress, if set, is told after every step. It is never called
	// concurrently.
	Progress func(Progress)
}

// Phase is one of the steps of File.
type Phase string

// The phases, in their order.
const (
	Selecting Phase = "reading"   // reading traces
	Checking  Phase = "checking"  // reading and checking the file
	Comparing Phase = "comparing" // indexing what the dataset has
	Writing   Phase = "writing"
)

// Progress says how far a phase has come; Total is 0 where it is not known.
type Progress struct {
	Phase       Phase
	Done, Total int
}

// validate returns what is wrong with the name of the dataset and the prefix of ids.
func (c Config) validate() error {
	if err := dataset.ValidID(c.IDPrefix); err != nil && c.IDPrefix != "" {
		return errors.Join(validDataset(c.Dataset), cli.Usage("the id prefix %w", err))
	}
	return validDataset(c.Dataset)
}

// validDataset says why Langfuse would refuse the name of a dataset.
func validDataset(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return cli.Usage("the name of the dataset is missing")
	case strings.TrimSpace(strings.Trim(name, "/")) != name, strings.Contains(name, "//"):
		return cli.Usage("the dataset name %q has a space or slash at an end, or slashes two in a row: they make folders", name)
	case strings.ContainsAny(name, "<>"):
		return cli.Usage("the dataset name %q has angle brackets, which Langfuse takes for HTML", name)
	}
	return nil
}

func (c Config) progress(p Progress) {
	if c.Progress != nil {
		c.Progress(p)
	}
}

// File seeds a dataset with the items of a file. The items are read twice, once
// to check them and once to write them, so the sequence must give the same
// again (that of dataset.ReadFile does).
//
// Items that Langfuse has in the same form already are not written: each write
// makes a new version. An archived item of the file is made active again.
// Items of the dataset that the file does not have stay as they are, and so do
// fields that are absent in the file. Seeding the same file again changes
// nothing, so after any error the same call can be repeated.
//
// The error is for what ends the work: a bad configuration, a file with bad
// items (without KeepGoing; nothing is written, exit code 64), Langfuse out of
// reach (69; a single write without an answer lets the others go on, and is the
// error at the end), ctx. The result then tells what was done before. Items that were
// refused one by one are in Result.Err.
//
// API: GET /api/public/health, GET and POST /api/public/v2/datasets, GET and
// POST /api/public/dataset-items
func File(ctx context.Context, client *langfuse.Client, items iter.Seq2[dataset.Located, error], cfg Config) (Result, error) {
	var result Result
	c, err := newChecker(cfg)
	if err := errors.Join(cfg.validate(), err); err != nil {
		return result, err
	}
	if cfg.Redaction != nil {
		result.Redacted = cfg.Redaction.counts()
		items = cfg.Redaction.items(items, result.Redacted)
	}
	if result.Report, err = c.run(items); err != nil {
		return result, err
	}
	if err := result.Report.Err(); err != nil && !cfg.KeepGoing {
		return result, err
	}
	if result.Report.Items == 0 {
		return result, cli.Usage("there are no items to seed %q with", cfg.Dataset)
	}
	s := &seeder{client: client, cfg: cfg, result: &result, show: func(dataset.Located, Change) {
		cfg.progress(Progress{Phase: Writing, Done: result.Done(), Total: result.Report.Items})
	}}
	if err := s.open(ctx); err != nil {
		return result, err
	}
	hasBad := result.Report.Problems.Total > 0
	return result, s.write(ctx, func(write func(dataset.Located)) error {
		for located, err := range items {
			var syntax *dataset.SyntaxError
			switch {
			case errors.As(err, &syntax): // reported when it was checked
			case err != nil || ctx.Err() != nil:
				return errors.Join(err, ctx.Err())
			case hasBad && s.skips(located, c.item(located).problems): // and so is this one
			default:
				write(located)
			}
		}
		return nil
	})
}

// mostFailedWrites is how many writes in a row, without an answer or refused for limits, end the
// work: the server is gone or closed then, and each would wait through all its attempts.
const mostFailedWrites = 5

// seeder writes items into one dataset.
type seeder struct {
	client       *langfuse.Client
	cfg          Config
	keepArchived bool // an item that somebody archived stays so
	inOrder      bool // one item at a time
	show         func(dataset.Located, Change)
	there        map[string]digest // by id
	similar      *similarDocuments // nil: not looked for

	mu          sync.Mutex // guards what follows, and calls of show
	result      *Result
	unanswered  int
	inRow       int // failed writes since one was done
	lastSilence error
}

// open finds or creates the dataset, updates it where something is new, and reads it
// once, to remember the digest of every item.
func (s *seeder) open(ctx context.Context) error {
	want := langfuse.DatasetUpsert{
		Name: s.cfg.Dataset, Description: s.cfg.Description,
		InputSchema: s.cfg.Schemas.Input, ExpectedOutputSchema: s.cfg.Schemas.Expected,
	}
	found, err := s.client.GetDataset(ctx, s.cfg.Dataset)
	if s.result.DatasetCreated = errors.Is(err, langfuse.ErrNotFound); s.result.DatasetCreated {
		found, err = langfuse.Dataset{Name: s.cfg.Dataset, Description: s.cfg.Description}, nil
	}
	if err == nil && !s.cfg.DryRun && (s.result.DatasetCreated || differs(want, found)) {
		found, err = s.client.UpsertDataset(ctx, want)
	}
	s.result.Dataset, s.there = found, map[string]digest{}
	if err != nil {
		return fmt.Errorf("seeding: %w", err)
	}
	if s.result.DatasetCreated {
		return nil
	}
	for stored, err := range Stored(ctx, s.client, s.cfg.Dataset) {
		if err != nil {
			return fmt.Errorf("seeding: %w", err)
		}
		item := itemOf(stored)
		s.there[item.ID] = digestOf(item)
		if s.similar != nil {
			s.similar.put(item.ID, s.similar.sketchOf(item))
		}
		s.cfg.progress(Progress{Phase: Comparing, Done: len(s.there)})
	}
	return nil
}

func differs(want langfuse.DatasetUpsert, found langfuse.Dataset) bool {
	schema := func(want, found []byte) bool { return want != nil && hash(storedForm(want)) != hash(storedForm(found)) }
	return want.Description != "" && want.Description != found.Description ||
		schema(want.InputSchema, found.InputSchema) || schema(want.ExpectedOutputSchema, found.ExpectedOutputSchema)
}

// How many items are written at once, and their bytes.
const (
	writesAtOnce = 32
	writesBytes  = 16 << 20
)

// write writes the items that each gives it, some at a time. An item whose write
// is not answered is named, and the others go on, up to mostFailedWrites in a row.
// The first other error that is not about one item stops it; writes under way are
// finished, so that the counts are right.
func (s *seeder) write(ctx context.Context, each func(write func(dataset.Located)) error) error {
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(writesAtOnce)
	if s.inOrder {
		group.SetLimit(1)
	}
	room := semaphore.NewWeighted(writesBytes)
	errEach := each(func(located dataset.Located) {
		size := min(int64(len(located.Input)+len(located.Expected)+len(located.Metadata)), writesBytes)
		if working.Err() == nil && room.Acquire(working, size) == nil {
			s.nameSimilar(located)
			group.Go(func() error {
				defer room.Release(size)
				return s.one(ctx, located)
			})
		}
	})
	if err := errors.Join(group.Wait(), errEach); err != nil {
		return fmt.Errorf("seeding: %w", err)
	}
	if s.unanswered > 0 {
		return fmt.Errorf("seeding: Langfuse did not answer for %d items; the same command again goes on with them: %w", s.unanswered, s.lastSilence)
	}
	return nil
}

// one writes one item if it has to be written.
func (s *seeder) one(ctx context.Context, located dataset.Located) error {
	change := Change{Item: s.cfg.IDPrefix + located.ID, Line: located.Line, Action: Created}
	stored, known := s.there[change.Item]
	archived := false
	if !known && (s.cfg.DryRun || !s.result.DatasetCreated) {
		found, err := s.find(ctx, change.Item)
		switch {
		case err != nil:
			return s.failed(ctx, located, change, err)
		case found == nil:
		case found.DatasetName != s.cfg.Dataset:
			s.refuse(located, change, s.taken(found))
			return nil
		default:
			known, stored, archived = true, digestOf(itemOf(*found)), found.Status == langfuse.ItemArchived
		}
	}
	changes, kept := digestOf(located.Item).over(stored)
	switch {
	case archived && s.keepArchived:
		change.Action = Unchanged
		s.warn(located, LeftArchived, "", "was archived in Langfuse and stays so")
	case known:
		change.Action = Updated
		if !archived && !changes {
			change.Action = Unchanged
		}
		for _, field := range kept {
			s.warn(located, Kept, field, "is absent here, and stays in Langfuse as it is: nothing can be cleared through its API")
		}
	}
	if change.Action != Unchanged && !s.cfg.DryRun {
		if _, err := s.client.UpsertDatasetItem(ctx, s.cfg.upsert(located.Item)); err != nil {
			return s.failed(ctx, located, change, err)
		}
	}
	s.count(located, change)
	return nil
}

// find returns the item of that id, of whatever dataset and status, or nil. An
// id that cannot be used safely in a path (proxies refuse an escaped slash) is
// not looked for: the listing and the server's answer to the write must do.
func (s *seeder) find(ctx context.Context, id string) (*langfuse.DatasetItem, error) {
	if strings.ContainsAny(id, `/\%`) || id == "." || id == ".." {
		return nil, nil
	}
	found, err := s.client.GetDatasetItem(ctx, id)
	if errors.Is(err, langfuse.ErrNotFound) {
		return nil, nil
	}
	return &found, err
}

// taken says whose item has an id.
func (s *seeder) taken(found *langfuse.DatasetItem) string {
	return fmt.Sprintf("the id %q belongs to the dataset %q: %s", found.ID, found.DatasetName, s.proposal())
}

func (s *seeder) proposal() string {
	return fmt.Sprintf("ids are unique in a project; give this dataset's ids a prefix, such as --id-prefix %q", s.cfg.Dataset+"-"+s.cfg.IDPrefix)
}

// failed refuses an item if an error is about it alone; any other is returned.
func (s *seeder) failed(ctx context.Context, located dataset.Located, change Change, err error) error {
	_, lost := errors.AsType[*langfuse.ConnectionError](err)
	api, answered := errors.AsType[*langfuse.APIError](err)
	silent := ctx.Err() == nil && (lost || answered && api.Status >= http.StatusInternalServerError)
	switch {
	case silent, errors.Is(err, langfuse.ErrRateLimited):
		reason := err.Error()
		if silent {
			reason = "was not answered, it may be in the dataset or not: " + reason + "; the same command again goes on with it"
		}
		s.refuse(located, change, reason)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inRow++; silent {
			s.unanswered, s.lastSilence = s.unanswered+1, err
		}
		if s.inRow >= mostFailedWrites {
			return fmt.Errorf("%d writes in a row failed, the same command again goes on: %w", s.inRow, err)
		}
	case errors.Is(err, langfuse.ErrConflict), errors.Is(err, langfuse.ErrNotFound): // it is of another dataset
		reason := err.Error() + ": " + s.proposal()
		if found, err := s.find(ctx, change.Item); err == nil && found != nil {
			reason = s.taken(found)
		}
		s.refuse(located, change, reason)
	case errors.Is(err, langfuse.ErrTooLarge), answered && api.Status == http.StatusBadRequest:
		s.refuse(located, change, err.Error())
	default:
		return err
	}
	return nil
}

func (s *seeder) refuse(located dataset.Located, change Change, reason string) {
	s.mu.Lock()
	s.result.Report.Problems.add(located, Finding{Kind: Refused, Message: reason})
	s.mu.Unlock()
	change.Action, change.Reason = NotDone, reason
	s.count(located, change)
}

// skips counts an item as refused if the check found problems, and reports that.
func (s *seeder) skips(located dataset.Located, problems []Finding) bool {
	if len(problems) == 0 {
		return false
	}
	s.count(located, Change{Item: s.cfg.IDPrefix + located.ID, Line: located.Line, Action: NotDone, Reason: reasonOf(problems[0], len(problems))})
	return true
}

func (s *seeder) warn(located dataset.Located, kind Kind, path, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Report.Warnings.add(located, Finding{Kind: kind, Path: path, Message: message})
}

// count adds a change to the result and tells whoever listens.
func (s *seeder) count(located dataset.Located, change Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.result
	counters := map[Action]*int{Created: &r.Created, Updated: &r.Updated, Unchanged: &r.Unchanged, NotDone: &r.Refused}
	*counters[change.Action]++
	if change.Action == Created || change.Action == Updated {
		s.inRow = 0
	}
	s.show(located, change)
}
