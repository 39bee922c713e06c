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

// outcomeRow is an outcome to be written. The goroutine that commits it has checked it and
// encoded its detail. The writer encodes the scores, because it owns the list of score names.
type outcomeRow struct {
	outcome.Outcome
	started, ended sql.NullInt64
	tokens         json.RawMessage
	body, large    []byte
	packed         []byte          // large in its stored form
	size           int             // of body and large in bytes; both are dropped after the write
	source         *dataset.Item   // set if recent is to keep the row for the publisher
	brief          json.RawMessage // kept there in place of Output, unless nil
}

// body is the JSON of the column body of detail. Sums need all of it except the counts of
// Notes, which take most of the time to decode. Notes has one element for each score of the
// row. Output, calls and explanation are in the column large, as another outcome.Detail; in
// files of version 1 they are in body.
type body struct {
	outcome.Detail
	Notes []note `json:"notes,omitempty"`
}

// note is the part of a score that the row does not have.
type note struct {
	Comment string          `json:"comment,omitempty"`
	Counts  json.RawMessage `json:"counts,omitempty"`
}

func writeNote(s outcome.Score, w *textutil.JSONWriter) {
	w.TextIf("comment", s.Comment)
	s.Counts.WriteIf(w)
}

func badOutcome(o outcome.Outcome, err error) error {
	return fmt.Errorf("outcome of item %q, trial %d, attempt %d: %w", o.Item, o.Trial, o.Attempt, err)
}

// InvalidOutcomeError is the error for an outcome that a run file cannot hold, for example since
// its output is not JSON or a score is not a finite number.
type InvalidOutcomeError struct{ Err error }

// Error returns what is invalid.
func (e *InvalidOutcomeError) Error() string { return e.Err.Error() }

// newOutcomeRow checks and encodes an outcome. It encodes the large part into scratch, or into
// new memory if scratch is too small.
func newOutcomeRow(o outcome.Outcome, scratch []byte) (*outcomeRow, error) {
	if err := checkOutcome(o); err != nil {
		return nil, badOutcome(o, &InvalidOutcomeError{err})
	}
	o.Class = outcome.Class(strings.ToValidUTF8(string(o.Class), "\uFFFD"))
	row := &outcomeRow{started: nanoseconds(o.Started), ended: nanoseconds(o.Ended)}
	o.Started, o.Ended = timeOf(row.started), timeOf(row.ended)
	if o.Usage != (outcome.Usage{}) {
		u := o.Usage
		row.tokens = fmt.Appendf(nil, "[%d,%d,%d,%d]", u.Input, u.Output, u.Cached, u.Reasoning)
	}
	err := compactDetail(&o.Detail)
	if err == nil {
		row.body, row.large, err = encodeDetail(o, scratch[:0])
	}
	if row.size = len(row.body) + len(row.large); err == nil && row.size > maxValue {
		err = fmt.Errorf("it has %d bytes, more than %d", row.size, maxValue)
	}
	if err != nil {
		return nil, badOutcome(o, &InvalidOutcomeError{err})
	}
	row.Outcome, row.packed = o, row.large
	return row, nil
}

