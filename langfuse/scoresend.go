package langfuse

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"extraction-experiment/internal/textutil"
)

// Bounds of one request of CreateScores. The web server writes one object per
// event before it answers, so long batches time out; the byte bound is that of
// the official SDKs.
const (
	maxScoreEvents = 100
	maxScoreBytes  = 2500 << 10
)

// ScoreState says what became of one score that was sent.
type ScoreState int

// The states of a score that was sent.
const (
	// ScoreUnknown: it may or may not have arrived, or was not sent: send it
	// again, unchanged.
	ScoreUnknown ScoreState = iota
	// ScoreAccepted: it is queued to be stored.
	ScoreAccepted
	// ScoreRefused: it will never be accepted as it is.
	ScoreRefused
)

// String returns the state in one word.
func (s ScoreState) String() string {
	return [...]string{"unknown", "accepted", "refused"}[s]
}

// ScoreResult is what became of one score.
type ScoreResult struct {
	ID    string // of the score
	State ScoreState
	Err   error // why it is not accepted; a *ScoreError where the server says so
}

// ScoreError is what the server answers to one score of several.
type ScoreError struct {
	Name string
	Err  error
}

// Error names the score.
func (e *ScoreError) Error() string { return fmt.Sprintf("langfuse: score %q: %v", e.Name, e.Err) }

// Unwrap returns the answer.
func (e *ScoreError) Unwrap() error { return e.Err }

// scoreEvent is one score on its way: its envelope's id, its JSON, its place in
// the results.
type scoreEvent struct {
	id    string
	name  string // of the score
	json  json.RawMessage
	index int
}

// CreateScores sends scores in as few requests as the bounds allow (100 events,
// 2.5 MB) and returns one result per score, in the same order.
//
// The error is that of the first request that failed as a whole, after its
// repetitions; the scores of that request and of those not sent stand as
// ScoreUnknown. Scores refused one by one are no error of the call: look at the
// results. Everything is a function of the scores, so calling again with the
// same ones changes nothing that a read shows. Retried with the same bytes. A
// request that something on the way finds too large is sent in halves; where
// the endpoint is gone each score is sent on its own.
//
// API: POST /api/public/ingestion, else POST /api/public/scores
func (c *Client) CreateScores(ctx context.Context, scores []ScoreCreate) ([]ScoreResult, error) {
	results := make([]ScoreResult, len(scores))
	events := newScoreEvents(scores, results)
	for len(events) > 0 {
		n := nextScoreBatch(events)
		if err := c.deliver(ctx, scores, events[:n], results); err != nil {
			err = fmt.Errorf("sending %d scores: %w", n, err)
			for _, event := range events {
				if results[event.index].State == ScoreUnknown {
					results[event.index].Err = err
				}
			}
			return results, err
		}
		events = events[n:]
	}
	return results, nil
}

// newScoreEvents encodes the scores; those that cannot be sent are refused in
// the results.
func newScoreEvents(scores []ScoreCreate, results []ScoreResult) []scoreEvent {
	events := make([]scoreEvent, 0, len(scores))
	used := make(map[string]bool, len(scores))
	for i, score := range scores {
		results[i].ID = score.ID
		event, err := newScoreEvent(score)
		if err == nil && used[event.id] {
			err = fmt.Errorf("score %q (%s): its id and timestamp are there twice: the answers could not be told apart", score.Name, score.ID)
		}
		if err != nil {
			results[i].State, results[i].Err = ScoreRefused, err
			continue
		}
		used[event.id] = true
		event.index = i
		events = append(events, event)
	}
	return events
}

// newScoreEvent wraps a score in its envelope. The envelope's id is a function
// of the score's id and time: a repetition has the same one, a changed score
// sent at a later time another.
func newScoreEvent(score ScoreCreate) (scoreEvent, error) {
	if err := score.Validate(); err != nil {
		return scoreEvent{}, err
	}
	if score.Timestamp.Year() < 1970 || score.Timestamp.Year() > 9999 {
		return scoreEvent{}, fmt.Errorf("score %q (%s): it needs a timestamp", score.Name, score.ID)
	}
	at := FormatTime(score.Timestamp)
	sum := sha256.Sum256([]byte(score.ID + "\n" + at))
	event := scoreEvent{id: hex.EncodeToString(sum[:16]), name: score.Name}
	encoded, err := score.appendEvent(make([]byte, 0, 512+len(score.Comment)+len(score.Metadata)), event.id, at)
	if err != nil {
		return scoreEvent{}, fmt.Errorf("score %q (%s): %w", score.Name, score.ID, err)
	}
	if len(encoded) > maxScoreBytes {
		return scoreEvent{}, fmt.Errorf("score %q (%s): %d bytes: %w", score.Name, score.ID, len(encoded), ErrTooLarge)
	}
	event.json = encoded
	return event, nil
}

