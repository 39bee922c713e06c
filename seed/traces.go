package seed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
)

// TraceConfig says how FromTraces seeds. Only Dataset is required.
type TraceConfig struct {
	// Config is as for File, except that bad items never keep the others out
	// and archived items stay archived, and that the schemas which the dataset has
	// are checked where none are given.
	Config
	// Mapping says where in a trace an item's fields are.
	Mapping Mapping
	// Corrections takes what people said of the gold of experiments instead of
	// making items: the completed items of Selection.Queue. A correction becomes
	// the expected output of the item that its trace is linked to, a completed item
	// without one confirms the gold; the item's metadata get a Review. Everything
	// else of the item stays. Of Mapping, Observation and Expected count; Redaction
	// is refused, and the other fields of Config but Dataset, DryRun and Progress
	// mean nothing.
	Corrections bool
	// AcceptUnvalidated takes traces without evidence, too; the metadata of
	// their items then says "unvalidated".
	AcceptUnvalidated bool
	// Out, if set, gets the items, and Langfuse gets nothing. The caller closes it.
	Out *dataset.Writer
	// Show, if set, is told of every trace; with a dry run in their order, but of
	// each few first those that are refused. It is never called concurrently.
	Show func(Seeded)
	// Before asks Show for what the dataset has of items that change: a request
	// more for each.
	Before bool
}

// Seeded is what became of one trace, or in a dry run would.
type Seeded struct {
	Change
	Trace    string   `json:"trace"`
	Evidence Evidence `json:"evidence,omitzero"`
	// Content is the item; nil where none was made.
	Content *dataset.Item `json:"content,omitempty"`
	// Before is what the dataset has under its id; see TraceConfig.Before.
	Before *dataset.Item `json:"before,omitempty"`
}

// TraceResult is what FromTraces did, or in a dry run would do.
type TraceResult struct {
	Result
	// Selected is how many traces there were, each counted once.
	Selected int `json:"selected"`
	// RefusedQueueItems is how many of Refused are items of the annotation queue
	// that lead to no trace: Selected does not have them.
	RefusedQueueItems int `json:"refused_queue_items,omitempty"`
	// Evidence counts the items made by kind.
	Evidence map[EvidenceKind]int `json:"evidence"`
	// Written counts the items that went to TraceConfig.Out: with Corrections
	// those that change.
	Written int `json:"written,omitempty"`
}

// Err returns nil when an item was made of every trace, else an error with exit
// code 4 that lists those refused.
func (r TraceResult) Err() error {
	said := fmt.Sprintf("%d of %s refused", r.Refused-r.RefusedQueueItems, textutil.Counted(r.Selected, "trace"))
	if r.RefusedQueueItems > 0 {
		said += fmt.Sprintf(", and %d items of the queue", r.RefusedQueueItems)
	}
	return r.refused(said)
}

// atOnce traces are read together, and partsAtOnce times as many at a time while those before
// are written.
const (
	atOnce      = 16
	partsAtOnce = 2
)

// FromTraces makes dataset items of production traces that people validated,
// and seeds a dataset with them as File does: the same checks, the same
// comparison before writing, so that seeding again changes nothing.
//
// The steps: select; read the completed items of the annotation queues; then, of
// 16 traces at a time: read them with their scores, while those before are looked at; demand
// evidence, map, redact, check and write. A trace of which no item can be made is refused by name in the
// result's problems, and the others go on; so is one that the server is too busy
// for. An item's id is itemID.
//
// The error is for what ends the work: a bad configuration, an unknown queue,
// Langfuse out of reach. Safe to repeat. Memory: up to 96 traces, and about a hundred
// bytes for each trace selected and each item of the dataset.
//
// API: GET /api/public/v2/observations or /traces and /observations, /v3/scores,
// /annotation-queues, and those of File
func FromTraces(ctx context.Context, client *langfuse.Client, server langfuse.Capabilities, selection Selection, cfg TraceConfig) (TraceResult, error) {
	result := TraceResult{Evidence: map[EvidenceKind]int{}}
	err := errors.Join(cfg.validate(), selection.validate())
	if cfg.Corrections && (cfg.Redaction != nil || selection.Queue == "") {
		err = errors.Join(err, cli.Usage("corrections are those of a queue, and written as they are: nothing is redacted"))
	}
	if err != nil {
		return result, err
	}
	if cfg.Redaction != nil {
		result.Redacted = cfg.Redaction.counts()
	}
	// A server that writes its tables both ways is asked for traces the legacy way: these
	// tables have all of them, and what programs send the legacy way has its name, tags,
	// input and output on the trace, where the newer reads do not find them.
	traces := server
	traces.NewReads = server.NewReads && !server.LegacyReads
	t := &traceSeeder{
		client: client, server: server, traces: traces, cfg: cfg, result: &result,
		links: map[string]link{}, items: map[string]*linkedItem{},
		mapper: mapper{cfg: cfg, replaced: result.Redacted},
	}
	err = t.run(ctx, selection)
	return result, err
}

