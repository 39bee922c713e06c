package langfuse

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxListed is how many ids one query names: their text must fit into a URL
// that every proxy lets pass.
const maxListed = 50

// ReadScores yields the scores that match, each id once, through whichever
// endpoint the server has: v3/scores, which takes lists of ids; on servers
// before 3.179 v2/scores, or for scores of traces one request per trace. Lists
// of any length are asked for in parts. The order is the server's within a part.
// Retried; the first error ends the iteration.
//
// API: GET /api/public/v3/scores; GET /api/public/v2/scores and /traces/{id}
func (c *Client) ReadScores(ctx context.Context, server Capabilities, q ScoresQuery) iter.Seq2[Score, error] {
	return func(yield func(Score, error) bool) {
		seen := map[string]bool{}
		for ids := range parts(q.IDs) {
			for traces := range parts(q.TraceIDs) {
				part := q
				part.IDs, part.TraceIDs = ids, traces
				for score, err := range c.readScores(ctx, server, part) {
					if err == nil && (seen[score.ID] || !q.matches(score)) {
						continue
					}
					seen[score.ID] = true
					if !yield(score, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// parts cuts a list into lists that fit into a query; the empty list is one part.
func parts(list []string) iter.Seq[[]string] {
	if len(list) == 0 {
		return func(yield func([]string) bool) { yield(nil) }
	}
	return slices.Chunk(list, maxListed)
}

func (c *Client) readScores(ctx context.Context, server Capabilities, q ScoresQuery) iter.Seq2[Score, error] {
	switch {
	case server.ScoresV3():
		return c.ListScores(ctx, q)
	case len(q.TraceIDs) > 0:
		return c.listTraceScores(ctx, q.TraceIDs)
	}
	return c.listScoresV2(ctx, q)
}

// listTraceScores reads the scores of traces with the traces: v2/scores has no
// reliable filter for them on the servers that need this. A trace that is not
// there has none.
func (c *Client) listTraceScores(ctx context.Context, ids []string) iter.Seq2[Score, error] {
	return func(yield func(Score, error) bool) {
		for _, id := range ids {
			trace, err := c.getLegacyTrace(ctx, id)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				yield(Score{}, err)
				return
			}
			for _, score := range trace.Scores {
				if !yield(score, nil) {
					return
				}
			}
		}
	}
}

// listScoresV2 asks for what v2/scores can select; ReadScores leaves out the
// rest.
func (c *Client) listScoresV2(ctx context.Context, q ScoresQuery) iter.Seq2[Score, error] {
	query := url.Values{}
	setList(query, "scoreIds", q.IDs)
	if len(q.Names) == 1 {
		query.Set("name", q.Names[0])
	}
	setText(query, "datasetRunId", q.ExperimentID)
	setText(query, "source", q.Source)
	setText(query, "dataType", string(q.Type))
	setText(query, "queueId", q.QueueID)
	setTime(query, "fromTimestamp", q.From)
	setTime(query, "toTimestamp", q.To)
	return listPages[Score](ctx, c, "v2/scores", query, q.Limit)
}

// matches reports whether a score is among those asked for. Servers ignore what
// they do not know in a query, and answer more.
func (q ScoresQuery) matches(s Score) bool {
	in := func(list []string, text string) bool { return len(list) == 0 || slices.Contains(list, text) }
	is := func(want, text string) bool { return want == "" || want == text }
	number, isNumber := s.Value.Number()
	switch {
	case !in(q.IDs, s.ID), !in(q.Names, s.Name), !in(q.TraceIDs, s.TraceID()), !in(q.Environments, s.Environment):
		return false
	case q.ExperimentID != "" && (s.Subject.Kind != "experiment" || s.Subject.ID != q.ExperimentID):
		return false
	case q.ObservationID != "" && (s.Subject.Kind != "observation" || s.Subject.ID != q.ObservationID):
		return false
	case !is(strings.ToUpper(q.Source), s.Source), !is(string(q.Type), string(s.Type)), !is(q.QueueID, s.QueueID):
		return false
	case q.Value != "" && s.Value != s.Type.parse(q.Value):
		return false
	case q.Min != nil && (!isNumber || number < *q.Min), q.Max != nil && (!isNumber || number > *q.Max):
		return false
	}
	return within(s.Timestamp, q.From, q.To)
}

// within reports whether at lies in [from, to), to the millisecond that servers
// keep; a zero bound is none.
func within(at, from, to time.Time) bool {
	return (from.IsZero() || !at.Before(from.Truncate(time.Millisecond))) && (to.IsZero() || at.Before(to))
}

// ListRunScores yields the scores of a run itself (not of its items), each once.
//
// API: as ReadScores
func (c *Client) ListRunScores(ctx context.Context, server Server, ref RunRef) iter.Seq2[Score, error] {
	return func(yield func(Score, error) bool) {
		id, err := c.RunID(ctx, server, ref)
		if errors.Is(err, ErrNotFound) {
			return
		}
		if err != nil {
			yield(Score{}, err)
			return
		}
		for score, err := range c.ReadScores(ctx, server.Capabilities, ScoresQuery{ExperimentID: id, Limit: maxPageLimit}) {
			if err != nil {
				err = fmt.Errorf("scores of run %q: %w", orDefault(ref.Name, id), err)
			}
			if !yield(score, err) {
				return
			}
		}
	}
}
