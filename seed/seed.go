// Package seed fills and maintains datasets in Langfuse. It makes items from files and from
// production traces that people validated, checks them before it sends anything, writes only what
// changed, and archives and exports items.
//
// The package neither runs nor scores. It checks here, once, what makes good gold, so that runs
// need not.
//
// File checks every item and names all problems with file, line and path; opens or creates the
// dataset; indexes the existing items (some hundred bytes each); writes what is new or different;
// and counts the rest.
//
//	items := dataset.ReadFile(ctx, "items.jsonl")
//	result, err := seed.File(ctx, client, items, seed.Config{Dataset: "docs"})
//	fmt.Println(result.Created, result.Updated, result.Unchanged, result.Refused)
//
// FromTraces selects traces; reads them with their annotations; demands Evidence; makes an item by
// the Mapping; applies the Redaction; and checks and writes the items as File does. It refuses
// traces of experiments. With TraceConfig.Corrections it takes traces of experiments, and their
// annotations change the items that the traces are linked to.
//
//	selection := seed.Selection{Queue: "review", Since: lastWeek}
//	result, err := seed.FromTraces(ctx, client, server.Capabilities, selection, seed.TraceConfig{Config: seed.Config{Dataset: "docs"}})
package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// Config configures File. Only Dataset is required.
type Config struct {
	// Dataset is the name of the dataset in Langfuse. File creates it if it does not exist.
	Dataset string
	// Description replaces the description of the dataset; empty keeps it.
	Description string
	// Schemas replace the schemas of the dataset; nil keeps them. Every item is checked against the
	// schemas given here before anything is sent.
	Schemas Schemas
	// IDPrefix is prepended to every id. Ids are unique in a Langfuse project, not only in a
	// dataset.
	IDPrefix string
	// Foreign, if not nil, reports whether an item belongs to another harness than extraction. If
	// so, err is what is wrong with the item, one problem for each joined error, and warnings
	// lists probable mistakes. It may be called concurrently.
	Foreign func(item dataset.Item) (foreign bool, warnings []string, err error)
	// KeepGoing writes the good items of a file that has bad ones. Without it one bad item prevents
	// all writes.
	KeepGoing bool
	// Redaction, if not nil, is applied to every item before anything is sent, written or shown.
	Redaction *Redaction
	// DryRun finds out what would be done and writes nothing.
	DryRun bool
	// Progress, if not nil, is called after every step with a line for a person, such as "writing 7 of
	// 20", in the form of fmt.Printf. It is never called concurrently.
	Progress func(format string, args ...any)
}

// validate returns why Langfuse would refuse the name of the dataset, or nil.
func (c Config) validate() (err error) {
	switch name := c.Dataset; {
	case strings.TrimSpace(name) == "":
		err = cli.Usage("the name of the dataset is missing")
	case strings.TrimSpace(strings.Trim(name, "/")) != name, strings.Contains(name, "//"), strings.ContainsAny(name, "<>"):
		err = cli.Usage("the dataset name %q has a space or slash at an end, slashes two in a row, or angle brackets", name)
	}
	return err
}

func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(format, args...)
	}
}

