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

// Selection says which traces are seeded: those of IDs, or all that satisfy
// every other field. Empty fields select all.
type Selection struct {
	IDs []string

	Tags         []string // every one
	Name         string   // of the trace, on v4 also of its root
	Environment  string
	Since, Until time.Time // of the trace's start: [Since, Until)
	// Queue is the name or id of an annotation queue: the objects of its
	// completed items.
	Queue string
	// Scores must all be held by some score of the trace or its observations.
	Scores []ScoreRule

	// Limit takes the first so many (of ids as given, else the newest first); 0 all.
	Limit int
	// Sample draws so many of those at random; 0 takes all. The same Seed draws
	// the same of the same traces.
	Sample int
	Seed   uint64
	// Stratify is a path in the metadata of traces, such as "category": the
	// traces drawn are spread over its values as the selected ones are.
	Stratify string
}

// filters reports whether anything has to be asked of the traces themselves.
func (s Selection) filters() bool {
	return len(s.Tags) > 0 || s.Name != "" || s.Environment != "" || !s.Since.IsZero() || !s.Until.IsZero()
}

func (s Selection) validate() error {
	var problems []error
	wrong := func(bad bool, problem string) {
		if bad {
			problems = append(problems, errors.New(problem))
		}
	}
	narrowed := s.filters() || s.Queue != "" || len(s.Scores) > 0
	wrong(len(s.IDs) > 0 && narrowed, "traces are named by id or selected by what they are like, not both")
	wrong(len(s.IDs) == 0 && !narrowed, "no trace is named, and nothing says which ones are meant")
	wrong(s.Limit < 0 || s.Sample < 0, "limit and sample must not be negative")
	wrong(!s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until), "since is not before until")
	wrong(s.Stratify != "" && s.Sample == 0, "stratify says how a sample is spread: give the size of the sample as well")
	if s.Stratify != "" {
		_, err := s.stratum()
		problems = append(problems, err)
	}
	return cli.WithCode(cli.ExitUsage, errors.Join(problems...))
}

// stratum is the path of Stratify, below metadata.
func (s Selection) stratum() (Path, error) {
	return ParsePath(strings.TrimPrefix(strings.TrimPrefix(s.Stratify, "trace."), "metadata."))
}

// candidate is a trace that was selected.
type candidate struct {
	id      string
	stratum string
	bad     error // why it cannot be read: a *Finding

	// Once it is read:
	trace  langfuse.Trace
	scores []langfuse.Score
}

