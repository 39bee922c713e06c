package langfuse

import (
	"bytes"
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

// Limits for one request of CreateScores. The server writes one object per event before it
// responds, so large batches time out. The official SDKs use the same limit in bytes.
const (
	maxScoreEvents = 100
	maxScoreBytes  = 2500 << 10
)

// ErrRefused matches a *ScoreError if the server will never accept the score unchanged. A score
// with any other error was not sent, or may or may not have arrived: send it again, unchanged.
var ErrRefused = errors.New("refused")

// ScoreError is the reason why one score of a CreateScores call was not accepted.
type ScoreError struct {
	Name    string
	Refused bool // see ErrRefused
	Err     error
}

// Error includes the name of the score and the reason.
func (e *ScoreError) Error() string { return fmt.Sprintf("langfuse: score %q: %v", e.Name, e.Err) }

// Unwrap returns Err.
func (e *ScoreError) Unwrap() error { return e.Err }

// Is reports whether target is ErrRefused and the score is refused.
func (e *ScoreError) Is(target error) bool { return e.Refused && target == ErrRefused }

// scoreEvent is one score of a CreateScores call.
type scoreEvent struct {
	id     string          // of the envelope
	json   json.RawMessage // the envelope with the score
	score  *ScoreCreate
	result *error // the element of the results of CreateScores
}

// refuse sets a result that matches ErrRefused.
func (e *scoreEvent) refuse(err error) { *e.result = &ScoreError{e.score.Name, true, err} }

// size returns the bytes of the event in a request, with a comma.
func (e scoreEvent) size() int { return len(e.json) + 1 }

// pending reports whether the score is neither accepted nor refused yet.
func (e scoreEvent) pending() bool { return *e.result != nil && !errors.Is(*e.result, ErrRefused) }

// errNotSent is the result of a score before it is sent.
var errNotSent = errors.New("it was not sent")

// CreateScores sends scores in as few requests as possible (at most 100 scores and 2.5 MB per
// request) and returns one result per score, in the same order. nil means that the score is
// queued. A *ScoreError means that the server, or Validate, did not accept this score. Any
// other error is that of the first request that failed entirely after its retries; CreateScores
// sends nothing after it.
//
// Safe to repeat: the requests depend only on the scores, so a call with the same scores does
// not change what reads return. Retried with the same bytes; if the server accepted a part of a
// request, only the rest is retried. If a request is too large for the server or a proxy, it is
// split in halves. If the server lacks the endpoint, every score is sent in a request of its
// own.
//
// API: POST /api/public/ingestion, else POST /api/public/scores
func (c *Client) CreateScores(ctx context.Context, scores []ScoreCreate) []error {
	results := make([]error, len(scores))
	events := newScoreEvents(scores, results)
	for batch := range batches(events, maxScoreBytes, maxScoreEvents, scoreEvent.size) {
		if err := c.deliver(ctx, batch); err != nil {
			err = fmt.Errorf("sending %s: %w", textutil.Counted(len(batch), "score"), err)
			for _, event := range events {
				if event.pending() {
					*event.result = err
				}
			}
			break
		}
		events = events[len(batch):]
	}
	return results
}

// newScoreEvents encodes the scores and refuses those that cannot be sent.
func newScoreEvents(scores []ScoreCreate, results []error) []scoreEvent {
	events := make([]scoreEvent, 0, len(scores))
	seen := make(map[string]bool, len(scores))
	for i := range scores {
		results[i] = errNotSent
		event := scoreEvent{score: &scores[i], result: &results[i]}
		err := event.encode()
		if err == nil && seen[event.id] {
			err = errors.New("its id and timestamp appear twice: the answers could not be told apart")
		}
		if err != nil {
			event.refuse(&UsageError{err})
			continue
		}
		seen[event.id] = true
		events = append(events, event)
	}
	return events
}

// encode sets the id and the JSON of the event. The id depends on the id and the timestamp of
// the score: a repetition has the same id, and a changed score with a later timestamp has
// another.
func (e *scoreEvent) encode() error {
	if err := e.score.Validate(); err != nil {
		return err
	}
	if year := e.score.Timestamp.Year(); year < 1970 || year > 9999 {
		return errors.New("it needs a timestamp")
	}
	at := FormatTime(e.score.Timestamp)
	sum := sha256.Sum256([]byte(e.score.ID + "\n" + at))
	e.id = hex.EncodeToString(sum[:16])
	buf := make([]byte, 0, 512+len(e.score.Comment)+len(e.score.Metadata))
	if e.json = e.score.appendEvent(buf, e.id, at); len(e.json) > maxScoreBytes {
		return fmt.Errorf("%d bytes: %w", len(e.json), ErrTooLarge)
	}
	return nil
}

// appendEvent appends the envelope with the valid score, as encoding/json would write both, but
// without reflection.
func (s *ScoreCreate) appendEvent(b []byte, id, at string) []byte {
	value, _ := s.Value.MarshalJSON() // Validate has checked value and metadata
	var metadata []byte
	if len(s.Metadata) > 0 {
		metadata, _ = textutil.CompactJSON(s.Metadata)
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
	return w.B
}

// sendScores sends the events in one request and sets their results.
func (c *Client) sendScores(ctx context.Context, events []scoreEvent) error {
	texts := make([][]byte, len(events))
	for i, event := range events {
		texts[i] = event.json
	}
	r := post("ingestion")
	r.body = slices.Concat([]byte(`{"batch":[`), bytes.Join(texts, []byte{','}), []byte("]}"))
	var answer ingestionAnswer
	if _, err := c.do(ctx, r, &answer); err != nil {
		return err
	}
	failures := answer.failures()
	for _, event := range events {
		failed, mentioned := failures[event.id]
		switch {
		case !mentioned:
			*event.result = &ScoreError{event.score.Name, false, errors.New("the answer does not mention it")}
		case failed == nil:
			*event.result = nil
		default:
			*event.result = &ScoreError{event.score.Name, failed.Refused, errors.New(c.redact(failed.Err.Error()))}
		}
	}
	return nil
}

// ingestionAnswer is the body of a response with status 207.
type ingestionAnswer struct {
	Successes []struct {
		ID string `json:"id"`
	} `json:"successes"`
	Errors []struct {
		ID      string          `json:"id"`
		Status  Number          `json:"status"`
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
	} `json:"errors"`
}

// failures returns the error of every event in the response by the id of its envelope, nil if
// the event was accepted. An event in both lists counts as failed. Temporary failures (408,
// 429, 5xx) are not refusals.
func (a ingestionAnswer) failures() map[string]*ScoreError {
	failures := make(map[string]*ScoreError, len(a.Successes)+len(a.Errors))
	for _, success := range a.Successes {
		failures[success.ID] = nil
	}
	for _, failure := range a.Errors {
		status := int(max(0, min(failure.Status, 999)))
		temporary := status < 400 || status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
		text := jsonText(failure.Message)
		if detail := jsonText(failure.Error); detail != "" && detail != text && detail != "null" {
			text += ": " + detail
		}
		reason := fmt.Errorf("%d: %s", status, textutil.Cut(text, maxMessage))
		failures[failure.ID] = &ScoreError{Refused: !temporary, Err: reason}
	}
	return failures
}

// deliver sends events in one request and retries the events that failed temporarily. It splits
// a request that is too large in halves, and sends the events one by one if the server lacks
// the endpoint for batches.
func (c *Client) deliver(ctx context.Context, events []scoreEvent) error {
	err := c.sendScores(ctx, events)
	for attempt := 1; err == nil && attempt < c.config.MaxAttempts; attempt++ {
		events = slices.DeleteFunc(slices.Clone(events), func(e scoreEvent) bool { return !e.pending() })
		if len(events) == 0 {
			return nil
		}
		if err = c.waitToRetry(ctx, attempt, *events[0].result); err == nil {
			err = c.sendScores(ctx, events)
		}
	}
	switch {
	case errors.Is(err, ErrTooLarge) && len(events) > 1:
		half := len(events) / 2
		if err := c.deliver(ctx, events[:half]); err != nil {
			return err
		}
		return c.deliver(ctx, events[half:])
	case errors.Is(err, ErrTooLarge):
		events[0].refuse(err)
		return nil
	case errors.Is(err, ErrEndpointGone):
		return c.sendSingly(ctx, events)
	}
	return err
}

// sendSingly sends every score in a request of its own. A refused score does not stop the
// others.
func (c *Client) sendSingly(ctx context.Context, events []scoreEvent) error {
	for _, event := range events {
		err := c.CreateScore(ctx, *event.score)
		answer, answered := errors.AsType[*APIError](err)
		switch {
		case err == nil:
			*event.result = nil
		case answered && answer.ExitCode() == 64:
			event.refuse(err)
		default:
			return err
		}
	}
	return nil
}

// maxQueryIDs is the maximum number of ids in one query. The URL must be short enough for
// proxies.
const maxQueryIDs = 50

// ReadScores yields the matching scores, each id once, from whichever endpoint the server has:
// v3/scores, or before 3.179 v2/scores, with one request per trace for scores of traces. It
// splits lists into several queries and keeps the order of the server within a query. Retried;
// the first error ends the iteration.
//
// API: GET /api/public/v3/scores; GET /api/public/v2/scores and /traces/{id}
func (c *Client) ReadScores(ctx context.Context, caps Capabilities, q ScoresQuery) iter.Seq2[Score, error] {
	return unique(func(yield func(Score, error) bool) {
		if err := q.check(); err != nil {
			yield(Score{}, err)
			return
		}
		for ids := range queryLists(q.IDs) {
			for traces := range queryLists(q.TraceIDs) {
				query := q
				query.IDs, query.TraceIDs = ids, traces
				for score, err := range c.readScores(ctx, caps, query) {
					if (err != nil || q.matches(score)) && !yield(score, err) || err != nil {
						return
					}
				}
			}
		}
	}, func(s Score) string { return s.ID })
}

// queryLists splits a list into lists that fit into a query. For an empty list it yields one
// empty list.
func queryLists(list []string) iter.Seq[[]string] {
	if len(list) == 0 {
		return func(yield func([]string) bool) { yield(nil) }
	}
	return slices.Chunk(list, maxQueryIDs)
}

func (c *Client) readScores(ctx context.Context, caps Capabilities, q ScoresQuery) iter.Seq2[Score, error] {
	switch {
	case caps.ScoresV3():
		return c.ListScores(ctx, q)
	case len(q.TraceIDs) > 0:
		return c.listTraceScores(ctx, q.TraceIDs)
	}
	query := url.Values{} // v2/scores cannot select everything; ReadScores filters the result
	setList(query, "scoreIds", q.IDs)
	if len(q.Names) == 1 {
		query.Set("name", q.Names[0])
	}
	setText(query, "datasetRunId", q.ExperimentID)
	return listPages[Score](ctx, c, "v2/scores", query, q.Limit)
}

// listTraceScores yields the scores of the traces. It reads the traces, because v2/scores has
// no reliable filter for trace ids on servers before 3.179. It skips traces that do not exist.
func (c *Client) listTraceScores(ctx context.Context, ids []string) iter.Seq2[Score, error] {
	get := func(ctx context.Context, i int) ([]Score, error) {
		traces, err := c.readLegacyTrace(ctx, ids[i:i+1])
		if len(traces) == 0 {
			return nil, err
		}
		return traces[0].Scores, nil
	}
	return elements(inOrder(ctx, len(ids), traceRequests, tracesAhead, get))
}

// matches reports whether the query selects the score. Servers ignore query parameters that
// they do not know, and then return more scores.
func (q ScoresQuery) matches(s Score) bool {
	in := func(list []string, text string) bool { return len(list) == 0 || slices.Contains(list, text) }
	return in(q.IDs, s.ID) && in(q.Names, s.Name) && in(q.TraceIDs, s.TraceID()) &&
		(q.ExperimentID == "" || s.Subject.Kind == "experiment" && s.Subject.ID == q.ExperimentID)
}

// ListRunScores yields the scores of a run itself, not of its items, each id once. It yields
// nothing for a run that does not exist. Retried; the first error ends the iteration.
//
// API: see RunID and ReadScores
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
		scores := c.ReadScores(ctx, server.Capabilities, ScoresQuery{ExperimentID: id, Limit: maxPageLimit})
		convert(scores, keepAll[Score], "scores of run %q", cmp.Or(ref.Name, id))(yield)
	}
}
