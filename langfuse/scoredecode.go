package langfuse

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

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
	switch {
	case flat.ObservationID != "":
		s.Subject = ScoreSubject{Kind: "observation", ID: flat.ObservationID, TraceID: flat.TraceID}
	case flat.TraceID != "":
		s.Subject = ScoreSubject{Kind: "trace", ID: flat.TraceID}
	case flat.DatasetRunID != "":
		s.Subject = ScoreSubject{Kind: "experiment", ID: flat.DatasetRunID}
	case flat.SessionID != "":
		s.Subject = ScoreSubject{Kind: "session", ID: flat.SessionID}
	}
	return nil
}

// TraceID returns the trace that the score is about, itself or through one of
// its observations; empty for scores of runs and sessions.
func (s Score) TraceID() string {
	switch s.Subject.Kind {
	case "trace":
		return s.Subject.ID
	case "observation":
		return s.Subject.TraceID
	}
	return ""
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