// checkOutcome returns an error for values that the file cannot store unchanged, or that no run has.
func checkOutcome(o outcome.Outcome) error {
	var problems textutil.Problems
	problems.Add(o.Trial < 1 || o.Attempt < 1, "trials and attempts count from 1")
	if (o.Class == outcome.OK) != (o.Failure == nil) {
		problems.Add(true, "class is %q, and failure must be set exactly when it is not empty", o.Class)
	}
	problems.Add(o.Latency < 0, "its latency is negative")
	problems.Join(checkAmounts(o.Usage, o.Assumed, o.CostUSD, 0))
	if j := o.Judging; j != nil {
		problems.Join(checkAmounts(j.Usage, j.Assumed, j.CostUSD, 0))
	}
	for i := range o.Calls {
		c := &o.Calls[i]
		problems.Join(checkAmounts(c.Usage, c.Assumed, c.CostUSD, c.Waited))
	}
	for _, s := range o.Scores { // without the arguments of Add, which are new memory
		switch v, r := s.Value, s.Ratio; {
		case !isFinite(v) || !isFinite(s.Weight):
			problems.Add(true, "score %s is not a finite number; an undefined one has no value", s.Name)
		case v != nil && r != nil && !(*v >= 0 && *v <= 1): // a custom scorer may return any number without a ratio
			problems.Add(true, "score %s is %g, and a share is from 0 to 1", s.Name, *v)
		case r != nil && !r.Usable():
			problems.Add(true, "score %s is made of %d and %d, which count nothing", s.Name, r.Num, r.Den)
		case s.Weight != nil && *s.Weight < 0:
			problems.Add(true, "the weight of score %s is negative", s.Name)
		}
	}
	for _, g := range o.Groups {
		if min(g.Expected, g.Extracted, g.Matched) < 0 {
			problems.Add(true, "a count of %s is negative", g.Kind)
		}
	}
	for _, t := range []time.Time{o.Started, o.Ended} {
		if !t.IsZero() && !time.Unix(0, t.UnixNano()).Equal(t) {
			problems.Add(true, "time %v is outside of the years 1678 to 2262", t)
		}
	}
	return errors.Join(problems...)
}

// checkAmounts returns an error for what no call can have used.
func checkAmounts(usage, assumed outcome.Usage, cost *float64, waited time.Duration) error {
	switch u, a := usage, assumed; {
	case min(u.Input, u.Output, u.Cached, u.Reasoning, a.Input, a.Output, a.Cached, a.Reasoning) < 0:
		return errors.New("a number of tokens is negative")
	case !isFinite(cost) || cost != nil && *cost < 0:
		return errors.New("a cost is negative or not a finite number")
	case waited < 0:
		return errors.New("the waiting of a call is negative")
	}
	return nil
}

// isFinite reports whether a number is finite or nil.
func isFinite(v *float64) bool { return v == nil || !math.IsNaN(*v) && !math.IsInf(*v, 0) }

func nanoseconds(t time.Time) sql.NullInt64 {
	if t.IsZero() {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: t.UnixNano(), Valid: true}
}

func timeOf(ns sql.NullInt64) time.Time {
	if !ns.Valid {
		return time.Time{}
	}
	return time.Unix(0, ns.Int64).UTC()
}

// compactDetail checks the JSON values of a detail and removes white space between their
// tokens.
func compactDetail(d *outcome.Detail) error {
	d.Calls = slices.Clone(d.Calls)
	var err error
	replace := func(what string, raw *json.RawMessage) {
		if err == nil {
			*raw, err = compact(what, *raw)
		}
	}
	replace("output", &d.Output)
	replace("explanation", &d.Explanation)
	for i := range d.Calls {
		c := &d.Calls[i]
		c.Started, c.Ended = c.Started.Round(0), c.Ended.Round(0) // removes the monotonic clock, which is not stored
		replace("call's parameters", &c.Parameters)
		replace("call's input", &c.Input)
		replace("call's output", &c.Output)
	}
	return err
}

// encodeDetail returns the columns body and large of a detail. It appends large to scratch.
func encodeDetail(o outcome.Outcome, scratch []byte) (text, large []byte, err error) {
	size := len(o.Output) + len(o.Explanation) + 100
	for _, call := range o.Calls {
		size += len(call.Parameters) + len(call.Input) + len(call.Output) + 500
	}
	largeJSON := textutil.JSONWriter{B: append(slices.Grow(scratch, size), '{')}
	outcome.Detail{Output: o.Output, Calls: o.Calls, Explanation: o.Explanation}.Write(&largeJSON)
	largeJSON.Close()
	o.Output, o.Calls, o.Explanation = nil, nil, nil
	bodyJSON := textutil.JSONWriter{B: append(make([]byte, 0, 1024), '{')}
	o.Detail.Write(&bodyJSON)
	if slices.ContainsFunc(o.Scores, func(s outcome.Score) bool { return s.Comment != "" || len(s.Counts) > 0 }) {
		textutil.WriteJSONList(&bodyJSON, "notes", o.Scores, writeNote)
	}
	bodyJSON.Close()
	return bodyJSON.B, largeJSON.B, errors.Join(largeJSON.Err, bodyJSON.Err)
}

