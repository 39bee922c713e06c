package embedded

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

// Annotation is what a person sets on a trace or on one of its observations in
// Langfuse's user interface, which this server does not have. Unlike a score
// that comes over the API, it has an author.
type Annotation struct {
	// TraceID is what is annotated, ObservationID the span within it, if any.
	TraceID, ObservationID string
	// ConfigID names the score configuration, which gives name and data type.
	// It is needed unless Correction is set.
	ConfigID string
	// Value is a number for NUMERIC, a bool for BOOLEAN, a string for
	// CATEGORICAL and TEXT.
	Value any
	// Correction, where it is not empty, makes this a correction: the text that
	// the output should have been. ConfigID and Value stay empty then.
	Correction string
	// Author is the person's user id; empty means "embedded-user".
	Author string
	// QueueID is the annotation queue in which it was made, if any.
	QueueID string
	// Comment is what the person remarked.
	Comment string
}

// DefaultAuthor stands in for an empty Author.
const DefaultAuthor = "embedded-user"

// Annotate stores an annotation, at once, with the source ANNOTATION, the author,
// and the environment of the span, and returns the id of the score. Each call
// makes another score. It fails where the configuration does not exist or does
// not fit the value, where the span is not there, and where both or neither of
// value and correction are given.
//
// Over HTTP it is POST /api/embedded/annotations with traceId, observationId,
// configId, value, correction, authorUserId, queueId and comment, which answers
// {"id"}; Langfuse itself has no such route.
func (s *Server) Annotate(a Annotation) (id string, err error) {
	sc, err := s.annotated(a)
	if err == nil {
		err = s.store.update(func(tx *transaction) error { return storeScore(tx, sc, sc.timestamp) })
	}
	if err != nil {
		return "", fmt.Errorf("annotating trace %s: %w", clip(a.TraceID, 100), err)
	}
	return sc.id, nil
}

func (s *Server) annotated(a Annotation) (score, error) {
	if a.TraceID == "" {
		return score{}, errors.New("the trace id is missing")
	}
	if (a.Correction == "") == (a.Value == nil) {
		return score{}, errors.New("give either a value or a correction")
	}
	now := s.now()
	sc := score{id: uuid.NewString(), name: "output", dataType: "CORRECTION", timestamp: now, eventAt: now, source: "ANNOTATION",
		environment: "default", config: a.ConfigID, queue: a.QueueID, author: orElse(a.Author, DefaultAuthor), trace: a.TraceID,
		observation: a.ObservationID, comment: a.Comment, text: sql.NullString{String: a.Correction, Valid: a.Correction != ""}}
	spans, err := collect(s.store.r, scanText, `SELECT environment FROM observations WHERE trace_id = ?1 AND (?2 = '' OR span_id = ?2)
		ORDER BY is_root DESC, start_ms LIMIT 1`, a.TraceID, a.ObservationID)
	if err != nil {
		return sc, err
	}
	if len(spans) == 0 {
		return sc, errors.New("there is no such trace or observation")
	}
	sc.environment = spans[0]
	if a.Correction != "" {
		return sc, nil
	}
	return sc, s.valueOf(a, &sc)
}

// valueOf sets value, name and type by the score configuration.
func (s *Server) valueOf(a Annotation, sc *score) error {
	cfg, exists, err := findScoreConfig(s.store.r, a.ConfigID)
	if err != nil {
		return err
	}
	if !exists {
		return fmt.Errorf("there is no score configuration %q", clip(a.ConfigID, 100))
	}
	sc.name, sc.dataType = cfg.name, cfg.dataType
	value := a.Value
	if on, isBool := value.(bool); isBool {
		value = map[bool]float64{true: 1, false: 0}[on]
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	f := &form{fields: map[string]json.RawMessage{"value": text}, read: map[string]bool{}}
	sc.readValue(f)
	if err := f.err(); err != nil {
		return err
	}
	if !cfg.allows(*sc) {
		return fmt.Errorf("the value %s does not fit the score configuration %q", text, cfg.name)
	}
	return nil
}

// createAnnotation answers POST /api/embedded/annotations.
func (s *Server) createAnnotation(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	a := Annotation{TraceID: f.must("traceId"), ObservationID: f.text("observationId"), ConfigID: f.text("configId"),
		Correction: f.text("correction"), Author: f.text("authorUserId"), QueueID: f.text("queueId"), Comment: f.text("comment")}
	if f.has("value") && json.Unmarshal(f.raw("value"), &a.Value) != nil {
		f.add("invalid_type", "value", "Invalid JSON value")
	}
	f.only()
	if err := f.err(); err != nil {
		return reply{}, err
	}
	id, err := s.Annotate(a)
	if err != nil {
		return reply{}, invalid("%s", err)
	}
	return reply{http.StatusOK, object{"id": id}}, nil
}
