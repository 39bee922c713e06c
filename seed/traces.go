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

// TraceConfig configures FromTraces. Only Dataset is required.
type TraceConfig struct {
	// Config applies as for File, with three differences: bad items never prevent writing the
	// others, archived items stay archived, and the schemas of the dataset are checked if Schemas
	// has none.
	Config
	// Mapping describes where a trace has the fields of an item.
	Mapping Mapping
	// Corrections updates the gold of existing items from reviewed traces of experiments, instead
	// of making items. The traces are the completed items of Selection.Queue. A correction becomes
	// the expected output of the item that the trace is linked to; a completed item without
	// correction confirms the gold. Both add a Review to the item's metadata and change nothing
	// else. From Mapping only Observation, Expected and Evidence apply; from Config only Dataset,
	// DryRun and Progress, and IDPrefix and Schemas must be empty. Redaction is refused.
	Corrections bool
	// AcceptUnvalidated also accepts traces without evidence. The metadata of their items then say
	// "unvalidated".
	AcceptUnvalidated bool
	// Out, if not nil, gets the items, and nothing is written to Langfuse. The caller closes it.
	Out *dataset.Writer
	// Show, if not nil, is called for every trace, never concurrently. In a dry run the order is
	// that of the traces, but within each group of 16 the refused ones come first.
	Show func(Seeded)
	// Before passes to Show also the stored item of each item that changes, at the cost of one
	// request each.
	Before bool
}

// Seeded is what became of one trace, or in a dry run would become of it.
type Seeded struct {
	Change
	Trace    string   `json:"trace"`
	Evidence Evidence `json:"evidence,omitzero"`
	// Content is the item; nil if none was made.
	Content *dataset.Item `json:"content,omitempty"`
	// Before is the stored item with the same id; see TraceConfig.Before.
	Before *dataset.Item `json:"before,omitempty"`
}

// TraceResult is what FromTraces did, or in a dry run would do.
type TraceResult struct {
	Result
	// Selected is the number of distinct traces.
	Selected int `json:"selected"`
	// RefusedQueueItems is the number of items in Refused that are items of the annotation queue
	// without a trace. Selected does not count them.
	RefusedQueueItems int `json:"refused_queue_items,omitempty"`
	// Evidence counts the items made by kind of evidence.
	Evidence map[EvidenceKind]int `json:"evidence"`
	// Written counts the items written to TraceConfig.Out; with Corrections these are the changed
	// items.
	Written int `json:"written,omitempty"`
}

// Err returns nil if an item was made from every trace, else an error with exit code 4 that lists
// the refused traces.
func (r TraceResult) Err() error {
	message := textutil.Countf("%d of %s refused", r.Refused-r.RefusedQueueItems, textutil.Counted(r.Selected, "trace"))
	if r.RefusedQueueItems > 0 {
		message += textutil.Countf(", and %d items of the queue", r.RefusedQueueItems)
	}
	return r.refused(message)
}

// FromTraces reads and writes traces in groups of groupSize, and reads groupsAhead groups at the same
// time while it writes the group before them.
const (
	groupSize   = 16
	groupsAhead = 2
)

// FromTraces makes dataset items from production traces that people validated, and seeds a dataset
// with them as File does. It makes the same checks and the same comparison before writing, so
// seeding again changes nothing.
//
// FromTraces selects traces and reads the completed items of the annotation queues. It then
// processes groups of 16 traces and reads ahead: it reads traces with their scores, demands
// evidence, maps, redacts, checks and writes. It refuses a trace from which no item can be made,
// and one for which the server is too busy, names it in the result's problems, and goes on with the
// others. itemID makes the ids of items.
//
// The error is about what ends the work: a bad configuration, an unknown queue, or Langfuse out of
// reach. The call can be repeated. Memory: up to 96 traces, and about a hundred bytes for each
// selected trace and each item of the dataset, and the gold of items that have reviews.
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
		result.Redacted = cfg.Redaction.zeroCounts()
	}
	if cfg.Show == nil {
		cfg.Show = func(Seeded) {}
	}
	cfg.DryRun = cfg.DryRun || cfg.Out != nil
	// Traces of a server in mode v4-dual are read with the legacy endpoints: their tables have all
	// traces, and a trace that was sent the legacy way has name, tags, input and output on the
	// trace, where the new endpoints do not find them.
	traceReads := server
	traceReads.NewReads = server.NewReads && !server.LegacyReads
	t := &traceSeeder{
		client: client, server: server, traceReads: traceReads, cfg: cfg, result: &result,
		links: map[string]link{}, items: map[string]*linkedItem{},
		mapper: mapper{cfg: cfg, replaced: result.Redacted},
		seeder: &seeder{client: client, cfg: cfg.Config, result: &result.Result, existing: map[string]digest{}},
	}
	err = t.run(ctx, selection)
	return result, err
}

