package embedded

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// ingest answers POST /ingestion with 207: one entry per event, among the
// successes or among the errors. In events_only mode only scores and log lines
// are taken. All scores of a batch are one transaction.
func (s *Server) ingest(c *call) (reply, error) {
	f, err := readForm(c, largeBody)
	if err != nil {
		return reply{}, err
	}
	var events []json.RawMessage
	if json.Unmarshal(f.raw("batch"), &events) != nil || events == nil {
		return reply{}, &fault{status: http.StatusBadRequest, body: object{"message": "Invalid request data",
			"errors": []string{"Invalid input: expected array at batch"}}}
	}
	successes, failures := []object{}, []object{}
	var scores []score
	for _, raw := range events {
		id, sc, err := readEvent(raw)
		if err != nil {
			failures = append(failures, eventError(id, err))
			continue
		}
		successes = append(successes, object{"id": id, "status": http.StatusCreated})
		if sc.id != "" { // without an id it is acknowledged and lost
			scores = append(scores, sc)
		}
	}
	if len(scores) > 0 {
		if err := s.storeScores(scores); err != nil {
			return reply{}, err
		}
	}
	return reply{http.StatusMultiStatus, object{"successes": successes, "errors": failures}}, nil
}

func (s *Server) storeScores(scores []score) error {
	now := s.now()
	return s.store.update(func(tx *sql.Tx) error {
		for _, sc := range scores {
			if err := storeScore(tx, sc, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// readEvent reads one envelope. A score without an id comes back only if it is
// a score that can be stored; a log line comes back empty.
func readEvent(raw json.RawMessage) (id string, sc score, err error) {
	f, err := newForm(raw)
	if err != nil {
		return "", sc, badQuery("", "Invalid input: expected object")
	}
	id = f.must("id")
	kind := f.must("type")
	at, given := f.instant("timestamp")
	if !given && !f.failed("timestamp") {
		f.add("invalid_type", "timestamp", "Invalid input: expected ISO datetime")
	}
	if id == "" && !f.failed("id") {
		f.add("too_small", "id", "Too small: expected string to have >=1 characters")
	}
	if err := f.err(); err != nil {
		return id, sc, err
	}
	switch kind {
	case "sdk-log":
		return id, sc, nil
	case "score-create":
		sc, err = readScoreEvent(f)
		sc.timestamp, sc.eventAt, sc.eventID = at, at, id
		return id, sc, err
	case "trace-create", "event-create", "span-create", "span-update", "generation-create", "generation-update",
		"agent-create", "tool-create", "chain-create", "retriever-create", "evaluator-create", "embedding-create",
		"guardrail-create", "observation-create", "observation-update", "dataset-run-item-create":
		return id, sc, &fault{status: http.StatusBadRequest, body: object{"message": "Invalid request data",
			"error": fmt.Sprintf("Event type %q is not accepted by this endpoint when LANGFUSE_MIGRATION_V4_WRITE_MODE "+
				"is events_only. Send traces to /api/public/otel/v1/traces.", kind)}}
	}
	return id, sc, badQuery("type", "Invalid input: unknown event type "+clip(kind, 100))
}

func readScoreEvent(envelope *form) (score, error) {
	body, err := newForm(envelope.raw("body"))
	if err != nil {
		return score{}, badQuery("body", "Invalid input: expected object")
	}
	sc := readScore(body)
	return sc, body.err()
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
