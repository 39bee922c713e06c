package seed

import (
	"context"
	"errors"
	"fmt"

	"extraction-experiment/langfuse"
)

// inQueue returns the traces of a queue's completed items, the newest first.
func (r *reader) inQueue(ctx context.Context, name string) ([]string, []Finding, error) {
	queue, err := r.client.GetAnnotationQueue(ctx, name)
	if errors.Is(err, langfuse.ErrNotFound) {
		return nil, nil, malformed("there is no annotation queue %q in this project", name)
	}
	if err != nil {
		return nil, nil, err
	}
	var ids []string
	var findings []Finding
	skip := func(item langfuse.QueueItem, format string, args ...any) {
		findings = append(findings, Finding{Kind: UnknownTrace, File: fmt.Sprintf("queue %s: item %s", queue.Name, item.ID), Message: fmt.Sprintf(format, args...)})
	}
	for item, err := range r.client.ListQueueItems(ctx, queue.ID, langfuse.QueueCompleted) {
		if err != nil {
			return nil, nil, err
		}
		switch item.ObjectType {
		case langfuse.ObjectTrace:
			ids = append(ids, item.ObjectID)
		case langfuse.ObjectObservation:
			found, err := r.client.FindObservation(ctx, r.server, item.ObjectID)
			if err != nil && r.refusalOf(err) == nil {
				return nil, nil, err
			}
			if err != nil {
				skip(item, "is about the observation %s, whose trace cannot be found: %v", item.ObjectID, err)
				continue
			}
			ids = append(ids, found.TraceID)
		default:
			skip(item, "is about a %s, of which no item can be made", item.ObjectType)
		}
	}
	return ids, findings, nil
}

// scored returns the traces with a score that the rule holds of.
func (r *reader) scored(ctx context.Context, rule ScoreRule) ([]string, error) {
	var ids []string
	for score, err := range r.client.ReadScores(ctx, r.server, rule.narrowed(langfuse.ScoresQuery{Limit: 100})) {
		if err != nil {
			return nil, err
		}
		if id := score.TraceID(); id != "" && rule.Holds(score) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// stratify finds the stratum of each candidate: the text of a plain value, the
// canonical form of any other, nothing where there is none.
func (r *reader) stratify(ctx context.Context, list []candidate, path Path) error {
	at := map[string]int{}
	var ids []string
	for i, c := range list {
		if c.bad == nil {
			at[c.id] = i
			ids = append(ids, c.id)
		}
	}
	want := langfuse.TraceParts{Metadata: true, ExpandMetadata: []string{path.steps[0].key}}
	for trace, err := range r.client.ReadTraces(ctx, r.server, ids, want) {
		if err != nil {
			return fmt.Errorf("reading the metadata of %d traces: %w", len(ids), err)
		}
		list[at[trace.ID]].stratum = stratumOf(trace, path)
	}
	return nil
}

// search asks the server: by queue and scores for ids, by everything else for
// traces; what both ask for must be in all answers.
func (r *reader) search(ctx context.Context, s Selection) ([]candidate, []Finding, error) {
	var sets [][]string
	var findings []Finding
	if s.Queue != "" {
		ids, found, err := r.inQueue(ctx, s.Queue)
		if err != nil {
			return nil, nil, err
		}
		sets, findings = append(sets, ids), found
	}
	for _, rule := range s.Scores {
		ids, err := r.scored(ctx, rule)
		if err != nil {
			return nil, nil, err
		}
		sets = append(sets, ids)
	}
	var list []candidate
	wanted := intersection(sets)
	if !s.filters() {
		for _, id := range sets[0] {
			if wanted[id] && (s.Limit == 0 || len(list) < s.Limit) {
				list = append(list, candidate{id: id})
				delete(wanted, id)
			}
		}
		return list, findings, nil
	}
	query := langfuse.TraceQuery{Name: s.Name, Tags: s.Tags, From: s.Since, To: s.Until}
	if s.Environment != "" {
		query.Environments = []string{s.Environment}
	}
	for trace, err := range r.client.ListTraces(ctx, r.server, query, langfuse.TraceParts{}) {
		if err != nil {
			return nil, nil, err
		}
		if len(sets) > 0 && !wanted[trace.ID] {
			continue
		}
		if list = append(list, candidate{id: trace.ID}); len(list) == s.Limit {
			break
		}
	}
	return list, findings, nil
}

// intersection returns what is in all lists.
func intersection(sets [][]string) map[string]bool {
	in := map[string]int{}
	for i, set := range sets {
		for _, id := range set {
			if in[id] == i {
				in[id]++
			}
		}
	}
	all := map[string]bool{}
	for id, n := range in {
		if n == len(sets) {
			all[id] = true
		}
	}
	return all
}