// traceSeeder is the state of one call of FromTraces.
type traceSeeder struct {
	client     *langfuse.Client
	server     langfuse.Capabilities
	traceReads langfuse.Capabilities // for reading traces
	cfg        TraceConfig
	mapper     mapper
	seeder     *seeder
	checker    *checker // set with the first item
	result     *TraceResult

	// With Corrections:
	links map[string]link        // by trace id
	items map[string]*linkedItem // by item id; nil if the dataset does not have the item
}

func (t *traceSeeder) run(ctx context.Context, selection Selection) error {
	list, err := t.selectTraces(ctx, selection)
	if err != nil || len(list) == 0 {
		return err
	}
	process, onlyQueue := t.seedTraces, ""
	if t.cfg.Corrections {
		process, onlyQueue = t.reviewTraces, selection.Queue
		if err := t.readLinkedItems(ctx, list); err != nil {
			return err
		}
	}
	if t.mapper.queues, err = t.completedItems(ctx, onlyQueue); err != nil {
		return err
	}
	groups := stats.Values(slices.Collect(slices.Chunk(list, groupSize)))
	readCtx, cancel := context.WithCancel(ctx) // the first error ends reading ahead
	defer cancel()
	read := func(group []candidate) ([]candidate, error) {
		group = slices.Clone(group) // so that the traces read into it can be freed with it
		return group, t.readGroup(readCtx, group)
	}
	done := 0
	for group, err := range stats.Parallel(groupsAhead, groups, read) {
		if err == nil {
			err = process(ctx, group)
		}
		if err != nil {
			cancel()
			return err
		}
		done += len(group)
		t.cfg.progress("reading %d of %d", done, len(list))
	}
	return errors.Join(t.writeChanged(), t.seeder.unanswered())
}

