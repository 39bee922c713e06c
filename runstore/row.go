package runstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// outcomeRow is an outcome ready to be written: checked, and its detail
// encoded, by the one who commits it; only the scores are left to the writer,
// who owns the list of score names.
type outcomeRow struct {
	outcome.Outcome
	started, ended sql.NullInt64
	tokens         json.RawMessage
	body, large    []byte
	packed         []byte          // large, as it is written
	size           int             // of body and large, which are let go when written
	source         *dataset.Item   // where the publisher is to have it from memory
	brief          json.RawMessage // in place of Output there; nil is all of it
}

// body is the form of the detail column, of which sums need all. Notes belong to the
// scores of the row, one by one. Output, calls and explanation are not in it, but in the
// column large, which is a detail with nothing else (in files of version 1 they are).
type body struct {
	outcome.Detail
	Notes []note `json:"notes,omitempty"`
}

// note is the long part of a score.
type note struct {
	Comment string         `json:"comment,omitempty"`
	Counts  outcome.Counts `json:"counts,omitempty"`
}

func (n note) write(w *textutil.JSONWriter) {
	w.TextIf("comment", n.Comment)
	n.Counts.WriteIf(w)
}

func badOutcome(o outcome.Outcome, err error) error {
	return fmt.Errorf("outcome of item %q, trial %d, attempt %d: %w", o.Item, o.Trial, o.Attempt, err)
}

// newOutcomeRow encodes what is large into scratch, or into memory of its own where that is
// too little.
func newOutcomeRow(o outcome.Outcome, scratch []byte) (*outcomeRow, error) {
	if err := checkOutcome(o); err != nil {
		return nil, badOutcome(o, err)
	}
	o.Class = outcome.Class(strings.ToValidUTF8(string(o.Class), "\uFFFD"))
	row := &outcomeRow{started: nanoseconds(o.Started), ended: nanoseconds(o.Ended)}
	o.Started, o.Ended = instant(row.started), instant(row.ended)
	if o.Usage != (outcome.Usage{}) {
		u := o.Usage
		row.tokens = fmt.Appendf(nil, "[%d,%d,%d,%d]", u.Input, u.Output, u.Cached, u.Reasoning)
	}
	err := compactAll(&o.Detail)
	if err == nil {
		row.body, row.large, err = encodeDetail(o, scratch[:0])
	}
	if row.size = len(row.body) + len(row.large); err == nil && row.size > maxValue {
		err = fmt.Errorf("it has %d bytes, more than %d", row.size, maxValue)
	}
	if err != nil {
		return nil, badOutcome(o, err)
	}
	row.Outcome, row.packed = o, row.large
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
	if !isFinite(o.CostUSD) {
		problems = append(problems, errors.New("its cost is not a finite number"))
	}
	for _, s := range o.Scores {
		if !isFinite(s.Value) || !isFinite(s.Weight) {
			problems = append(problems, fmt.Errorf("score %s is not a finite number; an undefined one has no value", s.Name))
		}
	}
	for _, t := range []time.Time{o.Started, o.Ended} {
		if !t.IsZero() && !time.Unix(0, t.UnixNano()).Equal(t) {
			problems = append(problems, fmt.Errorf("time %v is outside of the years 1678 to 2262", t))
		}
	}
	return errors.Join(problems...)
}

// isFinite reports whether a number is finite, or not there.
func isFinite(v *float64) bool { return v == nil || !math.IsNaN(*v) && !math.IsInf(*v, 0) }

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

// compactAll checks the JSON of a detail and leaves out white space between its tokens.
func compactAll(d *outcome.Detail) error {
	d.Calls = slices.Clone(d.Calls)
	raws := []*json.RawMessage{&d.Output, &d.Explanation}
	for i := range d.Calls {
		c := &d.Calls[i]
		c.Started, c.Ended = c.Started.Round(0), c.Ended.Round(0) // as they are read back
		raws = append(raws, &c.Parameters, &c.Input, &c.Output)
	}
	for _, raw := range raws {
		text, err := compact("detail", *raw)
		if err != nil {
			return err
		}
		*raw = text
	}
	return nil
}

// encodeDetail returns the JSON of a detail, with the notes of the scores, and appends that of
// what is large in it.
func encodeDetail(o outcome.Outcome, scratch []byte) (text, large []byte, err error) {
	size := len(o.Output) + len(o.Explanation) + 100
	for _, call := range o.Calls {
		size += len(call.Parameters) + len(call.Input) + len(call.Output) + 500
	}
	long := textutil.JSONWriter{B: append(slices.Grow(scratch, size), '{')}
	outcome.Detail{Output: o.Output, Calls: o.Calls, Explanation: o.Explanation}.Write(&long)
	long.Close()
	o.Output, o.Calls, o.Explanation = nil, nil, nil
	short := textutil.JSONWriter{B: append(make([]byte, 0, 1024), '{')}
	o.Detail.Write(&short)
	if notes := notesOf(o.Scores); notes != nil {
		textutil.WriteJSONList(&short, "notes", notes, note.write)
	}
	short.Close()
	return short.B, long.B, errors.Join(long.Err, short.Err)
}