// traceSeeder is one call of FromTraces.
type traceSeeder struct {
	client *langfuse.Client
	server langfuse.Capabilities
	traces langfuse.Capabilities // by which traces are read
	cfg    TraceConfig
	mapper mapper
	result *TraceResult

	// With Corrections:
	links map[string]link        // by trace
	items map[string]*linkedItem // by id; nil: not in the dataset

	// Once there is a first item:
	seeder  *seeder
	checker *checker
}

func (t *traceSeeder) run(ctx context.Context, selection Selection) error {
	list, err := t.choose(ctx, selection)
	if err != nil || len(list) == 0 {
		return err
	}
	each, only := t.seed, ""
	if t.cfg.Corrections {
		each, only = t.review, selection.Queue
		if err := t.openLinked(ctx, list); err != nil {
			return err
		}
	}
	if t.mapper.queues, err = t.completedItems(ctx, only); err != nil {
		return err
	}
	parts := func(yield func([]candidate, error) bool) {
		for part := range slices.Chunk(list, atOnce) {
			if !yield(slices.Clone(part), nil) { // what is read of them ends with this
				return
			}
		}
	}
	reading, stop := context.WithCancel(ctx) // what is read ahead ends with the first error
	defer stop()
	read := func(part []candidate) ([]candidate, error) { return part, t.read(reading, part) }
	done := 0
	for part, err := range stats.Parallel(partsAtOnce, parts, read) {
		if err == nil {
			err = each(ctx, part)
		}
		if err != nil {
			stop()
			return err
		}
		done += len(part)
		t.cfg.progress(Progress{Phase: Selecting, Done: done, Total: len(list)})
	}
	return t.writeChanged()
}