// File seeds a dataset with the items of a file. It reads the items twice, to check and to write
// them, so the sequence must yield the same items again, as that of dataset.ReadFile does.
//
// File does not write items that Langfuse already has in the same form, because each write makes a
// new version. It reactivates archived items of the file. Items of the dataset that are not in the
// file stay as they are, and so do fields that are absent in the file. Seeding the same file again
// changes nothing, so the same call can be repeated after any error.
//
// The error is about what ends the work: a bad configuration, a file with bad items (without
// KeepGoing; nothing is written, exit code 64), Langfuse out of reach (exit code 69), or ctx. A
// single write without an answer does not stop the others and becomes the error at the end. The
// result then says what was done before. Result.Err lists the items that were refused one by one.
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
		result.Redacted = cfg.Redaction.zeroCounts()
		items = cfg.Redaction.redactItems(items, result.Redacted)
	}
	if result.Report, err = c.checkAll(items); err != nil {
		return result, err
	}
	if err := result.Report.Err(); err != nil && !cfg.KeepGoing {
		return result, err
	}
	if result.Report.Items == 0 {
		return result, errors.Join(result.Report.Err(), cli.Usage("there are no items to seed %q with", cfg.Dataset))
	}
	s := &seeder{client: client, cfg: cfg, result: &result, existing: map[string]digest{}}
	s.show = func(dataset.Located, Change) { cfg.progress("writing %d of %d", result.Done(), result.Report.Items) }
	if err := s.open(ctx); err != nil {
		return result, err
	}
	hasBad := result.Report.Problems.Total > 0
	own, errOwn := newChecker(cfg.withSchemasOf(result.Dataset))
	err = s.write(ctx, func(write func(dataset.Located)) error {
		for located, err := range items {
			var syntax *dataset.SyntaxError
			switch {
			case errors.As(err, &syntax): // the check reported it
			case err != nil || ctx.Err() != nil:
				return errors.Join(err, ctx.Err())
			case hasBad && s.skipBad(located, c.item(located).problems): // and reported this item
			default:
				var n notes
				if cfg.DryRun && errOwn == nil { // else Langfuse refuses what breaks the dataset's schemas
					own.checkSchema(&n, "input", located.Input)
					own.checkSchema(&n, "expectedOutput", located.Expected)
				}
				if len(n.problems) > 0 {
					s.refuse(located, Change{Item: cfg.IDPrefix + located.ID, Line: located.Line}, reasonOf(n.problems))
					continue
				}
				write(located)
			}
		}
		return nil
	})
	result.Refused += result.Report.Problems.Kinds[Syntax] // items that could not be read or redacted
	slices.Sort(result.LostReviews)
	slices.Sort(result.Reactivated)
	if err == nil {
		err = s.unanswered()
	}
	return result, err
}

// maxFailedWrites is the number of consecutive failed or rate-limited writes after which write
// gives up: the server is then gone or closed, and each further write would go through all its
// attempts.
const maxFailedWrites = 5

// seeder writes items into one dataset.
type seeder struct {
	client   *langfuse.Client
	cfg      Config
	show     func(dataset.Located, Change)
	existing map[string]digest // existing items by id
	similar  *similarDocuments // nil unless items are from traces
	// reviewed has the existing items with reviews, without input, by id; bySource, for items from
	// traces, the id, the observation and the evidence (as metadata) of an existing item by source trace.
	reviewed, bySource map[string]dataset.Item

	mu            sync.Mutex // guards the fields below and calls of show
	result        *Result
	failedInRow   int // failed writes since the last successful one
	unansweredErr error
}

// fromTraces reports whether items are from traces. Then similar documents are searched for, and
// archived items stay archived.
func (s *seeder) fromTraces() bool { return s.similar != nil }

// open finds or creates the dataset, updates it if its description or schemas differ, and reads it
// once to remember the digest of every item.
func (s *seeder) open(ctx context.Context) error {
	want := langfuse.DatasetUpsert{
		Name: s.cfg.Dataset, Description: s.cfg.Description,
		InputSchema: s.cfg.Schemas.Input, ExpectedOutputSchema: s.cfg.Schemas.Expected,
	}
	found, err := s.client.GetDataset(ctx, s.cfg.Dataset)
	if s.result.DatasetCreated = errors.Is(err, langfuse.ErrNotFound); s.result.DatasetCreated {
		found, err = langfuse.Dataset{Name: s.cfg.Dataset, Description: s.cfg.Description}, nil
	}
	if err == nil && !s.cfg.DryRun && (s.result.DatasetCreated || needsUpsert(want, found)) {
		found, err = s.client.UpsertDataset(ctx, want)
	}
	s.result.Dataset = found
	s.reviewed, s.bySource = map[string]dataset.Item{}, map[string]dataset.Item{}
	if err != nil {
		return fmt.Errorf("seeding: %w", err)
	}
	if s.result.DatasetCreated {
		return nil
	}
	for stored, err := range StoredItems(ctx, s.client, s.cfg.Dataset) {
		if err != nil {
			return fmt.Errorf("seeding: %w", err)
		}
		item := itemOf(stored)
		s.existing[item.ID] = digestOf(item)
		if s.fromTraces() {
			s.similar.sketches[item.ID] = s.similar.sketchOf(item)
			var fields map[string]json.RawMessage
			_ = json.Unmarshal(item.Metadata, &fields) // other metadata have no evidence
			s.bySource[item.SourceTraceID] = dataset.Item{
				ID: item.ID, SourceObservationID: item.SourceObservationID, Metadata: fields[evidenceKey],
			}
		}
		if item.Input = nil; len(Reviews(item.Metadata)) > 0 {
			s.reviewed[item.ID] = item
		}
		s.cfg.progress("comparing %d", len(s.existing)) // with the items of the file
	}
	return nil
}

