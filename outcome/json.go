package outcome

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// AppendJSON appends the same JSON as encoding/json writes, without using reflection. Raw
// values must be compact JSON. The error is for a number that is not finite, or a time outside
// of the years 0 to 9999.
func (o Outcome) AppendJSON(b []byte) ([]byte, error) {
	w := textutil.JSONWriter{B: append(b, '{')}
	w.Text("item", o.Item)
	w.Int("seq", o.Seq)
	w.Int("trial", int64(o.Trial))
	w.Int("attempt", int64(o.Attempt))
	w.TextIf("class", string(o.Class))
	w.Time("started", o.Started)
	w.Time("ended", o.Ended)
	w.Int("latency_ns", int64(o.Latency))
	textutil.WriteJSONIf(&w, "usage", o.Usage, o.Usage != (Usage{}))
	w.FloatIf("cost_usd", o.CostUSD)
	if o.Scores == nil {
		w.Raw("scores", []byte("null"))
	} else {
		textutil.WriteJSONList(&w, "scores", o.Scores, Score.write)
	}
	o.Detail.Write(&w)
	return append(w.B, '}'), w.Err
}

// Write writes the members of the detail as encoding/json does. Raw values must be compact
// JSON.
func (d Detail) Write(w *textutil.JSONWriter) {
	w.Raw("output", d.Output)
	if len(d.Calls) > 0 {
		textutil.WriteJSONList(w, "calls", d.Calls, Call.write)
	}
	textutil.WriteJSONIf(w, "failure", d.Failure, d.Failure != nil)
	textutil.WriteJSONIf(w, "warnings", d.Warnings, len(d.Warnings) > 0)
	w.TextIf("worker", d.Worker)
	w.Flag("nothing_expected", d.NothingExpected)
	textutil.WriteJSONIf(w, "assumed_usage", d.Assumed, d.Assumed != (Usage{}))
	w.IntIf("from_cache", int64(d.FromCache))
	textutil.WriteJSONIf(w, "judging", d.Judging, d.Judging != nil)
	textutil.WriteJSONIf(w, "causes", d.Causes, len(d.Causes) > 0)
	if len(d.Groups) > 0 {
		textutil.WriteJSONList(w, "groups", d.Groups, Group.write)
	}
	w.Raw("explanation", d.Explanation)
	d.Counts.WriteIf(w)
}

func (c Call) write(w *textutil.JSONWriter) {
	w.Text("name", c.Name)
	w.Text("kind", c.Kind)
	w.TextIf("provider", c.Provider)
	w.TextIf("model", c.Model)
	w.Raw("parameters", c.Parameters)
	w.Raw("input", c.Input)
	w.Raw("output", c.Output)
	textutil.WriteJSONIf(w, "usage", c.Usage, c.Usage != (Usage{}))
	textutil.WriteJSONIf(w, "assumed_usage", c.Assumed, c.Assumed != (Usage{}))
	w.FloatIf("cost_usd", c.CostUSD)
	w.TextIf("finish_reason", c.Finish)
	w.IntIf("attempts", int64(c.Attempts))
	w.Flag("cached", c.Cached)
	w.Time("started", c.Started)
	w.Time("ended", c.Ended)
	w.IntIf("waited_ns", int64(c.Waited))
	w.TextIf("error", c.Error)
	textutil.WriteJSONIf(w, "warnings", c.Warnings, len(c.Warnings) > 0)
}

func (g Group) write(w *textutil.JSONWriter) {
	w.Text("kind", g.Kind)
	w.Text("name", g.Name)
	w.Int("expected", g.Expected)
	w.Int("extracted", g.Extracted)
	w.Int("matched", g.Matched)
}

func (s Score) write(w *textutil.JSONWriter) {
	w.Text("name", s.Name)
	if s.Value == nil {
		w.Raw("value", []byte("null"))
	} else {
		w.Float("value", *s.Value)
	}
	if s.Ratio != nil {
		w.Open("ratio")
		w.Int("num", s.Ratio.Num)
		w.Int("den", s.Ratio.Den)
		w.Close()
	}
	w.Flag("boolean", s.Boolean)
	w.Flag("vacuous", s.Vacuous)
	w.FloatIf("weight", s.Weight)
	w.TextIf("reason", s.Reason)
	w.TextIf("comment", s.Comment)
	s.Counts.WriteIf(w)
}

// MarshalJSON writes the counts as an object.
func (c Counts) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("null"), nil
	}
	w := textutil.JSONWriter{B: append(make([]byte, 0, 32*len(c)+2), '{')}
	c.write(&w)
	return append(w.B, '}'), nil
}

// UnmarshalJSON reads an object. The last count of a repeated name holds.
func (c *Counts) UnmarshalJSON(raw []byte) error {
	counts, valid := make(Counts, 0, 8), utf8.Valid(raw)
	ok := valid && textutil.ReadJSONObject(raw, func(key []byte, value json.RawMessage) bool {
		n, err := strconv.ParseInt(string(value), 10, 64)
		if valid = err == nil; valid {
			counts.Set(textutil.JSONText(key), n)
		}
		return valid
	})
	if ok {
		*c = counts
		return nil
	}
	var m map[string]int64 // for the errors of encoding/json
	err := json.Unmarshal(raw, &m)
	*c = CountsOf(m)
	return err
}

// WriteIf writes the counts as the member "counts", unless there are none.
func (c Counts) WriteIf(w *textutil.JSONWriter) {
	if len(c) > 0 {
		w.Open("counts")
		c.write(w)
		w.Close()
	}
}

func (c Counts) write(w *textutil.JSONWriter) {
	for _, count := range c {
		w.Int(count.Name, count.N)
	}
}