// seed makes the items of a few traces, checks them, and writes the good ones.
func (t *traceSeeder) seed(ctx context.Context, traces []candidate) error {
	var list []dataset.Located
	for _, c := range traces {
		out, err := made{}, c.bad
		if err == nil {
			out, err = t.mapper.item(c.trace, c.scores)
		}
		if err != nil {
			t.refuse(c.id, err)
			continue
		}
		if err := t.open(ctx); err != nil {
			return err
		}
		located := dataset.Located{Item: out.item, File: traceLabel(c.id)}
		n := t.checker.item(located)
		t.result.Report.Warnings.add(located, out.warnings...)
		t.result.Report.add(located, n)
		if !t.seeder.skips(located, n.problems) {
			t.result.Evidence[out.evidence.Kind]++
			list = append(list, located)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return t.seeder.write(ctx, func(write func(dataset.Located)) error {
		for _, located := range list {
			if t.cfg.Out == nil {
				write(located)
			} else if err := t.writeOut(located); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// writeOut writes an item to the file.
func (t *traceSeeder) writeOut(located dataset.Located) error {
	change := Change{Item: t.cfg.IDPrefix + located.ID, Action: Created}
	t.seeder.show(located, change)
	t.result.Written++
	located.ID = change.Item
	return t.cfg.Out.Write(located.Item)
}

// open prepares the dataset once there is an item for it. The dataset's own
// schemas are checked: Langfuse would name the first break of them, and no path.
func (t *traceSeeder) open(ctx context.Context) error {
	if t.seeder != nil {
		return nil
	}
	cfg := t.cfg.Config
	found, err := t.client.GetDataset(ctx, cfg.Dataset)
	if err != nil && !errors.Is(err, langfuse.ErrNotFound) {
		return fmt.Errorf("seeding from traces: %w", err)
	}
	schemas := Schemas{orNothing(cfg.Schemas.Input, found.InputSchema), orNothing(cfg.Schemas.Expected, found.ExpectedOutputSchema)}
	t.seeder = &seeder{client: t.client, cfg: cfg, result: &t.result.Result, keepArchived: true, similar: newSimilarDocuments(), inOrder: cfg.DryRun && t.cfg.Show != nil,
		show: func(located dataset.Located, change Change) { t.show(ctx, located.Item, change) }}
	if t.cfg.Out == nil {
		if err := t.seeder.open(ctx); err != nil {
			return err
		}
	}
	cfg.Schemas = schemas
	t.checker, err = newChecker(cfg)
	return err
}

// refuse names a trace of which no item is made.
func (t *traceSeeder) refuse(id string, err error) {
	problems := refusals(err)
	for _, why := range problems {
		t.result.Report.Problems.add(dataset.Located{File: traceLabel(id)}, *why)
	}
	t.result.Refused++
	if t.cfg.Show != nil {
		t.cfg.Show(Seeded{Trace: id, Change: Change{Action: NotDone, Reason: reasonOf(*problems[0], len(problems))}})
	}
}

// show completes a change with what it is about.
func (t *traceSeeder) show(ctx context.Context, item dataset.Item, change Change) {
	if t.cfg.Show == nil {
		return
	}
	item.ID = change.Item
	var metadata struct{ Evidence Evidence }
	_ = json.Unmarshal(item.Metadata, &metadata) // the mapper wrote it
	shown := Seeded{Change: change, Trace: item.SourceTraceID, Evidence: metadata.Evidence, Content: &item}
	if t.cfg.Before && change.Action == Updated {
		if stored, err := t.client.GetDatasetItem(ctx, change.Item); err == nil { // else: shown without
			shown.Before = new(itemOf(stored))
		}
	}
	t.cfg.Show(shown)
}

// completedItems reads the completed items of the annotation queues, or only of
// that of a name or id, by the id of their object. A server without queues has none.
func (t *traceSeeder) completedItems(ctx context.Context, only string) (map[string][]completed, error) {
	items := map[string][]completed{}
	for queue, err := range t.client.ListAnnotationQueues(ctx) {
		if errors.Is(err, langfuse.ErrEndpointGone) || errors.Is(err, langfuse.ErrNotFound) {
			return items, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the annotation queues: %w", err)
		}
		if only != "" && queue.Name != only && queue.ID != only {
			continue
		}
		for item, err := range t.client.ListQueueItems(ctx, queue.ID, langfuse.QueueCompleted) {
			if err != nil {
				return nil, fmt.Errorf("reading the annotation queue %q: %w", queue.Name, err)
			}
			items[item.ObjectID] = append(items[item.ObjectID], completed{item, queue.Name})
		}
	}
	return items, nil
}

// refusalOf says whether an error is about one trace alone; any other ends the
// work.
func refusalOf(err error) error {
	api, answered := errors.AsType[*langfuse.APIError](err)
	switch {
	case errors.Is(err, langfuse.ErrNotFound):
		return refuse(UnknownTrace, "", "there is no such trace in this project: the id is wrong, of another project, or has not arrived yet")
	case answered && api.Status >= 400 && api.Status < 500 && !errors.Is(err, langfuse.ErrUnauthorized) && !errors.Is(err, langfuse.ErrEndpointGone):
		return refuse(NotRead, "", "could not be read: %v; the same command again reads it once more", err)
	}
	return nil
}

// read reads traces with their scores. The error is for what ends the work.
func (t *traceSeeder) read(ctx context.Context, list []candidate) error {
	byID := map[string]*candidate{}
	for i := range list {
		if list[i].bad == nil {
			byID[list[i].id] = &list[i]
		}
	}
	if len(byID) == 0 {
		return nil
	}
	ids, together := slices.Sorted(maps.Keys(byID)), 1
	if t.traces.NewReads {
		together = len(ids)
	}
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for part := range slices.Chunk(ids, together) {
		group.Go(func() error {
			if err := t.readTraces(working, byID, part); err != nil {
				return fmt.Errorf("reading traces: %w", err)
			}
			return nil
		})
	}
	var refused error // to tell the scores
	group.Go(func() error {
		for score, err := range t.client.ReadScores(working, t.server, langfuse.ScoresQuery{TraceIDs: ids, Limit: 100}) {
			if refused = refusalOf(err); err != nil && refused == nil {
				return fmt.Errorf("reading scores: %w", err)
			}
			if c := byID[score.TraceID()]; c != nil {
				c.scores = append(c.scores, score)
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	for _, c := range byID {
		c.bad = cmp.Or(c.bad, refused)
	}
	return nil
}

// readTraces reads traces with one request where the server can. If that is refused it
// reads them one by one, so that each can be named.
func (t *traceSeeder) readTraces(ctx context.Context, byID map[string]*candidate, ids []string) error {
	missing := refusalOf(langfuse.ErrNotFound)
	for trace, err := range t.client.ReadTraces(ctx, t.traces, ids, t.cfg.Mapping.parts()) {
		refused := refusalOf(err)
		if err != nil && refused == nil {
			return err
		}
		if err != nil && len(ids) > 1 && !errors.Is(err, langfuse.ErrRateLimited) {
			for part := range slices.Chunk(ids, 1) {
				if err := t.readTraces(ctx, byID, part); err != nil {
					return err
				}
			}
			return nil
		}
		missing = cmp.Or(refused, missing)
		if c := byID[trace.ID]; c != nil {
			c.trace = trace
		}
	}
	for _, id := range ids {
		if c := byID[id]; c.trace.ID == "" {
			c.bad = missing
		}
	}
	return nil
}
