package seed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	text := s.Stratify
	for _, prefix := range []string{"$.", "trace.", "metadata."} {
		text = strings.TrimPrefix(text, prefix)
	}
	return ParsePath(text)
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

// candidates returns the traces selected, each once, and what there is to say about
// those that were named twice.
func (r *reader) candidates(ctx context.Context, s Selection) ([]candidate, []Finding, error) {
	if len(s.IDs) == 0 {
		list, findings, err := r.search(ctx, s)
		if err != nil {
			return nil, nil, fmt.Errorf("selecting traces: %w", err)
		}
		return list, findings, nil
	}
	seen := map[string]bool{}
	var list []candidate
	var repeated []Finding
	for _, id := range s.IDs {
		if seen[id] {
			repeated = append(repeated, Finding{Kind: Repeated, File: traceLabel(id), Message: "is named more than once; it is seeded once"})
			continue
		}
		seen[id] = true
		list = append(list, candidate{id: id, bad: validTraceID(id)})
		if s.Limit > 0 && len(list) == s.Limit {
			break
		}
	}
	return list, repeated, nil
}

// traceLabel names a trace where a finding of a file names the file.
func traceLabel(id string) string { return "trace " + textutil.Cut(id, 80) }

// validTraceID refuses what cannot be the id of a trace. Langfuse takes any text
// for one; what is refused here are slips of a person.
func validTraceID(id string) error {
	err := dataset.ValidID(id)
	switch {
	case err != nil:
		return refuse(BadTraceID, "", "is no trace id: it %v", err)
	case strings.ContainsAny(id, " \t\n/\\?#%&,\"<>"):
		return refuse(BadTraceID, "", "is no trace id: it has characters that no id has; ids of OpenTelemetry are 32 of 0-9a-f")
	}
	return nil
}

// search asks the server: by queue and scores for ids, by everything else for
// traces; what both ask for must be in all answers.
func (r *reader) search(ctx context.Context, s Selection) (list []candidate, findings []Finding, err error) {
	var answers [][]string // of queue and scores
	if s.Queue != "" {
		ids, skipped, err := r.inQueue(ctx, s.Queue)
		if err != nil {
			return nil, nil, err
		}
		answers, findings = append(answers, ids), skipped
	}
	for _, rule := range s.Scores {
		ids, err := r.scored(ctx, rule)
		if err != nil {
			return nil, nil, err
		}
		answers = append(answers, ids)
	}
	in := map[string]int{} // how many answers from the first on have it
	for i, ids := range answers {
		for _, id := range ids {
			if in[id] == i {
				in[id]++
			}
		}
	}
	if !s.filters() {
		for _, id := range answers[0] {
			if in[id] == len(answers) && (s.Limit == 0 || len(list) < s.Limit) {
				list = append(list, candidate{id: id})
				in[id] = 0
			}
		}
		return list, findings, nil
	}
	query := langfuse.TraceQuery{Name: s.Name, Tags: s.Tags, From: s.Since, To: s.Until}
	if s.Environment != "" {
		query.Environments = []string{s.Environment}
	}
	for trace, err := range r.client.ListTraces(ctx, r.traces, query, langfuse.TraceParts{}) {
		if err != nil {
			return nil, nil, err
		}
		if in[trace.ID] == len(answers) {
			list = append(list, candidate{id: trace.ID})
		}
		if s.Limit > 0 && len(list) == s.Limit {
			break
		}
	}
	return list, findings, nil
}

// inQueue returns the traces of a queue's completed items, the newest first.
func (r *reader) inQueue(ctx context.Context, name string) (ids []string, findings []Finding, err error) {
	queue, err := r.client.GetAnnotationQueue(ctx, name)
	if errors.Is(err, langfuse.ErrNotFound) {
		return nil, nil, cli.WithCode(cli.ExitUsage, err)
	}
	if err != nil {
		return nil, nil, err
	}
	observed := map[string]string{} // observation by trace
	for item, err := range r.client.ListQueueItems(ctx, queue.ID, langfuse.QueueCompleted) {
		if err != nil {
			return nil, nil, err
		}
		skip := func(kind Kind, format string, args ...any) {
			findings = append(findings, Finding{Kind: kind, File: fmt.Sprintf("queue %s: item %s", queue.Name, item.ID), Message: fmt.Sprintf(format, args...)})
		}
		switch item.ObjectType {
		case langfuse.ObjectTrace:
			ids = append(ids, item.ObjectID)
		case langfuse.ObjectObservation:
			found, err := r.client.FindObservation(ctx, r.traces, item.ObjectID)
			first := observed[found.TraceID]
			switch {
			case err != nil && refusalOf(err) == nil:
				return nil, nil, err
			case err != nil:
				skip(UnknownTrace, "is about the observation %s, whose trace cannot be found: %v", item.ObjectID, err)
			case first != "" && first != item.ObjectID:
				skip(Repeated, "is about the observation %s of the trace %s, of which the queue has %s as well: one item is made of a trace; "+
					"a mapping with observation: {name: %q, type: %s} says which", item.ObjectID, found.TraceID, first, found.Name, found.Type)
			default:
				observed[found.TraceID] = item.ObjectID
				ids = append(ids, found.TraceID)
			}
		default:
			skip(UnknownTrace, "is about a %s, of which no item can be made", item.ObjectType)
		}
	}
	return ids, findings, nil
}

// scored returns the traces with a score that the rule holds of.
func (r *reader) scored(ctx context.Context, rule ScoreRule) ([]string, error) {
	query := langfuse.ScoresQuery{Limit: 100, Names: []string{rule.Name}}
	var ids []string
	for score, err := range r.client.ReadScores(ctx, r.server, query) {
		if err != nil {
			return nil, err
		}
		if id := score.TraceID(); id != "" && rule.holds(score) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// stratify finds the stratum of each candidate: the text of a plain value, the
// canonical form of any other, nothing where there is none. It reports whether
// there was any.
func (r *reader) stratify(ctx context.Context, list []candidate, path Path) (bool, error) {
	at := map[string]int{}
	var ids []string
	for i, c := range list {
		if c.bad == nil {
			at[c.id] = i
			ids = append(ids, c.id)
		}
	}
	found := len(ids) == 0
	want := langfuse.TraceParts{Metadata: true, ExpandMetadata: []string{path.steps[0].key}}
	for trace, err := range r.client.ReadTraces(ctx, r.traces, ids, want) {
		if err != nil {
			return false, fmt.Errorf("reading the metadata of %d traces: %w", len(ids), err)
		}
		metadata, _ := dataset.Decode(trace.Metadata) // what is none has no stratum
		if value, ok := path.Find(metadata); ok {
			found = true
			list[at[trace.ID]].stratum = cmp.Or(spelled(value), string(dataset.CanonicalValue(value)))
		}
	}
	return found, nil
}

// draw takes n candidates at random, of each stratum as its share of all asks for:
// the ids of a stratum are shuffled, the k-th of m stands at (k−½)/m, and those that
// stand first are taken, of equals the first stratum by name (the method of
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
