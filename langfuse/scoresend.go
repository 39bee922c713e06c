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

// ErrRefused is what a *ScoreError is where the score will never be accepted as it is.
// Any other may or may not have arrived, or was not sent: send it again, unchanged.
var ErrRefused = errors.New("refused")

// ScoreError is why one score of several was not accepted.
type ScoreError struct {
	Name    string
	Refused bool // see ErrRefused
	Err     error
}

// Error names the score.
func (e *ScoreError) Error() string { return fmt.Sprintf("langfuse: score %q: %v", e.Name, e.Err) }

// Unwrap returns the answer.
func (e *ScoreError) Unwrap() error { return e.Err }

// Is reports whether the score is refused, for ErrRefused.
func (e *ScoreError) Is(target error) bool { return e.Refused && target == ErrRefused }

// scoreEvent is one score on its way: its envelope's id, its JSON, its place in
// the results.
type scoreEvent struct {
	id     string
	json   json.RawMessage
	score  *ScoreCreate
	result *error
}

// refuse notes that the score will never be accepted.
func (e *scoreEvent) refuse(err error) { *e.result = &ScoreError{e.score.Name, true, err} }

// open reports whether the score is neither accepted nor refused.
func (e *scoreEvent) open() bool { return *e.result != nil && !errors.Is(*e.result, ErrRefused) }

// errNotSent is the result of a score before it is sent.
var errNotSent = errors.New("it was not sent")

// CreateScores sends scores in as few requests as the bounds allow (100 events,
// 2.5 MB) and returns what became of each, in the same order: nil is queued to be
// stored, a *ScoreError is what the server, or Validate, says of it alone, and any other
// is the error of the first request that failed as a whole, after its repetitions, behind
// which no more are sent.
//
// Everything is a function of the scores, so calling again with the
// same ones changes nothing that a read shows. Retried with the same bytes; of a
// request that was taken in part only the rest. A request that something on the way
// finds too large is sent in halves; where the endpoint is gone each score is sent on
// its own.
//
// API: POST /api/public/ingestion, else POST /api/public/scores
func (c *Client) CreateScores(ctx context.Context, scores []ScoreCreate) []error {
	results := make([]error, len(scores))
	events := newScoreEvents(scores, results)
	for len(events) > 0 {
		n := nextScoreBatch(events)
		if err := c.deliver(ctx, events[:n]); err != nil {
			err = fmt.Errorf("sending %d scores: %w", n, err)
			for _, event := range events {
				if event.open() {
					*event.result = err
				}
			}
			break
		}
		events = events[n:]
	}
	return results
}

// newScoreEvents encodes the scores; those that cannot be sent are refused in
// the results.
func newScoreEvents(scores []ScoreCreate, results []error) []scoreEvent {
	events := make([]scoreEvent, 0, len(scores))
	used := make(map[string]bool, len(scores))
	for i := range scores {
		results[i] = errNotSent
		event := scoreEvent{score: &scores[i], result: &results[i]}
		err := event.encode()
		if err == nil && used[event.id] {
			err = errors.New("its id and timestamp appear twice: the answers could not be told apart")
		}
		if err != nil {
			event.refuse(err)
			continue
		}
		used[event.id] = true
		events = append(events, event)
	}
	return events
}

// encode wraps the score in its envelope. The envelope's id is a function
// of the score's id and time: a repetition has the same one, a changed score
// sent at a later time another.
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
	room := make([]byte, 0, 512+len(e.score.Comment)+len(e.score.Metadata))
	var err error
	if e.json, err = e.score.appendEvent(room, e.id, at); err == nil && len(e.json) > maxScoreBytes {
		err = fmt.Errorf("%d bytes: %w", len(e.json), ErrTooLarge)
	}
	return err
}

// appendEvent appends the envelope with the score in it: what encoding/json writes of
// both, without its reflection.
func (s *ScoreCreate) appendEvent(b []byte, id, at string) ([]byte, error) {
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
func (c *Client) sendScores(ctx context.Context, events []scoreEvent) error {
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
		failed, mentioned := states[event.id]
		switch {
		case !mentioned:
			*event.result = &ScoreError{event.score.Name, false, errors.New("the answer does not mention it")}
		case failed == nil:
			*event.result = nil
		default: // without keys
			*event.result = &ScoreError{event.score.Name, failed.Refused, errors.New(c.redact(failed.Err.Error()))}
		}
	}
	return nil
}

// ingestionAnswer is the body of a 207.
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

// states returns what is wrong with each event by its envelope's id, nil where it was
// accepted. An event that is in both lists counts as failed; statuses that may pass with
// time (408, 429, 5xx) are not refusals.
func (a ingestionAnswer) states() map[string]*ScoreError {
	states := make(map[string]*ScoreError, len(a.Successes)+len(a.Errors))
	for _, success := range a.Successes {
		states[success.ID] = nil
	}
	for _, failure := range a.Errors {
		status := int(max(0, min(failure.Status, 999)))
		passing := status < 400 || status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
		text := jsonText(failure.Message)
		if detail := jsonText(failure.Error); detail != "" && detail != text && detail != "null" {
			text += ": " + detail
		}
		said := fmt.Errorf("%d: %s", status, textutil.Cut(text, maxMessage))
		states[failure.ID] = &ScoreError{Refused: !passing, Err: said}
	}
	return states
}

// deliver sends events in one request, and again those of which the server says that it
// failed on them alone; in halves where that is too large, and one by one where the
// server no longer takes batches.
func (c *Client) deliver(ctx context.Context, events []scoreEvent) error {
	err := c.sendScores(ctx, events)
	for attempt := 1; err == nil && attempt < c.config.MaxAttempts; attempt++ {
		events = slices.DeleteFunc(slices.Clone(events), func(e scoreEvent) bool { return !e.open() })
		if len(events) == 0 {
			return nil
		}
		if err = c.rest(ctx, attempt, *events[0].result); err == nil {
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

// sendSingly sends each score on its own. One that the server refuses for what
// it is does not stop the others.
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
					if (err != nil || q.matches(score)) && !yield(score, err) || err != nil {
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
	query := url.Values{} // what v2/scores can select; ReadScores leaves out the rest
	setList(query, "scoreIds", q.IDs)
	if len(q.Names) == 1 {
		query.Set("name", q.Names[0])
	}
	setText(query, "datasetRunId", q.ExperimentID)
	return listPages[Score](ctx, c, "v2/scores", query, q.Limit)
}

// listTraceScores reads the scores of traces with the traces: v2/scores has no
// reliable filter for them on the servers that need this. A trace that is not
// there has none.
func (c *Client) listTraceScores(ctx context.Context, ids []string) iter.Seq2[Score, error] {
	return func(yield func(Score, error) bool) {
		for trace, err := range c.ReadTraces(ctx, Capabilities{LegacyReads: true}, ids, TraceParts{}) {
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
		scores := c.ReadScores(ctx, server.Capabilities, ScoresQuery{ExperimentID: id, Limit: maxPageLimit})
		convert(scores, every[Score], "scores of run %q", cmp.Or(ref.Name, id))(yield)
	}
}