func needsUpsert(want langfuse.DatasetUpsert, found langfuse.Dataset) bool {
	schema := func(want, found []byte) bool { return want != nil && hash(storedForm(want)) != hash(storedForm(found)) }
	return want.Description != "" && want.Description != found.Description ||
		schema(want.InputSchema, found.InputSchema) || schema(want.ExpectedOutputSchema, found.ExpectedOutputSchema)
}

// Limits for the items that are written at the same time: their number and their bytes.
const (
	maxWrites     = 32
	maxWriteBytes = 16 << 20
)

// write writes the items that produce passes to it, several at the same time. It names an item
// whose write is not answered and goes on with the others, up to maxFailedWrites in a row. Any
// other error that is not about one item stops it. Writes under way are finished, so that the
// counts are right.
func (s *seeder) write(ctx context.Context, produce func(write func(dataset.Located)) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxWrites)
	if s.fromTraces() && s.cfg.DryRun { // the traces are shown in order
		group.SetLimit(1)
	}
	sem := semaphore.NewWeighted(maxWriteBytes)
	produceErr := produce(func(located dataset.Located) {
		size := min(int64(len(located.Input)+len(located.Expected)+len(located.Metadata)), maxWriteBytes)
		if groupCtx.Err() == nil && sem.Acquire(groupCtx, size) == nil {
			s.warnSimilar(located)
			group.Go(func() error {
				defer sem.Release(size)
				return s.writeItem(ctx, located)
			})
		}
	})
	if err := errors.Join(group.Wait(), produceErr); err != nil {
		return fmt.Errorf("seeding: %w", err)
	}
	return nil
}

// unanswered returns an error about the items for which Langfuse did not answer, or nil.
func (s *seeder) unanswered() error {
	if s.result.Unanswered == 0 {
		return nil
	}
	return fmt.Errorf("seeding: Langfuse did not answer for %d items; run the same command again to continue with them: "+
		"%w", s.result.Unanswered, s.unansweredErr)
}

// writeItem writes one item if the dataset does not have it in this form.
func (s *seeder) writeItem(ctx context.Context, located dataset.Located) error {
	change := Change{Item: s.cfg.IDPrefix + located.ID, Line: located.Line, Action: Created}
	stored, listed := s.existing[change.Item]
	known := listed
	reviews, archived := Reviews(s.reviewed[change.Item].Metadata), false
	if !known && (s.cfg.DryRun || !s.result.DatasetCreated) {
		found, err := s.find(ctx, change.Item)
		switch {
		case err != nil:
			return s.handleError(ctx, located, change, err)
		case found == nil:
		case found.DatasetName != s.cfg.Dataset:
			s.refuse(located, change, s.ownerMessage(found))
			return nil
		default:
			known, stored, archived = true, digestOf(itemOf(*found)), found.Status == langfuse.ItemArchived
			reviews = Reviews(found.Metadata)
		}
	}
	written := digestOf(located.Item)
	changes, kept := written.changesOver(stored)
	switch {
	case archived && s.fromTraces():
		change.Action = Unchanged
		s.warn(located, LeftArchived, "", "was archived in Langfuse and stays so")
	case known:
		change.Action = Updated
		if !archived && !changes {
			change.Action = Unchanged
		}
		for _, field := range kept {
			s.warn(located, KeptField, field, "is absent here, and stays in Langfuse as it is: nothing can be cleared through its API")
		}
	}
	if listed && changes && s.fromTraces() && s.changedMeanwhile(ctx, change.Item, written) {
		s.refuse(located, change, changedMeanwhile)
		return nil
	}
	if change.Action != Unchanged && !s.cfg.DryRun {
		if _, err := s.client.UpsertDatasetItem(ctx, s.cfg.upsert(located.Item)); err != nil {
			return s.handleError(ctx, located, change, err)
		}
	}
	if change.Action == Updated {
		s.mu.Lock()
		if archived {
			s.result.Reactivated = append(s.result.Reactivated, change.Item)
		}
		replacesGold, hasMetadata := written[1] != 0 && written[1] != stored[1], written[2] != 0
		if (replacesGold || hasMetadata) && lackReview(Reviews(located.Metadata), reviews) {
			s.result.LostReviews = append(s.result.LostReviews, change.Item)
		}
		s.mu.Unlock()
	}
	s.count(located, change)
	return nil
}

