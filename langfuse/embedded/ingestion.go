package embedded

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// event is one envelope of a batch that can be stored: a score, or else what
// was said of a trace or of an observation. One that has neither is a log line,
// or an entity without an id, which is acknowledged and lost.
type event struct {
	id, kind    string
	at          int64
	score       *score
	trace       *trace
	observation *observation
}

// ingest answers POST /ingestion with 207: one entry per event, among the
// successes or among the errors. In events_only mode only scores and log lines
// are taken. What is taken of a batch is one transaction.
func (s *Server) ingest(c *call) (reply, error) {
	f, err := readForm(c, largeBody)
	if err != nil {
		return reply{}, err
	}
	var raws []json.RawMessage
	if json.Unmarshal(f.raw("batch"), &raws) != nil || raws == nil {
		return reply{}, &fault{status: http.StatusBadRequest, body: object{"message": "Invalid request data",
			"errors": []string{"Invalid input: expected array at batch"}}}
	}
	successes, failures, refused := []object{}, []object{}, []object{}
	var taken []event
	for _, raw := range raws {
		envelope, _ := newForm(raw)
		if refusal := s.refuse(envelope); refusal != nil {
			refused = append(refused, refusal)
			continue
		}
		ev, err := readEvent(envelope, s.now())
		if err != nil {
			failures = append(failures, eventError(ev.id, err))
			continue
		}
		successes = append(successes, object{"id": ev.id, "status": http.StatusCreated})
		taken = append(taken, ev)
	}
	if err := s.storeEvents(taken); err != nil {
		return reply{}, err
	}
	return reply{http.StatusMultiStatus, object{"successes": successes, "errors": append(failures, refused...)}}, nil
}

// refuse returns the error entry of an event whose type is not taken in
// events_only mode, whatever else it holds.
func (s *Server) refuse(envelope *form) object {
	if s.cfg.Mode.legacy() {
		return nil
	}
	id, kind := "unknown", "unknown"
	if envelope != nil {
		f := form{fields: envelope.fields, read: map[string]bool{}} // what is wrong is found later
		id, kind = orElse(f.text("id"), id), orElse(f.text("type"), kind)
	}
	if kind == "score-create" || kind == "sdk-log" {
		return nil
	}
	return object{"id": id, "status": http.StatusBadRequest, "message": "Event type not accepted",
		"error": fmt.Sprintf("Event type %q is not accepted by /api/public/ingestion when LANGFUSE_MIGRATION_V4_WRITE_MODE "+
			"is events_only. This endpoint only accepts score and log events. Send traces to /api/public/otel/v1/traces.", clip(kind, 100))}
}

// storeEvents writes what a batch holds: scores in the order in which they
// stand, the rest by instant, what creates before what updates.
func (s *Server) storeEvents(events []event) error {
	events = slices.DeleteFunc(events, func(ev event) bool {
		return ev.score != nil && s.cfg.drops(DropScore, ev.score.id) || ev.observation != nil && s.cfg.drops(DropSpan, ev.observation.span)
	})
	if !slices.ContainsFunc(events, func(ev event) bool { return ev.score != nil || ev.trace != nil || ev.observation != nil }) {
		return nil
	}
	slices.SortStableFunc(events, func(a, b event) int {
		if byScore := cmp.Compare(rank(a), rank(b)); byScore != 0 || a.score != nil {
			return byScore
		}
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.action(), b.action()))
	})
	now := s.now()
	return s.later(s.cfg.IngestionDelay, func(tx *transaction) error {
		w, err := newSpanWriter(tx, s.cfg)
		for _, ev := range events {
			switch {
			case err != nil:
			case ev.score != nil:
				err = storeScore(tx, *ev.score, now)
			case ev.trace != nil:
				err = storeTrace(tx, *ev.trace)
			case ev.observation != nil:
				err = w.merge(*ev.observation)
			}
		}
		return err
	})
}

// rank puts scores behind the rest.
func rank(ev event) int {
	if ev.score != nil {
		return 1
	}
	return 0
}

// action is create or update.
func (ev event) action() string {
	_, action, _ := strings.Cut(ev.kind, "-")
	return action
}

// readEvent reads one envelope; nil is what is no object. On an error the event has
// its id, if one was readable.
func readEvent(f *form, now int64) (ev event, err error) {
	if f == nil {
		return ev, badQuery("", "Invalid input: expected object")
	}
	ev.id, ev.kind = f.must("id"), f.must("type")
	at, given := f.instant("timestamp")
	if !given && !f.failed("timestamp") {
		f.add("invalid_type", "timestamp", "Invalid input: expected ISO datetime")
	}
	if ev.id == "" && !f.failed("id") {
		f.add("too_small", "id", "Too small: expected string to have >=1 characters")
	}
	ev.at = at
	if err := f.err(); err != nil {
		return ev, err
	}
	if ev.kind == "sdk-log" {
		return ev, nil
	}
	body, err := newForm(f.raw("body"))
	if err != nil {
		return ev, badQuery("body", "Invalid input: expected object")
	}
	if err := ev.readBody(body, now); err != nil {
		return ev, err
	}
	if body.text("id") == "" {
		ev.score, ev.trace, ev.observation = nil, nil, nil
	}
	return ev, nil
}

func (ev *event) readBody(body *form, now int64) error {
	switch kind := observationKind(ev.kind, body); {
	case ev.kind == "score-create":
		sc := readScore(body)
		sc.timestamp, sc.eventAt, sc.eventID = ev.at, ev.at, ev.id
		ev.score = &sc
	case ev.kind == "trace-create":
		t := readTrace(body, ev.at, now)
		ev.trace = &t
	case kind != "":
		o := readObservation(body, kind, ev.at, now)
		ev.observation = &o
	default:
		return badQuery("type", "Invalid input: unknown event type "+clip(ev.kind, 100))
	}
	return body.err()
}

func eventError(id string, err error) object {
	out := object{"id": id, "status": http.StatusBadRequest, "message": "Invalid request data"}
	var f *fault
	if !errors.As(err, &f) {
		out["error"] = err.Error()
		return out
	}
	out["error"] = f.body["error"]
	if _, isText := out["error"].(string); !isText {
		if text, err := encodeJSON(out["error"]); err == nil {
			out["error"] = text
		}
	}
	return out
}
