package seed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
)

// Selection selects traces: those in IDs, or those that satisfy every other field. An empty field
// is no condition.
type Selection struct {
	IDs []string

	Tags         []string // the trace has all of them
	Name         string   // name of the trace; on v4 also of its root
	Environment  string
	Since, Until time.Time // the trace starts in [Since, Until)
	// Queue is the name or id of an annotation queue. It selects the objects of its completed
	// items.
	Queue string
	// Scores must each hold for some score of the trace or its observations.
	Scores []ScoreRule

	// Limit keeps the first traces: ids as given, else newest first, but in the server's order of queue
	// items or scores if nothing else selects. 0 keeps all.
	Limit int
	// Sample draws a number of the remaining traces at random; 0 keeps all. The same Seed draws the
	// same from the same traces.
	Sample int
	Seed   uint64
	// Stratify is a path in the metadata of traces, for example "category". The sample has the same
	// distribution of its values as the selected traces.
	Stratify string
}

// filtersTraces reports whether a condition concerns the traces themselves.
func (s Selection) filtersTraces() bool {
	return len(s.Tags) > 0 || s.Name != "" || s.Environment != "" || !s.Since.IsZero() || !s.Until.IsZero()
}

func (s Selection) validate() error {
	var problems textutil.Problems
	selective := s.filtersTraces() || s.Queue != "" || len(s.Scores) > 0
	problems.Add(len(s.IDs) > 0 && selective, "give trace ids or conditions that select traces, not both")
	problems.Add(len(s.IDs) == 0 && !selective, "give trace ids, or conditions that select traces")
	problems.Add(s.Limit < 0 || s.Sample < 0, "limit and sample must not be negative")
	problems.Add(!s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until), "since is not before until")
	problems.Add(s.Stratify != "" && s.Sample == 0, "stratify needs a sample: give its size as well")
	if s.Stratify != "" {
		_, err := s.stratumPath()
		problems.Join(err)
	}
	return cli.WithCode(cli.ExitUsage, errors.Join(problems...))
}

// stratumPath returns the path of Stratify, below metadata.
func (s Selection) stratumPath() (Path, error) {
	return ParsePath(strings.TrimPrefix(strings.TrimPrefix(s.Stratify, "trace."), "metadata."))
}

// candidate is a selected trace.
type candidate struct {
	id      string
	stratum string
	err     error // why the trace cannot be used: one or several *Finding

	// Set when the trace is read:
	trace  langfuse.Trace
	scores []langfuse.Score
}

// selectTraces returns the selected traces.
func (t *traceSeeder) selectTraces(ctx context.Context, s Selection) ([]candidate, error) {
	list := t.fromIDs(s)
	if len(s.IDs) == 0 {
		var err error
		if list, err = t.search(ctx, s); err != nil {
			return nil, fmt.Errorf("selecting traces: %w", err)
		}
	}
	if s.Sample > 0 && s.Stratify != "" {
		if err := t.stratify(ctx, list, s); err != nil {
			return nil, err
		}
	}
	if s.Sample > 0 {
		list = draw(list, s.Sample, s.Seed)
	}
	t.result.Selected = len(list)
	return list, nil
}

// fromIDs returns the traces with the given ids, each once.
func (t *traceSeeder) fromIDs(s Selection) (list []candidate) {
	seen := map[string]bool{}
	for _, id := range s.IDs {
		if seen[id] {
			t.warn(traceLabel(id), Repeated, "is named more than once; it is seeded once")
			continue
		}
		seen[id] = true
		c := candidate{id: id}
		// Langfuse accepts any text; this check finds slips.
		if dataset.ValidID(id) != nil || strings.ContainsAny(id, " /\\?#%&,\"<>") {
			c.err = refuse(BadTraceID, "", "is not a trace id: empty, too long, or of odd characters (OpenTelemetry has 32 of 0-9a-f)")
		}
		list = append(list, c)
		if s.Limit > 0 && len(list) == s.Limit {
			break
		}
	}
	return list
}

func (t *traceSeeder) warn(place string, kind Kind, format string, args ...any) {
	finding := Finding{Kind: kind, Message: fmt.Sprintf(format, args...)}
	t.result.Report.Warnings.add(dataset.Located{File: place}, finding)
}

// traceLabel names a trace in the place of a finding's file.
func traceLabel(id string) string { return "trace " + textutil.Cut(id, 80) }

