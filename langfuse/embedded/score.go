package embedded

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"github.com/google/uuid"
)

// score is one row of scores. A value is a number, or a text for the types
// CATEGORICAL, TEXT and CORRECTION.
type score struct {
	id, name, dataType               string
	value                            sql.NullFloat64
	text                             sql.NullString
	timestamp, eventAt               int64
	eventID                          string
	source, environment              string
	config, queue, author            string
	trace, observation, session, run string
	created, updated                 int64
	metadata, comment                string
}

// createScore answers POST /scores. An id is made where none is given. The
// instant is now, and of two requests with one id the later one counts.
func (s *Server) createScore(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	sc := readScore(f)
	if err := f.err(); err != nil {
		return reply{}, err
	}
	sc.id = orElse(sc.id, uuid.NewString())
	now := s.now()
	sc.timestamp, sc.eventAt = now, now
	if s.cfg.drops(DropScore, sc.id) {
		return ok(object{"id": sc.id})
	}
	err = s.later(s.cfg.IngestionDelay, func(tx *transaction) error { return storeScore(tx, sc, now) })
	if err != nil {
		return reply{}, err
	}
	return ok(object{"id": sc.id})
}

// deleteScore answers DELETE /scores/{id} with 202, also for an id that is not
// there. It is done before the answer unless DeleteDelay says later.
func (s *Server) deleteScore(c *call) (reply, error) {
	err := s.later(s.cfg.DeleteDelay, func(tx *transaction) error {
		_, err := tx.Exec("DELETE FROM scores WHERE id = ?", c.path["id"])
		return err
	})
	if err != nil {
		return reply{}, err
	}
	return reply{http.StatusAccepted, object{"message": "Score deletion request received successfully"}}, nil
}

// readScore reads the body that POST /scores and score-create share.
func readScore(f *form) score {
	sc := score{
		id: f.text("id"), name: f.must("name"), dataType: f.text("dataType"), source: orElse(f.text("source"), "API"),
		environment: environment(f.text("environment")), config: f.text("configId"), queue: f.text("queueId"),
		trace: f.text("traceId"), observation: f.text("observationId"), session: f.text("sessionId"),
		run: f.text("datasetRunId"), comment: f.text("comment"),
	}
	if f.has("metadata") {
		sc.metadata = string(f.raw("metadata"))
	}
	sc.readValue(f)
	if sc.dataType == "CORRECTION" {
		sc.name = "output"
	}
	if sc.name == "" && !f.failed("name") {
		f.add("too_small", "name", "Too small: expected string to have >=1 characters")
	}
	sc.checkSubject(f)
	sc.checkSource(f)
	return sc
}

// readValue reads the value by its type; without a type a number is NUMERIC
// and a text CATEGORICAL.
func (sc *score) readValue(f *form) {
	if !f.has("value") {
		f.add("invalid_type", "value", "Invalid input: expected number or string, received null or undefined")
		return
	}
	var decoded any
	if json.Unmarshal(f.raw("value"), &decoded) != nil {
		f.add("invalid_type", "value", "Invalid input: expected number or string")
		return
	}
	number, isNumber := decoded.(float64)
	text, isText := decoded.(string)
	if sc.dataType == "" && isNumber {
		sc.dataType = "NUMERIC"
	}
	if sc.dataType == "" && isText {
		sc.dataType = "CATEGORICAL"
	}
	switch sc.dataType {
	case "NUMERIC", "BOOLEAN":
		if !isNumber {
			f.add("invalid_type", "value", "Invalid input: expected number for "+sc.dataType)
			return
		}
		if sc.dataType == "BOOLEAN" && number != 0 && number != 1 {
			f.add("custom", "value", "Value must be either 0 or 1 for BOOLEAN")
		}
		sc.value = sql.NullFloat64{Float64: number, Valid: true}
	case "CATEGORICAL", "TEXT", "CORRECTION":
		if !isText {
			f.add("invalid_type", "value", "Invalid input: expected string for "+sc.dataType)
			return
		}
		if length := utf8.RuneCountInString(text); sc.dataType == "TEXT" && (length < 1 || length > 500) {
			f.add("custom", "value", "Invalid input: expected 1 to 500 characters for TEXT")
		}
		sc.text = sql.NullString{String: text, Valid: true}
	case "":
		f.add("invalid_type", "value", "Invalid input: expected number or string")
	default:
		f.add("invalid_value", "dataType", "Invalid option: expected one of NUMERIC|BOOLEAN|CATEGORICAL|TEXT|CORRECTION")
	}
}

// checkSubject wants exactly one of trace, session and run; an observation
// belongs to its trace.
func (sc *score) checkSubject(f *form) {
	given := 0
	for _, id := range []string{sc.trace, sc.session, sc.run} {
		if id != "" {
			given++
		}
	}
	if given != 1 {
		f.add("custom", "traceId", "Provide exactly one of the following: traceId, sessionId, datasetRunId")
		return
	}
	if sc.observation != "" && sc.trace == "" {
		f.add("custom", "observationId", "Provide exactly one of the following: an observationId needs its traceId")
	}
	if sc.dataType == "CORRECTION" && sc.run != "" {
		f.add("custom", "datasetRunId", "CORRECTION scores cannot be attached to a dataset run")
	}
}

func (sc *score) checkSource(f *form) {
	switch sc.source {
	case "API", "EVAL":
	case "ANNOTATION":
		if sc.config == "" && sc.dataType != "CORRECTION" {
			f.add("custom", "configId", "configId is required for scores with source ANNOTATION")
		}
	default:
		f.add("invalid_value", "source", "Invalid option: expected one of API|ANNOTATION|EVAL")
	}
	if sc.config != "" && sc.dataType == "CORRECTION" {
		f.add("custom", "configId", "CORRECTION scores cannot have a configId")
	}
}

// failed says whether an issue names a field.
func (f *form) failed(key string) bool {
	for _, found := range f.issues {
		if len(found.Path) > 0 && found.Path[0] == key {
			return true
		}
	}
	return false
}
