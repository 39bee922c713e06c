package embedded

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
)

// event is a valid event of a batch with a score or a trace. An event without any of them is a
// log line, or an entity without an id, which Langfuse acknowledges and loses.
type event struct {
	id    string
	score *score
	trace *trace
}

// ingest answers POST /ingestion with 207 and one entry per event, in successes or in errors. It
// accepts scores and log lines, and traces unless it is in events_only mode. It refuses events of
// observations, which come as spans of OTLP.
func (s *Server) ingest(c *call) (any, error) {
	buffer, release := s.buffer(c.r.ContentLength)
	defer release()
	f := c.formInBuffer(buffer, largeBody)
	batch := f.raw("batch")
	if len(batch) == 0 || batch[0] != '[' {
		f.addIssue("invalid_type", "batch", "Invalid input: expected array")
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	successes, failures, kept := []acceptedEvent{}, []object{}, [][]byte{}
	reader := eventReader{mode: s.cfg.Mode}
	var experiments []string
	for raw := range textutil.JSONElements(batch) {
		ev, err := reader.read(raw)
		switch {
		case c.refuse != nil && c.refuse():
			failures = append(failures, object{"id": ev.id, "status": http.StatusInternalServerError,
				"message": "Error processing events", "error": "Internal Server Error"})
		case err != nil:
			failures = append(failures, eventError(ev.id, err))
		default:
			successes = append(successes, acceptedEvent{ev.id, http.StatusCreated})
			if !s.discards(ev) {
				kept = append(kept, raw)
				if ev.score != nil {
					experiments = append(experiments, ev.score.run)
				}
			}
		}
	}
	answer := newAnswer(http.StatusMultiStatus, object{"successes": successes, "errors": failures})
	if len(kept) == 0 {
		return answer, nil
	}
	if len(kept) < len(successes)+len(failures) {
		batch = slices.Concat([]byte{'['}, bytes.Join(kept, []byte{','}), []byte{']'})
	}
	return answer, s.enqueue(s.cfg.IngestionDelay, "events", batch, experiments...)
}

// acceptedEvent is an entry of successes.
type acceptedEvent struct {
	ID     string `json:"id"`
	Status int    `json:"status"`
}

// discards reports whether the server acknowledges the event without storing it.
func (s *Server) discards(ev event) bool {
	if ev.score != nil {
		return s.cfg.drops(DropScore, ev.score.id)
	}
	return ev.trace == nil
}

// storeEvents stores the events of a batch in the tables, in the order of the batch. It skips
// events that only earlier versions accepted.
func storeEvents(tx *transaction, m message) error {
	reader := eventReader{mode: m.mode, received: m.received}
	for raw := range textutil.JSONElements(m.body) {
		ev, err := reader.read(raw)
		switch {
		case err != nil:
		case ev.score != nil:
			if err := storeScore(tx, *ev.score, m.received); err != nil {
				return err
			}
		case ev.trace != nil:
			ev.trace.store(tx)
		}
	}
	return nil
}

// eventReader parses events in the mode of the server that received them. It reuses its forms.
type eventReader struct {
	mode           Mode
	received       int64
	envelope, body form
}

// read parses one event. If it returns an error, the event has its id if that could be read.
func (r *eventReader) read(raw json.RawMessage) (ev event, err error) {
	f, body := &r.envelope, &r.body
	f.parse(raw)
	ev.id = f.text("id")
	kind := f.required("type")
	at, given := f.instant("timestamp")
	if !given {
		f.addIssue("invalid_type", "timestamp", "Invalid input: expected ISO datetime")
	}
	if ev.id == "" {
		f.addIssue("too_small", "id", "Too small: expected string to have >=1 characters")
	}
	if kind != "score-create" && kind != "sdk-log" && !r.mode.hasTraces() {
		ev.id = cmp.Or(ev.id, "unknown")
		return ev, &apiError{http.StatusBadRequest, object{"message": "Event type not accepted",
			"error": fmt.Sprintf("Event type %q is not accepted by /api/public/ingestion when LANGFUSE_MIGRATION_V4_WRITE_MODE "+
				"is events_only. This endpoint only accepts score and log events. Send traces to /api/public/otel/v1/traces.",
				textutil.Cut(cmp.Or(kind, "unknown"), 100))}}
	}
	if err := f.err(); err != nil || kind == "sdk-log" {
		return ev, err
	}
	body.parse(f.raw("body"))
	if body.problem != nil {
		return ev, invalidQuery("body", "Invalid input: expected object")
	}
	switch kind {
	case "score-create":
		sc := readScore(body)
		sc.timestamp, sc.eventAt, sc.eventID = at, at, ev.id
		ev.score = &sc
	case "trace-create":
		ev.trace = readTrace(body, at, r.received)
	default:
		body.addIssue("custom", "type", "Invalid input: unknown event type "+textutil.Cut(kind, 100))
	}
	if body.text("id") == "" {
		ev.score, ev.trace = nil, nil
	}
	return ev, body.err()
}

func eventError(id string, err error) object {
	out := object{"id": id, "status": http.StatusBadRequest, "message": "Invalid request data", "error": err.Error()}
	if apiErr := new(apiError); errors.As(err, &apiErr) {
		if body, isObject := apiErr.body.(object); isObject {
			out["message"], out["error"] = body["message"], asText(body["error"])
		}
	}
	return out
}

// readTrace reads the body of a trace-create event.
func readTrace(f *form, at, now int64) *trace {
	tags := f.texts("tags")
	slices.Sort(tags)
	timestamp, _ := f.instant("timestamp")
	t := trace{id: f.text("id"), timestamp: cmp.Or(timestamp, at), name: f.text("name"), user: f.text("userId"), session: f.text("sessionId"),
		release: f.text("release"), version: f.text("version"), environment: environment(f.text("environment")),
		tags: jsonList(slices.Compact(tags)), created: now, updated: now,
		metadata: metadataOf(f), input: contentOf(f, "input"), output: contentOf(f, "output")}
	f.decode("public", &t.public, "boolean")
	return &t
}

// contentOf returns an input or output: a string unchanged, any other value as JSON.
func contentOf(f *form, key string) sql.NullString {
	content := f.nullJSON(key)
	if strings.HasPrefix(content.String, `"`) {
		content.String = textutil.JSONText(f.raw(key))
	}
	return content
}

// metadataOf returns the metadata of a body as a JSON object, or "".
func metadataOf(f *form) string {
	text := f.nullJSON("metadata").String
	if text != "" && objectOrEmpty(text) == "" {
		text = asText(object{"metadata": json.RawMessage(text)})
	}
	return text
}

// mergeJSON returns a JSON object with the fields of both; changes takes precedence.
func mergeJSON(base, changes string) string {
	fields := map[string]json.RawMessage{}
	for _, text := range []string{base, changes} {
		var more map[string]json.RawMessage
		if json.Unmarshal([]byte(cmp.Or(text, "{}")), &more) == nil {
			maps.Copy(fields, more)
		}
	}
	return asText(fields)
}