// choose returns the traces that are seeded.
func (t *traceSeeder) choose(ctx context.Context, s Selection) ([]candidate, error) {
	list := t.named(s)
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

// named returns the traces whose ids are given, each once.
func (t *traceSeeder) named(s Selection) (list []candidate) {
	seen := map[string]bool{}
	for _, id := range s.IDs {
		if seen[id] {
			t.warn(traceLabel(id), Repeated, "is named more than once; it is seeded once")
			continue
		}
		seen[id] = true
		list = append(list, candidate{id: id, bad: validTraceID(id)})
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

// traceLabel names a trace where a finding of a file names the file.
func traceLabel(id string) string { return "trace " + textutil.Cut(id, 80) }

// validTraceID refuses what cannot be the id of a trace. Langfuse takes any text
// for one; what is refused here are slips of a person.
func validTraceID(id string) error {
	if dataset.ValidID(id) == nil && !strings.ContainsAny(id, " /\\?#%&,\"<>") {
		return nil
	}
	return refuse(BadTraceID, "", "is not a trace id: empty, too long, or of odd characters (OpenTelemetry has 32 of 0-9a-f)")
}

// search asks the server: by queue and scores for ids, by everything else for
// traces; what both ask for must be in all answers.
func (t *traceSeeder) search(ctx context.Context, s Selection) (list []candidate, err error) {
	var answers []iter.Seq2[string, error]
	if s.filters() {
		query := langfuse.TraceQuery{Name: s.Name, Tags: s.Tags, Environment: s.Environment, From: s.Since, To: s.Until}
		answers = append(answers, idsOf(t.client.ListTraces(ctx, t.traces, query, langfuse.TraceParts{}),
			func(trace langfuse.Trace) (string, error) { return trace.ID, nil }))
	}
	if s.Queue != "" {
		queue, err := t.client.GetAnnotationQueue(ctx, s.Queue)
		if err != nil { // an error of Langfuse has a code, an unknown name none
			return nil, cli.WithCode(cli.ExitUsage, err)
		}
		observed := map[string]string{} // observation by trace
		answers = append(answers, idsOf(t.client.ListQueueItems(ctx, queue.ID, langfuse.QueueCompleted),
			func(item langfuse.QueueItem) (string, error) { return t.traceOf(ctx, queue.Name, item, observed) }))
	}
	for _, rule := range s.Scores {
		query := langfuse.ScoresQuery{Limit: 100, Names: []string{rule.Name}}
		answers = append(answers, idsOf(t.client.ReadScores(ctx, t.server, query), rule.traceID))
	}
	in := map[string]int{} // how many answers from the second on have it
	for i, ids := range answers[1:] {
		for id, err := range ids {
			if err != nil {
				return nil, err
			}
			if in[id] == i {
				in[id]++
			}
		}
	}
	for id, err := range answers[0] {
		if err != nil {
			return nil, err
		}
		if in[id] == len(answers)-1 {
			list = append(list, candidate{id: id})
			in[id] = -1
		}
		if s.Limit > 0 && len(list) == s.Limit {
			break
		}
	}
	return list, nil
}

// idsOf gives the id of a trace for each element that has one.
func idsOf[T any](elements iter.Seq2[T, error], of func(T) (string, error)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for element, err := range elements {
			id := ""
			if err == nil {
				id, err = of(element)
			}
			if (err != nil || id != "") && !yield(id, err) {
				return
			}
		}
	}
}

// traceOf returns the trace of an item of a queue. One that leads to no trace is
// refused by name, and of two observations of a trace the second is named.
func (t *traceSeeder) traceOf(ctx context.Context, queue string, item langfuse.QueueItem, observed map[string]string) (string, error) {
	place := fmt.Sprintf("queue %s: item %s", queue, item.ID)
	why := fmt.Sprintf("is about a %s, of which no item can be made", item.ObjectType)
	switch item.ObjectType {
	case langfuse.ObjectTrace:
		return item.ObjectID, nil
	case langfuse.ObjectObservation:
		found, err := t.client.FindObservation(ctx, t.traces, item.ObjectID)
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

// traceID is the trace of a score that the rule holds of.
func (r ScoreRule) traceID(s langfuse.Score) (string, error) {
	if !r.holds(s) {
		return "", nil
	}
	return s.TraceID(), nil
}

// stratify finds the stratum of each candidate: the text of a plain value, the
// canonical form of any other, nothing where there is none. It warns if there is none
// of any.
func (t *traceSeeder) stratify(ctx context.Context, list []candidate, s Selection) error {
	path, _ := s.stratum() // it is valid
	at := map[string]int{}
	for i, c := range list {
		if c.bad == nil {
			at[c.id] = i
		}
	}
	found := len(at) == 0
	want := langfuse.TraceParts{Metadata: true, ExpandMetadata: []string{path.steps[0].key}}
	for trace, err := range t.client.ReadTraces(ctx, t.traces, slices.Sorted(maps.Keys(at)), want) {
		if err != nil {
			return fmt.Errorf("reading the metadata of %d traces: %w", len(at), err)
		}
		metadata, _ := dataset.Decode(trace.Metadata) // what is none has no stratum
		if value, ok := path.Find(metadata); ok {
			found = true
			list[at[trace.ID]].stratum = cmp.Or(spelled(value), string(dataset.CanonicalValue(value)))
		}
	}
	if !found {
		t.warn("the sample", NoStratum, "no trace has a value of metadata.%s: the sample is spread over nothing", path)
	}
	return nil
}

// draw takes n candidates at random, of each stratum as its share of all asks for:
// the ids of a stratum are shuffled, the k-th of m is at (k−½)/m, and those that
// are first are taken, of equals the first stratum by name (the method of
// Sainte-Laguë). Which ones are drawn depends on the seed and on the set of ids, not
// on their order; they come back in the order given. n ≥ len(list) takes all.
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