// search asks the server for ids by queue and by scores, and for traces by everything else. A trace
// must be in all answers. Traces whose environment or name shows an experiment are left out and
// counted in a warning; queues and scores do not say what their traces are.
func (t *traceSeeder) search(ctx context.Context, s Selection) (list []candidate, err error) {
	var answers []iter.Seq2[string, error]
	experiments, leftOut := map[string]bool{}, 0
	if s.filtersTraces() {
		query := langfuse.TraceQuery{Name: s.Name, Tags: s.Tags, Environment: s.Environment, From: s.Since, To: s.Until}
		answers = append(answers, idsOf(t.client.ListTraces(ctx, t.traceReads, query, langfuse.TraceParts{}),
			func(trace langfuse.Trace) (string, error) {
				experiments[trace.ID] = experimentSign(trace) != ""
				return trace.ID, nil
			}))
	}
	if s.Queue != "" {
		queue, err := t.client.GetAnnotationQueue(ctx, s.Queue)
		if err != nil { // errors of Langfuse have an exit code already
			return nil, cli.WithCode(cli.ExitUsage, err)
		}
		observed := map[string]string{} // observation by trace
		answers = append(answers, idsOf(t.client.ListQueueItems(ctx, queue.ID, langfuse.QueueCompleted),
			func(item langfuse.QueueItem) (string, error) { return t.itemTrace(ctx, queue.Name, item, observed) }))
	}
	for _, rule := range s.Scores {
		query := langfuse.ScoresQuery{Limit: 100, Names: []string{rule.Name}}
		answers = append(answers, idsOf(t.client.ReadScores(ctx, t.server, query), func(s langfuse.Score) (string, error) {
			if !rule.holds(s) {
				return "", nil
			}
			return s.TraceID(), nil
		}))
	}
	matched := map[string]int{} // number of answers after the first that have the trace
	for i, ids := range answers[1:] {
		for id, err := range ids {
			if err != nil {
				return nil, err
			}
			if matched[id] == i {
				matched[id]++
			}
		}
	}
	for id, err := range answers[0] {
		if err != nil {
			return nil, err
		}
		if matched[id] == len(answers)-1 {
			if matched[id] = -1; experiments[id] {
				leftOut++
				continue
			}
			list = append(list, candidate{id: id})
		}
		if s.Limit > 0 && len(list) == s.Limit {
			break
		}
	}
	if leftOut > 0 {
		t.warn("the selection", ExperimentTrace, "%s of experiments left out: no item is made of them; "+
			"--corrections QUEUE takes what people said of them", textutil.Counted(leftOut, "trace"))
	}
	return list, nil
}

// idsOf yields the trace id of each element that has one.
func idsOf[T any](elements iter.Seq2[T, error], id func(T) (string, error)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for element, err := range elements {
			traceID := ""
			if err == nil {
				traceID, err = id(element)
			}
			if (err != nil || traceID != "") && !yield(traceID, err) {
				return
			}
		}
	}
}

// itemTrace returns the trace of a queue item. It refuses an item that leads to no trace, and
// warns of a second observation of the same trace. Both have no id and no error.
func (t *traceSeeder) itemTrace(ctx context.Context, queue string, item langfuse.QueueItem, observed map[string]string) (string, error) {
	place := fmt.Sprintf("queue %s: item %s", queue, item.ID)
	why := fmt.Sprintf("is about a %s, which cannot become an item", item.ObjectType)
	switch item.ObjectType {
	case langfuse.ObjectTrace:
		return item.ObjectID, nil
	case langfuse.ObjectObservation:
		found, err := t.client.FindObservation(ctx, t.traceReads, item.ObjectID)
		if err != nil && refusalOf(err) == nil {
			return "", err
		}
		first := observed[found.TraceID]
		if err == nil && (first == "" || first == item.ObjectID) {
			observed[found.TraceID] = item.ObjectID
			return found.TraceID, nil
		}
		if err == nil {
			t.warn(place, Repeated, "is about the observation %s of the trace %s, of which the queue has %s as well: "+
				"one item is made of a trace; a mapping with observation: {name: %q, type: %s} says which",
				item.ObjectID, found.TraceID, first, found.Name, found.Type)
			return "", nil
		}
		why = fmt.Sprintf("is about the observation %s, whose trace cannot be found: %v", item.ObjectID, err)
	}
	t.result.Report.Problems.add(dataset.Located{File: place}, Finding{Kind: UnknownTrace, Message: why})
	t.result.Refused++
	t.result.RefusedQueueItems++
	return "", nil
}

// stratify sets the stratum of each candidate: the text of a plain value, the canonical form of any
// other value, or "" without a value. It warns if no candidate has one.
func (t *traceSeeder) stratify(ctx context.Context, list []candidate, s Selection) error {
	path, _ := s.stratumPath() // validate parsed it
	at := map[string]int{}
	for i, c := range list {
		if c.err == nil {
			at[c.id] = i
		}
	}
	found := len(at) == 0
	want := langfuse.TraceParts{Metadata: true, ExpandMetadata: []string{path.steps[0].key}}
	for trace, err := range t.client.ReadTraces(ctx, t.traceReads, slices.Sorted(maps.Keys(at)), want) {
		if err != nil {
			return fmt.Errorf("reading the metadata of %d traces: %w", len(at), err)
		}
		metadata, _ := dataset.Decode(trace.Metadata) // metadata that cannot be decoded have no stratum
		if value, ok := path.Find(metadata); ok {
			found = true
			list[at[trace.ID]].stratum = cmp.Or(plainText(value), string(dataset.CanonicalValue(value)))
		}
	}
	if !found {
		t.warn("the sample", NoStratum, "no trace has a value of metadata.%s: the sample is spread over nothing", path)
	}
	return nil
}

// draw draws n candidates at random, from each stratum in proportion to its size. It shuffles the
// ids of a stratum, puts the k-th of m at (k−½)/m, and takes the first n of all, at equal places in
// the order of the names of strata (the Sainte-Laguë method). The result depends on the seed and on
// the set of ids, not on their order; it has the order of list. n ≥ len(list) takes all.
func draw(list []candidate, n int, seed uint64) []candidate {
	strata, at := map[string][]string{}, map[string]float64{}
	for _, c := range list {
		strata[c.stratum] = append(strata[c.stratum], c.id)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	var order []string
	for _, name := range slices.Sorted(maps.Keys(strata)) {
		ids := strata[name]
		slices.Sort(ids)
		rng.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
		for i, id := range ids {
			at[id] = (float64(i) + 0.5) / float64(len(ids))
		}
		order = append(order, ids...)
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(at[a], at[b]) })
	for _, id := range order[min(n, len(order)):] {
		delete(at, id)
	}
	return slices.DeleteFunc(slices.Clone(list), func(c candidate) bool { return at[c.id] == 0 })
}
