package langfuse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// ScoreCreate is a score as it is written, on a trace (and one of its
// observations) or on a run.
type ScoreCreate struct {
	// ID is required: a score without one is answered with success and lost.
	// The same ID again replaces the score if Timestamp is later.
	ID    string     `json:"id"`
	Name  string     `json:"name"`
	Value ScoreValue `json:"value"`
	Type  ScoreType  `json:"dataType"`
	// TraceID, with ObservationID if it is about one span; or DatasetRunID,
	// which is the experiment id.
	TraceID       string `json:"traceId,omitempty"`
	ObservationID string `json:"observationId,omitempty"`
	DatasetRunID  string `json:"datasetRunId,omitempty"`
	Comment       string `json:"comment,omitempty"`
	// Metadata is a JSON object or empty.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Environment is at most 40 of a-z, 0-9, - and _; empty is "default".
	Environment string `json:"environment,omitempty"`
	// Timestamp is required by CreateScores and ignored by CreateScore, where
	// the server's clock counts.
	Timestamp time.Time `json:"-"`
}

// Validate returns all reasons why a server would refuse the score, store it
// under other words, or drop it without saying so.
func (s *ScoreCreate) Validate() error {
	var found problems
	found.add(s.ID == "", "it needs an id")
	found.add(s.Name == "", "it needs a name")
	found.add(!utf8.ValidString(s.ID) || !utf8.ValidString(s.Name), "its id and name must be UTF-8")
	found.add((s.TraceID == "") == (s.DatasetRunID == ""), "it needs either a trace or a run")
	found.add(s.ObservationID != "" && s.TraceID == "", "an observation needs its trace")
	found.add(len(s.Metadata) > 0 && !textutil.ValidJSON(s.Metadata), "its metadata is not JSON")
	found.add(!isEnvironment(s.Environment),
		"its environment must be at most 40 of a-z, 0-9, - and _ and not begin with langfuse")

	number, isNumber := s.Value.Number()
	text, _ := s.Value.Text()
	switch s.Type {
	case ScoreNumeric:
		found.add(!isNumber || math.IsNaN(number) || math.IsInf(number, 0), "a NUMERIC score needs a finite number")
	case ScoreBoolean:
		found.add(!isNumber || number != 0 && number != 1, "a BOOLEAN score needs 0 or 1")
	case ScoreCategorical, ScoreText:
		found.add(text == "", "a CATEGORICAL or TEXT score needs a text")
	default:
		found.add(true, "type %q cannot be written", s.Type)
	}
	return errors.Join(found...)
}

// isEnvironment reports whether Langfuse keeps the name as it is; what it does
// not like it silently turns into "default".
func isEnvironment(name string) bool {
	return len(name) <= 40 && !strings.HasPrefix(name, "langfuse") &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// CreateScore sends one score; its time is the server's. CreateScores is better
// in every way but for servers that no longer have its endpoint. Safe to
// repeat; retried. A success means queued. Errors: *APIError, *ConnectionError.
//
// API: POST /api/public/scores
func (c *Client) CreateScore(ctx context.Context, score ScoreCreate) error {
	if err := score.Validate(); err != nil {
		return fmt.Errorf("langfuse: score %q (%s): %w", score.Name, score.ID, err)
	}
	r := request{method: http.MethodPost, path: "scores"}
	_, err := call[struct{}](ctx, c, r, score, "score %q (%s)", score.Name, score.ID)
	return err
}

// DeleteScore asks for a score to be deleted. The request is queued, for half a
// minute and longer, and one that is handled before the score was stored is
// lost: call it once the score can be read, and read again. Safe to repeat;
// retried.
//
// API: DELETE /api/public/scores/{id}
func (c *Client) DeleteScore(ctx context.Context, id string) error {
	if id == "" {
		return errors.New("langfuse: deleting a score needs its id")
	}
	r := request{method: http.MethodDelete, path: "scores/" + url.PathEscape(id)}
	if _, err := c.do(ctx, r, nil); err != nil {
		return fmt.Errorf("deleting score %s: %w", id, err)
	}
	return nil
}

// Score is a score as it is read.
type Score struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Value        ScoreValue      `json:"value"`
	Type         ScoreType       `json:"dataType"`
	Source       string          `json:"source"` // API, ANNOTATION or EVAL
	Timestamp    time.Time       `json:"timestamp"`
	Environment  string          `json:"environment"`
	Comment      string          `json:"comment"`
	Metadata     json.RawMessage `json:"metadata"`
	ConfigID     string          `json:"configId"`
	QueueID      string          `json:"queueId"`
	AuthorUserID string          `json:"authorUserId"` // empty unless a person set it in the web interface
	Subject      ScoreSubject    `json:"subject"`
}