// decodeDetail decodes the columns body and large into the detail and the scores of an outcome,
// as far as d requires.
func decodeDetail(text, large []byte, o *outcome.Outcome, d Depth) error {
	var b body
	err := json.Unmarshal(text, &b)
	if d == Brief {
		b.Output, b.Calls, b.Explanation = nil, nil, nil
	}
	for key, value := range textutil.JSONMembers(large) { // valid, according to its checksum
		switch key {
		case "output":
			b.Output = bytes.Clone(value)
		case "explanation":
			b.Explanation = bytes.Clone(value)
		case "calls":
			if d == Full {
				err = errors.Join(err, json.Unmarshal(value, &b.Calls))
			}
		}
	}
	o.Detail = b.Detail
	if err == nil && len(b.Notes) > 0 && len(b.Notes) != len(o.Scores) {
		return fmt.Errorf("its detail has notes on %d scores of %d", len(b.Notes), len(o.Scores))
	}
	for i, n := range b.Notes {
		if err != nil {
			break
		}
		o.Scores[i].Comment = n.Comment
		if d != Brief && n.Counts != nil {
			err = o.Scores[i].Counts.UnmarshalJSON(n.Counts)
		}
	}
	if err != nil {
		return fmt.Errorf("its detail cannot be decoded: %w", err)
	}
	return nil
}

const outcomeColumns = "o.oid, o.published, i.id, o.seq, o.trial, o.attempt, o.class, o.started, o.ended, o.latency, o.tokens, o.cost, o.scores"

// outcomeScan scans the rows of view.outcomes: outcomeColumns, the correction, the checksum, and body and large
// with their checksums, which are NULL if the depth does not require them.
type outcomeScan struct {
	view
	depth Depth
	names *scoreNames
}

// scan also returns the size of the row.
func (c outcomeScan) scan(ctx context.Context, rows *sql.Rows) (s Pending, size int, err error) {
	var (
		started, ended    sql.NullInt64
		cost              sql.NullFloat64
		tokens, scores    sql.RawBytes
		corrected         sql.RawBytes
		text, packed      sql.RawBytes
		rowSum, detailSum sql.NullInt64 // checksums of the row and of its detail
		largeSum          sql.NullInt64 // checksum of large
	)
	err = rows.Scan(&s.OID, &s.Published, &s.Item, &s.Seq, &s.Trial, &s.Attempt, &s.Class,
		&started, &ended, &s.Latency, &tokens, &cost, &scores, &corrected, &rowSum, &text, &detailSum, &packed, &largeSum)
	if err != nil {
		return s, 0, err
	}
	s.Started, s.Ended = timeOf(started), timeOf(ended)
	if cost.Valid {
		s.CostUSD = &cost.Float64
	}
	if s.Scores, err = decodeScores(scores, c.names); err == nil {
		s.Usage, err = decodeTokens(tokens)
	}
	if err == nil && corrected != nil {
		err = json.Unmarshal(corrected, &s.Corrected)
	}
	if err == nil {
		err = sumOfOutcome(s.Outcome, started, ended, tokens, scores).check(rowSum, "its row")
	}
	var large []byte
	if err == nil && c.depth != RowOnly {
		if err = sumOfDetail(s.Outcome, text).check(detailSum, "its detail"); err == nil {
			large, err = c.unpack(ctx, packed)
		}
		if err == nil && large != nil {
			err = sumOfDetail(s.Outcome, large).check(largeSum, "its output")
		}
		if err == nil {
			err = decodeDetail(text, large, &s.Outcome, c.depth)
		}
		if err == nil { // the oldest files have no checksums
			err = checkOutcome(s.Outcome)
		}
	}
	if err != nil {
		err = badOutcome(s.Outcome, err)
	}
	return s, len(scores) + len(text) + len(large) + 200, err
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
