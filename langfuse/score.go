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
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// ScoreCreate is a score to be written, for a trace, for an observation or for a run.
type ScoreCreate struct {
	// ID is required: the server reports success for a score without an ID, and loses it.
	// Another score with the same ID replaces the score if its Timestamp is later.
	ID    string     `json:"id"`
	Name  string     `json:"name"`
	Value ScoreValue `json:"value"`
	// Type is required, because a number can be a ScoreNumeric or a ScoreBoolean (0 or 1), and a
	// text a ScoreCategorical or a ScoreText.
	Type ScoreType `json:"dataType"`
	// TraceID or DatasetRunID (the id of the run or experiment) is required, but not both.
	// ObservationID selects one span of the trace.
	TraceID       string `json:"traceId,omitempty"`
	ObservationID string `json:"observationId,omitempty"`
	DatasetRunID  string `json:"datasetRunId,omitempty"`
	Comment       string `json:"comment,omitempty"`
	// Metadata is a JSON object or empty.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Environment consists of at most 40 characters a-z, 0-9, - and _, and does not begin with
	// "langfuse". Empty means "default".
	Environment string `json:"environment,omitempty"`
	// Timestamp is required by CreateScores. CreateScore ignores it: there the server uses its
	// own clock.
	Timestamp time.Time `json:"-"`
}

// Validate returns all reasons why a server would reject the score, change it or silently drop
// it.
func (s *ScoreCreate) Validate() error {
	var found textutil.Problems
	found.Add(s.ID == "", "it needs an id")
	found.Add(s.Name == "", "it needs a name")
	found.Add(!utf8.ValidString(s.ID) || !utf8.ValidString(s.Name), "its id and name must be UTF-8")
	found.Add((s.TraceID == "") == (s.DatasetRunID == ""), "it needs either a trace or a run")
	found.Add(s.ObservationID != "" && s.TraceID == "", "an observation needs its trace")
	found.Add(len(s.Metadata) > 0 && !textutil.ValidJSON(s.Metadata), "its metadata is not JSON")
	found.Add(!ValidEnvironment(s.Environment),
		"its environment must be at most 40 of a-z, 0-9, - and _ and not begin with langfuse")

	number, isNumber := s.Value.Number()
	text, _ := s.Value.Text()
	switch s.Type {
	case ScoreNumeric:
		found.Add(!isNumber || math.IsNaN(number) || math.IsInf(number, 0), "a NUMERIC score needs a finite number")
	case ScoreBoolean:
		found.Add(!isNumber || number != 0 && number != 1, "a BOOLEAN score needs 0 or 1")
	case ScoreCategorical, ScoreText:
		found.Add(text == "", "a CATEGORICAL or TEXT score needs a text")
	default:
		found.Add(true, "type %q cannot be written: use NUMERIC, BOOLEAN, CATEGORICAL or TEXT", s.Type)
	}
	return errors.Join(found...)
}