// ScoreSubject is what a score is about.
type ScoreSubject struct {
	Kind    string `json:"kind"` // trace, observation, session or experiment
	ID      string `json:"id"`
	TraceID string `json:"traceId"` // of an observation
}

// ScoresQuery selects scores; empty fields select all. Lists hold any of; their
// elements must not contain commas.
type ScoresQuery struct {
	IDs, Names []string
	// At most one of TraceIDs and ExperimentID.
	TraceIDs     []string
	ExperimentID string // scores on the run itself
	Limit        int    // of a page, at most 100; 0 is 64
}

// ListScores yields scores with their details, subject and annotation. It works
// on v3 from 3.179 (Capabilities.ScoresV3) and on v4; ReadScores works on all
// servers and takes lists of any length. A score is visible some
// seconds after it was sent. Retried; the first error ends the iteration.
//
// API: GET /api/public/v3/scores
func (c *Client) ListScores(ctx context.Context, q ScoresQuery) iter.Seq2[Score, error] {
	query := url.Values{"fields": {"details,subject,annotation"}}
	setList(query, "id", q.IDs)
	setList(query, "name", q.Names)
	setList(query, "traceId", q.TraceIDs)
	setText(query, "experimentId", q.ExperimentID)
	return listCursor[Score](ctx, c, "v3/scores", query, q.Limit, maxPageLimit)
}

// ScoreType says what the value of a score means.
type ScoreType string

// The types of scores. CORRECTION is only read: its value is a text.
const (
	ScoreNumeric     ScoreType = "NUMERIC"
	ScoreBoolean     ScoreType = "BOOLEAN"
	ScoreCategorical ScoreType = "CATEGORICAL"
	ScoreText        ScoreType = "TEXT"
	ScoreCorrection  ScoreType = "CORRECTION"
)

// ScoreValue is a number or a text, or neither (the zero value, which servers
// give for an empty category). Values compare with ==. The endpoints of
// Langfuse write a boolean as 0/1 or as false/true; both are the numbers here.
type ScoreValue struct{ value any } // float64 or string

// NumberValue returns the value of a numeric score.
func NumberValue(number float64) ScoreValue { return ScoreValue{number} }

// BoolValue returns the value of a boolean score: 1 for true, 0 for false.
func BoolValue(yes bool) ScoreValue {
	if yes {
		return ScoreValue{1.0}
	}
	return ScoreValue{0.0}
}

// TextValue returns the value of a categorical or text score.
func TextValue(text string) ScoreValue { return ScoreValue{text} }

// Number returns the number, and whether the value is one.
func (v ScoreValue) Number() (number float64, ok bool) {
	number, ok = v.value.(float64)
	return number, ok
}

// Text returns the text, and whether the value is one.
func (v ScoreValue) Text() (text string, ok bool) {
	text, ok = v.value.(string)
	return text, ok
}

// String returns the value for people; nothing for no value.
func (v ScoreValue) String() string {
	if number, ok := v.Number(); ok {
		return strconv.FormatFloat(number, 'g', -1, 64)
	}
	text, _ := v.Text()
	return text
}

// MarshalJSON writes a number, a string or null. NaN and infinities are errors.
func (v ScoreValue) MarshalJSON() ([]byte, error) { return json.Marshal(v.value) }

// UnmarshalJSON reads a number, a boolean, a string or null.
func (v *ScoreValue) UnmarshalJSON(raw []byte) error {
	*v = ScoreValue{}
	if err := json.Unmarshal(raw, &v.value); err != nil {
		return err
	}
	switch value := v.value.(type) {
	case bool:
		*v = BoolValue(value)
	case []any, map[string]any:
		return fmt.Errorf("a score's value must be a number, a boolean or a string, not %s", textutil.Cut(string(raw), 40))
	}
	return nil
}