// appendEvent appends the envelope with the score in it: what encoding/json writes of
// both, without its reflection.
func (s ScoreCreate) appendEvent(b []byte, id, at string) ([]byte, error) {
	value, err := s.Value.MarshalJSON()
	var metadata []byte
	if err == nil && len(s.Metadata) > 0 {
		metadata, err = textutil.CompactJSON(s.Metadata)
	}
	if err != nil {
		return nil, err
	}
	w := textutil.JSONWriter{B: append(b, '{')}
	w.Text("id", id)
	w.Text("type", "score-create")
	w.Text("timestamp", at)
	w.Open("body")
	w.Text("id", s.ID)
	w.Text("name", s.Name)
	w.Raw("value", value)
	w.TextIf("dataType", string(s.Type))
	w.TextIf("traceId", s.TraceID)
	w.TextIf("observationId", s.ObservationID)
	w.TextIf("datasetRunId", s.DatasetRunID)
	w.TextIf("comment", s.Comment)
	w.Raw("metadata", metadata)
	w.TextIf("environment", s.Environment)
	w.Close()
	w.Close()
	return w.B, nil
}

// nextScoreBatch returns how many of the events fit into one request: at least
// one.
func nextScoreBatch(events []scoreEvent) int {
	bytes := 0
	for i, event := range events[:min(len(events), maxScoreEvents)] {
		if bytes += len(event.json) + 1; bytes > maxScoreBytes && i > 0 {
			return i
		}
	}
	return min(len(events), maxScoreEvents)
}

// sendScores sends one request and files the answer per event.
func (c *Client) sendScores(ctx context.Context, events []scoreEvent, results []ScoreResult) error {
	size := len(`{"batch":[]}`)
	for _, event := range events {
		size += len(event.json) + 1
	}
	body := append(make([]byte, 0, size), `{"batch":[`...)
	for i, event := range events {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, event.json...)
	}
	body = append(body, "]}"...)
	var answer ingestionAnswer
	if _, err := c.do(ctx, request{method: http.MethodPost, path: "ingestion", body: body}, &answer); err != nil {
		return err
	}
	states := answer.states()
	for _, event := range events {
		result := states[event.id]
		if result.Err != nil {
			result.Err = &ScoreError{event.name, c.redactError(result.Err)}
		}
		result.ID = results[event.index].ID
		if result.State == ScoreUnknown && result.Err == nil {
			result.Err = &ScoreError{event.name, errors.New("the answer does not mention it")}
		}
		results[event.index] = result
	}
	return nil
}

// redactError returns the error as text without keys.
func (c *Client) redactError(err error) error { return errors.New(c.redact(err.Error())) }

// deliver sends events in one request; in halves where that is too large, and one
// by one where the server no longer takes batches.
func (c *Client) deliver(ctx context.Context, scores []ScoreCreate, events []scoreEvent, results []ScoreResult) error {
	err := c.sendScores(ctx, events, results)
	switch {
	case errors.Is(err, ErrTooLarge) && len(events) > 1:
		half := len(events) / 2
		if err := c.deliver(ctx, scores, events[:half], results); err != nil {
			return err
		}
		return c.deliver(ctx, scores, events[half:], results)
	case errors.Is(err, ErrTooLarge):
		refuse(&results[events[0].index], err)
		return nil
	case errors.Is(err, ErrEndpointGone):
		return c.sendSingly(ctx, scores, events, results)
	}
	return err
}

// sendSingly sends each score on its own. One that the server refuses for what
// it is does not stop the others.
func (c *Client) sendSingly(ctx context.Context, scores []ScoreCreate, events []scoreEvent, results []ScoreResult) error {
	for _, event := range events {
		err := c.CreateScore(ctx, scores[event.index])
		var answer *APIError
		switch {
		case err == nil:
			results[event.index] = ScoreResult{ID: results[event.index].ID, State: ScoreAccepted}
		case errors.As(err, &answer) && answer.ExitCode() == 64:
			refuse(&results[event.index], err)
		default:
			return err
		}
	}
	return nil
}

func refuse(result *ScoreResult, err error) { result.State, result.Err = ScoreRefused, err }

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
	return onceEach(func(yield func(Score, error) bool) {
		for ids := range parts(q.IDs) {
			for traces := range parts(q.TraceIDs) {
				part := q
				part.IDs, part.TraceIDs = ids, traces
				for score, err := range c.readScores(ctx, server, part) {
					if err == nil && !q.matches(score) {
						continue
					}
					if !yield(score, err) || err != nil {
						return
					}
				}
			}
		}
	}, func(s Score) string { return s.ID })
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
	return listPages[Score](ctx, c, "v2/scores", query, q.Limit)
}

// matches reports whether a score is among those asked for. Servers ignore what
// they do not know in a query, and answer more.
func (q ScoresQuery) matches(s Score) bool {
	in := func(list []string, text string) bool { return len(list) == 0 || slices.Contains(list, text) }
	return in(q.IDs, s.ID) && in(q.Names, s.Name) && in(q.TraceIDs, s.TraceID()) &&
		(q.ExperimentID == "" || s.Subject.Kind == "experiment" && s.Subject.ID == q.ExperimentID)
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
				err = fmt.Errorf("scores of run %q: %w", cmp.Or(ref.Name, id), err)
			}
			if !yield(score, err) {
				return
			}
		}
	}
}