// ValidEnvironment reports whether Langfuse stores the name of an environment unchanged, or has
// its default for it since it is empty. It silently replaces invalid names by "default".
func ValidEnvironment(name string) bool {
	return len(name) <= 40 && !strings.HasPrefix(name, "langfuse") &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// CreateScore sends one score, which gets its time from the server's clock. Prefer
// CreateScores, unless the server lacks its endpoint. A success means that the score is queued.
// Safe to repeat; retried. Errors: those of Validate, *APIError, *ConnectionError.
//
// API: POST /api/public/scores
func (c *Client) CreateScore(ctx context.Context, score ScoreCreate) error {
	if err := score.Validate(); err != nil {
		return usageError("score %q (%s): %w", score.Name, score.ID, err)
	}
	_, err := call[struct{}](ctx, c, post("scores"), score, "score %q (%s)", score.Name, score.ID)
	return err
}

// DeleteScore requests the deletion of a score. The server queues the request for half a minute
// or longer. The request has no effect if the server processes it before it has stored the
// score: call DeleteScore when the score can be read, and check later that it is gone. Safe to
// repeat; retried. Errors: *APIError, *ConnectionError.
//
// API: DELETE /api/public/scores/{id}
func (c *Client) DeleteScore(ctx context.Context, id string) error {
	r := request{method: http.MethodDelete, path: "scores/" + url.PathEscape(id)}
	if _, err := c.do(ctx, r, nil); err != nil {
		return fmt.Errorf("deleting score %s: %w", id, err)
	}
	return nil
}

// Score is a score as the server returns it.
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

// ScoreSubject identifies the object that a score belongs to.
type ScoreSubject struct {
	Kind    string `json:"kind"` // trace, observation, session or experiment
	ID      string `json:"id"`
	TraceID string `json:"traceId"` // the trace of an observation
}

// ScoresQuery selects scores. A score matches a list if it matches any of its elements, which
// must not contain commas: a name that does is a *UsageError. Empty fields match all scores.
type ScoresQuery struct {
	IDs, Names []string
	// At most one of TraceIDs and ExperimentID may be set; both are a *UsageError.
	TraceIDs     []string
	ExperimentID string // selects the scores of the run itself, not of its items
	Limit        int    // scores per page, at most 100; 0 means 64
}

// check returns an error for a query that selects something else than it says.
func (q ScoresQuery) check() error {
	switch {
	case len(q.TraceIDs) > 0 && q.ExperimentID != "":
		return usageError("a query selects the scores of traces or those of a run, not both")
	case slices.ContainsFunc(q.Names, func(name string) bool { return strings.Contains(name, ",") }):
		return usageError("a query cannot select scores by a name with a comma (%q): select them from the result", q.Names)
	}
	return nil
}

// ListScores yields scores with their details, subject and annotation. It requires
// Capabilities.ScoresV3 (v3 from 3.179, and v4), and its lists must fit into a URL. ReadScores
// works on all servers and with lists of any length. A score appears some seconds after it was
// sent. Retried; the first error ends the iteration.
//
// API: GET /api/public/v3/scores
func (c *Client) ListScores(ctx context.Context, q ScoresQuery) iter.Seq2[Score, error] {
	if err := q.check(); err != nil {
		return func(yield func(Score, error) bool) { yield(Score{}, err) }
	}
	query := url.Values{"fields": {"details,subject,annotation"}}
	setList(query, "id", q.IDs)
	setList(query, "name", q.Names)
	setList(query, "traceId", q.TraceIDs)
	setText(query, "experimentId", q.ExperimentID)
	return listCursor[Score](ctx, c, "v3/scores", query, q.Limit, maxPageLimit)
}

// ScoreType determines how to interpret the value of a score.
type ScoreType string

// The types of scores. ScoreCorrection can only be read; its value is a text.
const (
	ScoreNumeric     ScoreType = "NUMERIC"
	ScoreBoolean     ScoreType = "BOOLEAN"
	ScoreCategorical ScoreType = "CATEGORICAL"
	ScoreText        ScoreType = "TEXT"
	ScoreCorrection  ScoreType = "CORRECTION"
)

// ScoreValue is a number or a text. The zero value is neither; servers return it for an empty
// category. Values can be compared with ==. Langfuse writes a boolean as 0/1 or as false/true,
// depending on the endpoint; in a ScoreValue it is always 0 or 1.
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

// Number returns the number; ok is false if the value is not a number.
func (v ScoreValue) Number() (number float64, ok bool) {
	number, ok = v.value.(float64)
	return number, ok
}

// Text returns the text; ok is false if the value is not a text.
func (v ScoreValue) Text() (text string, ok bool) {
	text, ok = v.value.(string)
	return text, ok
}

// String formats the value for people. It returns "" for the zero value.
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

// UnmarshalJSON reads a score in the form of any endpoint. v3/scores has a typed value and a
// subject. v2/scores and traces have the ids at the top level, the text in stringValue and a 0
// in value.
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
	if flat.StringValue != nil && s.Type != ScoreNumeric && s.Type != ScoreBoolean {
		s.Value = TextValue(*flat.StringValue)
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

// TraceID returns the id of the trace that the score, or the observation of the score, belongs
// to. It is empty for scores of runs and sessions.
func (s Score) TraceID() string {
	if s.Subject.Kind == "trace" {
		return s.Subject.ID
	}
	return s.Subject.TraceID
}

// ScoreConfig defines the name, type and range of a kind of score. Annotators select from these
// configurations.
type ScoreConfig struct {
	ID   string    `json:"id,omitempty"`
	Name string    `json:"name"` // 1 to 35 characters
	Type ScoreType `json:"dataType"`
	// Min and Max limit the values. Nil means no limit. They are always nil for ScoreBoolean.
	Min         *float64 `json:"minValue,omitempty"`
	Max         *float64 `json:"maxValue,omitempty"`
	Description string   `json:"description,omitempty"`
	Archived    bool     `json:"isArchived,omitempty"`
}

// ListScoreConfigs yields the score configurations of the project, including archived ones, the
// newest first. Names are not unique. Works on all servers. Retried; the first error ends the
// iteration.
//
// API: GET /api/public/score-configs
func (c *Client) ListScoreConfigs(ctx context.Context) iter.Seq2[ScoreConfig, error] {
	return listPages[ScoreConfig](ctx, c, "score-configs", url.Values{}, maxPageLimit)
}

// CreateScoreConfig creates a score configuration and returns it. It ignores config.ID and
// config.Archived, which the server sets. Not safe to repeat, because every call creates
// another configuration; retried only after 429. Errors: *APIError, *ConnectionError.
//
// API: POST /api/public/score-configs
func (c *Client) CreateScoreConfig(ctx context.Context, config ScoreConfig) (ScoreConfig, error) {
	config.ID, config.Archived = "", false
	return call[ScoreConfig](ctx, c, postOnce("score-configs"), config, "score configuration %q", config.Name)
}