const changedMeanwhile = "was changed while this command ran: nothing is changed; run the same command again"

// changedMeanwhile reports whether somebody changed or archived an item since it was listed, so that
// writing it would undo that.
func (s *seeder) changedMeanwhile(ctx context.Context, id string, written digest) bool {
	if s.cfg.DryRun {
		return false
	}
	now, err := s.find(ctx, id)
	if err != nil || now == nil { // an error is that of the write, too
		return false
	}
	found := digestOf(itemOf(*now))
	return now.Status == langfuse.ItemArchived || found != s.existing[id] && found != written
}

// find returns the item with an id, of any dataset and status, or nil. It does not look for an id
// that is unsafe in a URL path (proxies refuse an escaped slash): the listing and the server's
// answer to the write must do.
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

// ownerMessage says to which dataset an id belongs.
func (s *seeder) ownerMessage(found *langfuse.DatasetItem) string {
	return fmt.Sprintf("the id %q belongs to the dataset %q: %s", found.ID, found.DatasetName, s.prefixHint())
}

func (s *seeder) prefixHint() string {
	return fmt.Sprintf("ids are unique in a project; give this dataset's ids a prefix, such as --id-prefix %q", s.cfg.Dataset+"-"+s.cfg.IDPrefix)
}

// handleError refuses an item if an error is about this item alone; it returns any other error.
func (s *seeder) handleError(ctx context.Context, located dataset.Located, change Change, err error) error {
	_, lost := errors.AsType[*langfuse.ConnectionError](err)
	api, answered := errors.AsType[*langfuse.APIError](err)
	unanswered := ctx.Err() == nil && (lost || answered && api.Status >= http.StatusInternalServerError)
	switch {
	case unanswered, errors.Is(err, langfuse.ErrRateLimited):
		reason := err.Error()
		if unanswered {
			change.Action = NotAnswered
			reason = "was not answered: " + reason + "; run the same command again to continue with it"
		}
		s.refuse(located, change, reason)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.failedInRow++; unanswered {
			s.unansweredErr = err
		}
		if s.failedInRow >= maxFailedWrites {
			return fmt.Errorf("%d writes in a row failed; run the same command again to continue: %w", s.failedInRow, err)
		}
	case errors.Is(err, langfuse.ErrConflict), errors.Is(err, langfuse.ErrNotFound): // the item belongs to another dataset
		reason := err.Error() + ": " + s.prefixHint()
		if found, err := s.find(ctx, change.Item); err == nil && found != nil {
			reason = s.ownerMessage(found)
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
	if change.Reason = reason; change.Action != NotAnswered {
		change.Action = RefusedAction
	}
	s.count(located, change)
}

// skipBad counts an item as refused if the check found problems, and reports whether it did.
func (s *seeder) skipBad(located dataset.Located, problems []Finding) bool {
	if len(problems) == 0 {
		return false
	}
	s.count(located, Change{Item: s.cfg.IDPrefix + located.ID, Line: located.Line, Action: RefusedAction, Reason: reasonOf(problems)})
	return true
}

func (s *seeder) warn(located dataset.Located, kind Kind, path, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Report.Warnings.add(located, Finding{Kind: kind, Path: path, Message: message})
}

// count adds a change to the result and calls show.
func (s *seeder) count(located dataset.Located, change Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.result
	counters := map[Action]*int{Created: &r.Created, Updated: &r.Updated, Unchanged: &r.Unchanged,
		RefusedAction: &r.Refused, NotAnswered: &r.Unanswered}
	*counters[change.Action]++
	if change.Action == Created || change.Action == Updated {
		s.failedInRow = 0
	}
	s.show(located, change)
}
