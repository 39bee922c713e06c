package runstore

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"extraction-experiment/outcome"
)

// outcomeRow is an outcome ready to be written: checked, and its detail
// encoded, by the one who commits it; only the scores are left to the writer,
// who owns the list of score names.
type outcomeRow struct {
	outcome.Outcome
	started, ended sql.NullInt64
	tokens         sql.NullString
	body           []byte
}

// body is the form of the detail column. Notes belong to the scores of the row,
// one by one.
type body struct {
	outcome.Detail
	Notes []note `json:"notes,omitempty"`
}

// note is the long part of a score.
type note struct {
	Comment string           `json:"comment,omitempty"`
	Counts  map[string]int64 `json:"counts,omitempty"`
}

func badOutcome(o outcome.Outcome, err error) error {
	return fmt.Errorf("outcome of item %q, trial %d, attempt %d: %w", o.Item, o.Trial, o.Attempt, err)
}

func newOutcomeRow(o outcome.Outcome) (*outcomeRow, error) {
	if err := checkOutcome(o); err != nil {
		return nil, badOutcome(o, err)
	}
	o.Class = outcome.Class(strings.ToValidUTF8(string(o.Class), "\uFFFD"))
	row := &outcomeRow{Outcome: o, started: nanoseconds(o.Started), ended: nanoseconds(o.Ended)}
	if o.Usage != (outcome.Usage{}) {
		u := o.Usage
		row.tokens = sql.NullString{String: fmt.Sprintf("[%d,%d,%d,%d]", u.Input, u.Output, u.Cached, u.Reasoning), Valid: true}
	}
	var err error
	if row.body, err = encodeBody(body{o.Detail, notesOf(o.Scores)}); err != nil {
		return nil, badOutcome(o, err)
	}
	if len(row.body) > maxValue {
		return nil, badOutcome(o, fmt.Errorf("it has %d bytes, more than %d", len(row.body), maxValue))
	}
	return row, nil
}

// checkOutcome refuses what the file could not hold or would change.
func checkOutcome(o outcome.Outcome) error {
	var problems []error
	if o.Trial < 1 || o.Attempt < 1 {
		problems = append(problems, errors.New("trials and attempts count from 1"))
	}
	if (o.Class == outcome.OK) != (o.Failure == nil) {
		problems = append(problems, fmt.Errorf("class is %q, and failure must be set exactly when it is not empty", o.Class))
	}
	if o.CostUSD != nil && !isFinite(*o.CostUSD) {
		problems = append(problems, errors.New("its cost is no finite number"))
	}
	for _, s := range o.Scores {
		if s.Value != nil && !isFinite(*s.Value) || s.Weight != nil && !isFinite(*s.Weight) {
			problems = append(problems, fmt.Errorf("score %s is no finite number; an undefined one has no value", s.Name))
		}
	}
	for _, t := range []time.Time{o.Started, o.Ended} {
		if !t.IsZero() && !time.Unix(0, t.UnixNano()).Equal(t) {
			problems = append(problems, fmt.Errorf("time %v is outside of the years 1678 to 2262", t))
		}
	}
	return errors.Join(problems...)
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func nanoseconds(t time.Time) sql.NullInt64 {
	if t.IsZero() {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: t.UnixNano(), Valid: true}
}

func instant(ns sql.NullInt64) time.Time {
	if !ns.Valid {
		return time.Time{}
	}
	return time.Unix(0, ns.Int64).UTC()
}

func notesOf(scores []outcome.Score) []note {
	notes, any := make([]note, len(scores)), false
	for i, s := range scores {
		notes[i] = note{s.Comment, s.Counts}
		any = any || s.Comment != "" || len(s.Counts) > 0
	}
	if !any {
		return nil
	}
	return notes
}

func encodeBody(b body) ([]byte, error) {
	var buffer bytes.Buffer
	enc := json.NewEncoder(&buffer)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(b); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// decodeDetail puts the detail, and the notes of the scores, into the outcome; what is long only where full.
func decodeDetail(text []byte, o *outcome.Outcome, d depth) error {
	var b body
	var into any = &b
	if d == brief {
		into = &struct {
			*body
			Output      unread `json:"output"`
			Calls       unread `json:"calls"`
			Explanation unread `json:"explanation"`
		}{body: &b}
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("its detail cannot be decoded: %w", err)
	}
	o.Detail = b.Detail
	return annotate(o, b.Notes)
}

// unread is a value that is passed over.
type unread struct{}

func (*unread) UnmarshalJSON([]byte) error { return nil }

// annotate gives the scores their long parts.
func annotate(o *outcome.Outcome, notes []note) error {
	if len(notes) > 0 && len(notes) != len(o.Scores) {
		return fmt.Errorf("its detail has notes on %d scores of %d", len(notes), len(o.Scores))
	}
	for i, n := range notes {
		o.Scores[i].Comment, o.Scores[i].Counts = n.Comment, n.Counts
	}
	return nil
}

// stored is an outcome with what the publisher needs beside it.
type stored struct {
	outcome.Outcome
	oid       int64
	published Published
	bytes     int
}

const outcomeColumns = "o.oid, o.published, i.id, o.seq, o.trial, o.attempt, o.class, o.started, o.ended, o.latency, o.tokens, o.cost, o.scores"

// scanOutcome reads outcomeColumns and the checksum, and those of the detail
// after them but where it is shallow.
func scanOutcome(rows *sql.Rows, w *scoreNames, d depth) (stored, error) {
	var (
		s              stored
		started, ended sql.NullInt64
		cost           sql.NullFloat64
		tokens, scores sql.RawBytes
		text           sql.RawBytes
		written, below sql.NullInt64 // the checksums of row and detail
	)
	into := []any{&s.oid, &s.published, &s.Item, &s.Seq, &s.Trial, &s.Attempt, &s.Class,
		&started, &ended, &s.Latency, &tokens, &cost, &scores, &written, &text, &below}
	if d == shallow {
		into = into[:len(into)-2]
	}
	if err := rows.Scan(into...); err != nil {
		return s, err
	}
	s.Started, s.Ended = instant(started), instant(ended)
	if cost.Valid {
		s.CostUSD = &cost.Float64
	}
	s.bytes = len(scores) + len(text) + 200
	err := s.decode(tokens, scores, w)
	if err == nil {
		err = sumOfOutcome(s.Outcome, started, ended, tokens, scores).is(written, "its row")
	}
	if err == nil && d != shallow {
		err = sumOfDetail(s.Outcome, text).is(below, "its detail")
	}
	if err == nil && d != shallow {
		err = decodeDetail(text, &s.Outcome, d)
	}
	if err != nil {
		return s, badOutcome(s.Outcome, err)
	}
	return s, nil
}

func (s *stored) decode(tokens, scores []byte, w *scoreNames) (err error) {
	if s.Scores, err = decodeScores(scores, w); err != nil {
		return err
	}
	if len(tokens) == 0 {
		return nil
	}
	var n [4]int64
	if err := json.Unmarshal(tokens, &n); err != nil {
		return fmt.Errorf("its tokens cannot be decoded: %w", err)
	}
	s.Usage = outcome.Usage{Input: n[0], Output: n[1], Cached: n[2], Reasoning: n[3]}
	return nil
}