// briefBody is what sums need of a body: to read the counts of notes takes most of the time.
type briefBody struct {
	outcome.Detail
	Notes []struct {
		Comment string `json:"comment"`
	} `json:"notes"`
}

// decodeBriefly is json.Unmarshal without what is large, and without the counts of notes.
func (b *body) decodeBriefly(text []byte) error {
	var short briefBody
	err := json.Unmarshal(text, &short)
	b.Detail = short.Detail
	b.Output, b.Calls, b.Explanation = nil, nil, nil
	for _, n := range short.Notes {
		b.Notes = append(b.Notes, note{Comment: n.Comment})
	}
	return err
}

// decodeDetail puts the detail, and the notes of the scores, into the outcome; what is
// large only where it is given, or where the detail has it and d says so.
func decodeDetail(text, rest []byte, o *outcome.Outcome, d depth) (err error) {
	var b body
	if d == brief {
		err = b.decodeBriefly(text)
	} else {
		err = json.Unmarshal(text, &b)
	}
	for key, value := range textutil.JSONMembers(rest) { // its checksum says that it is as it was written
		switch key {
		case "output":
			b.Output = bytes.Clone(value)
		case "explanation":
			b.Explanation = bytes.Clone(value)
		case "calls":
			if d == full {
				err = errors.Join(err, json.Unmarshal(value, &b.Calls))
			}
		}
	}
	if err != nil {
		return fmt.Errorf("its detail cannot be decoded: %w", err)
	}
	o.Detail = b.Detail
	return annotate(o, b.Notes)
}

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

const outcomeColumns = "o.oid, o.published, i.id, o.seq, o.trial, o.attempt, o.class, o.started, o.ended, o.latency, o.tokens, o.cost, o.scores"

// outcomeScan reads the rows of view.outcomes: outcomeColumns and the checksum; but
// where it is shallow, also those of the detail, and from judged on, what is large.
type outcomeScan struct {
	view
	depth depth
	names *scoreNames
}

// scan also returns the size of the row.
func (c outcomeScan) scan(ctx context.Context, rows *sql.Rows) (s Pending, size int, err error) {
	var (
		started, ended sql.NullInt64
		cost           sql.NullFloat64
		tokens, scores sql.RawBytes
		text, packed   sql.RawBytes
		written, below sql.NullInt64 // the checksums of row and detail
		beside         sql.NullInt64 // and of what is large
	)
	into := []any{&s.OID, &s.Published, &s.Item, &s.Seq, &s.Trial, &s.Attempt, &s.Class,
		&started, &ended, &s.Latency, &tokens, &cost, &scores, &written, &text, &below, &packed, &beside}
	if err := rows.Scan(into[:len(into)-[...]int{shallow: 4, brief: 2, judged: 0, full: 0}[c.depth]]...); err != nil {
		return s, 0, err
	}
	s.Started, s.Ended = instant(started), instant(ended)
	if cost.Valid {
		s.CostUSD = &cost.Float64
	}
	if s.Scores, err = decodeScores(scores, c.names); err == nil {
		s.Usage, err = decodeTokens(tokens)
	}
	if err == nil {
		err = sumOfOutcome(s.Outcome, started, ended, tokens, scores).is(written, "its row")
	}
	var rest []byte
	if err == nil && c.depth != shallow {
		if err = sumOfDetail(s.Outcome, text).is(below, "its detail"); err == nil {
			rest, err = c.unpack(ctx, packed)
		}
		if err == nil && rest != nil {
			err = sumOfDetail(s.Outcome, rest).is(beside, "its output")
		}
		if err == nil {
			err = decodeDetail(text, rest, &s.Outcome, c.depth)
		}
	}
	if err != nil {
		err = badOutcome(s.Outcome, err)
	}
	return s, len(scores) + len(text) + len(rest) + 200, err
}

func decodeTokens(tokens []byte) (outcome.Usage, error) {
	if len(tokens) == 0 {
		return outcome.Usage{}, nil
	}
	var n [4]int64
	if err := json.Unmarshal(tokens, &n); err != nil {
		return outcome.Usage{}, fmt.Errorf("its tokens cannot be decoded: %w", err)
	}
	return outcome.Usage{Input: n[0], Output: n[1], Cached: n[2], Reasoning: n[3]}, nil
}