// UnmarshalJSON reads a score as any of the endpoints write it: v3/scores with a
// typed value and a subject; v2/scores and the scores inside traces with the ids
// side by side, the text in stringValue and a 0 in value.
func (s *Score) UnmarshalJSON(raw []byte) error {
	type plain Score
	flat := struct {
		*plain
		StringValue   *string `json:"stringValue"`
		TraceID       string  `json:"traceId"`
		ObservationID string  `json:"observationId"`
		SessionID     string  `json:"sessionId"`
		DatasetRunID  string  `json:"datasetRunId"`
	}{plain: (*plain)(s)}
	*s = Score{}
	if err := json.Unmarshal(raw, &flat); err != nil {
		return err
	}
	if flat.StringValue != nil && !s.Type.isNumber() {
		s.Value = TextValue(*flat.StringValue)
	}
	if text, ok := s.Value.Text(); ok {
		s.Value = s.Type.parse(text)
	}
	if s.Subject.Kind != "" {
		return nil
	}
	for _, subject := range []ScoreSubject{
		{Kind: "observation", ID: flat.ObservationID, TraceID: flat.TraceID},
		{Kind: "trace", ID: flat.TraceID},
		{Kind: "experiment", ID: flat.DatasetRunID},
		{Kind: "session", ID: flat.SessionID},
	} {
		if subject.ID != "" {
			s.Subject = subject
			break
		}
	}
	return nil
}

// TraceID returns the trace that the score is about, itself or through one of
// its observations; empty for scores of runs and sessions.
func (s Score) TraceID() string {
	if s.Subject.Kind == "trace" {
		return s.Subject.ID
	}
	return s.Subject.TraceID
}

func (t ScoreType) isNumber() bool { return t == ScoreNumeric || t == ScoreBoolean }

// parse reads a value that is written as text: numbers and truth values for
// NUMERIC and BOOLEAN, the text itself for the other types and for what is
// neither.
func (t ScoreType) parse(text string) ScoreValue {
	trimmed := strings.TrimSpace(text)
	if t == ScoreBoolean {
		switch strings.ToLower(trimmed) {
		case "true":
			return BoolValue(true)
		case "false":
			return BoolValue(false)
		}
	}
	number, err := strconv.ParseFloat(trimmed, 64)
	if err == nil && t.isNumber() && !math.IsNaN(number) && !math.IsInf(number, 0) {
		return NumberValue(number)
	}
	return TextValue(text)
}

// ScoreConfig says what scores of a name look like: people who annotate choose
// among configurations.
type ScoreConfig struct {
	ID   string    `json:"id,omitempty"`
	Name string    `json:"name"` // of 1 to 35 characters
	Type ScoreType `json:"dataType"`
	// Min and Max bound the values; nil: no bound, and of ScoreBoolean always.
	Min         *float64 `json:"minValue,omitempty"`
	Max         *float64 `json:"maxValue,omitempty"`
	Description string   `json:"description,omitempty"`
	Archived    bool     `json:"isArchived,omitempty"`
}

// ListScoreConfigs yields the score configurations of the project, archived ones
// included, the newest first. Names are not unique. Works on all servers. Retried;
// the first error ends the iteration.
//
// API: GET /api/public/score-configs
func (c *Client) ListScoreConfigs(ctx context.Context) iter.Seq2[ScoreConfig, error] {
	return listPages[ScoreConfig](ctx, c, "score-configs", url.Values{}, maxPageLimit)
}

// CreateScoreConfig makes a score configuration; ID and Archived are the server's.
// Not safe to repeat: it would be there twice. Errors: *APIError, *ConnectionError.
//
// API: POST /api/public/score-configs
func (c *Client) CreateScoreConfig(ctx context.Context, config ScoreConfig) (ScoreConfig, error) {
	config.ID, config.Archived = "", false
	r := request{method: http.MethodPost, path: "score-configs", once: true}
	return call[ScoreConfig](ctx, c, r, config, "score configuration %q", config.Name)
}