// seedTraces makes the items of some traces, checks them, and writes the good ones.
func (t *traceSeeder) seedTraces(ctx context.Context, traces []candidate) error {
	var list []dataset.Located
	for _, c := range traces {
		out := mappedItem{notes: notes{problems: refusals(c.err)}}
		if c.err == nil {
			out = t.mapper.item(c.trace, c.scores)
		}
		if len(out.problems) == 0 {
			if err := t.open(ctx); err != nil {
				return err
			}
			out.problems = refusals(t.keepReviews(&out))
		}
		if len(out.problems) > 0 {
			t.refuse(c.id, out.problems)
			continue
		}
		located := dataset.Located{Item: out.item, File: traceLabel(c.id)}
		n := t.checker.item(located)
		t.result.Report.Warnings.add(located, out.warnings...)
		t.result.Report.add(located, n)
		if !t.seeder.skipBad(located, n.problems) {
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
				continue
			}
			t.seeder.warnSimilar(located)
			located.ID = t.cfg.IDPrefix + located.ID
			t.seeder.count(located, Change{Item: located.ID, Action: Created})
			t.result.Written++
			if err := t.cfg.Out.Write(located.Item); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// open prepares the dataset before the first item is checked.
func (t *traceSeeder) open(ctx context.Context) error {
	if t.checker != nil {
		return nil
	}
	t.seeder.similar = &similarDocuments{sketches: map[string]sketch{}}
	t.seeder.show = func(located dataset.Located, change Change) { t.show(ctx, located.Item, change) }
	if err := t.seeder.open(ctx); err != nil {
		return err
	}
	return t.openChecker()
}

// openChecker makes the checker. It uses the dataset's own schemas too, because Langfuse would report
// only the first violation, without a path.
func (t *traceSeeder) openChecker() (err error) {
	t.checker, err = newChecker(t.cfg.withSchemasOf(t.result.Dataset))
	return err
}

// refuse reports a trace from which no item is made.
func (t *traceSeeder) refuse(id string, problems []Finding) {
	t.result.Report.Problems.add(dataset.Located{File: traceLabel(id)}, problems...)
	t.result.Refused++
	t.cfg.Show(Seeded{Trace: id, Change: Change{Action: RefusedAction, Reason: reasonOf(problems)}})
}

// show adds trace, evidence and content to a change and passes it to TraceConfig.Show.
func (t *traceSeeder) show(ctx context.Context, item dataset.Item, change Change) {
	item.ID = change.Item
	var metadata struct{ Evidence Evidence }
	_ = json.Unmarshal(item.Metadata, &metadata) // the mapper wrote them
	shown := Seeded{Change: change, Trace: item.SourceTraceID, Evidence: metadata.Evidence, Content: &item}
	if t.cfg.Before && change.Action == Updated {
		if stored, err := t.client.GetDatasetItem(ctx, change.Item); err == nil { // else Show gets none
			shown.Before = new(itemOf(stored))
		}
	}
	t.cfg.Show(shown)
}

// completedItems returns the completed items of the annotation queues by object id. If onlyQueue
// is not empty, it reads the queue with this name or id. A server without queues has none.
func (t *traceSeeder) completedItems(ctx context.Context, onlyQueue string) (map[string][]completedItem, error) {
	items := map[string][]completedItem{}
	for queue, err := range t.client.ListAnnotationQueues(ctx) {
		if errors.Is(err, langfuse.ErrEndpointGone) || errors.Is(err, langfuse.ErrNotFound) {
			return items, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the annotation queues: %w", err)
		}
		if onlyQueue != "" && queue.Name != onlyQueue && queue.ID != onlyQueue {
			continue
		}
		for item, err := range t.client.ListQueueItems(ctx, queue.ID, langfuse.QueueCompleted) {
			if err != nil {
				return nil, fmt.Errorf("reading the annotation queue %q: %w", queue.Name, err)
			}
			items[item.ObjectID] = append(items[item.ObjectID], completedItem{item, queue.Name})
		}
	}
	return items, nil
}

// refusalOf returns the *Finding for an error about a single trace, or nil for an error that ends
// the work.
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

// readGroup reads some traces with their scores. The error ends the work.
func (t *traceSeeder) readGroup(ctx context.Context, list []candidate) error {
	byID := map[string]*candidate{}
	for i := range list {
		if list[i].err == nil {
			byID[list[i].id] = &list[i]
		}
	}
	if len(byID) == 0 {
		return nil
	}
	ids, batchSize := slices.Sorted(maps.Keys(byID)), 1
	if t.traceReads.NewReads {
		batchSize = len(ids)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for batch := range slices.Chunk(ids, batchSize) {
		group.Go(func() error {
			if err := t.readTraces(groupCtx, byID, batch); err != nil {
				return fmt.Errorf("reading traces: %w", err)
			}
			return nil
		})
	}
	var refused error // why all scores could not be read
	group.Go(func() error {
		for score, err := range t.client.ReadScores(groupCtx, t.server, langfuse.ScoresQuery{TraceIDs: ids, Limit: 100}) {
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
		c.err = cmp.Or(c.err, refused)
	}
	return nil
}

// readTraces reads traces with one request if the server can. If the server refuses it, readTraces
// reads them one by one, so that each can be named.
func (t *traceSeeder) readTraces(ctx context.Context, byID map[string]*candidate, ids []string) error {
	missing := refusalOf(langfuse.ErrNotFound)
	for trace, err := range t.client.ReadTraces(ctx, t.traceReads, ids, t.cfg.Mapping.parts()) {
		refused := refusalOf(err)
		if err != nil && refused == nil {
			return err
		}
		if err != nil && len(ids) > 1 && !errors.Is(err, langfuse.ErrRateLimited) {
			for single := range slices.Chunk(ids, 1) {
				if err := t.readTraces(ctx, byID, single); err != nil {
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
			c.err = missing
		}
	}
	return nil
}
