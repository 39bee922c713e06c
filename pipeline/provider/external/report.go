package external

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"extraction-experiment/outcome"
)

// The limits of what a pipeline reports about itself.
const (
	maxCalls  = 1000
	maxTokens = 1e12
	maxCost   = 1e6 // USD
	maxName   = 200 // bytes
)

// reporter reads what a pipeline says about its own work.
type reporter struct {
	span *outcome.Call
	warn func(format string, args ...any)
}

// read returns the calls that an answer stands for. A usage or cost at the top is
// used where no call states one of its own, so that nothing counts twice.
func (r reporter) read(fields map[string]json.RawMessage) []outcome.Call {
	if model := r.text("model", fields["model"]); model != "" {
		r.span.Model = model
	}
	total := generation(*r.span)
	total.Usage = r.usage("usage", fields["usage"])
	total.CostUSD = r.cost("cost_usd", fields["cost_usd"])
	if absent(fields["calls"]) {
		return []outcome.Call{total}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(fields["calls"], &list); err != nil {
		r.warn("calls: expected a list")
		return []outcome.Call{total}
	}
	kept := list[:min(len(list), maxCalls)]
	calls := make([]outcome.Call, 0, len(kept))
	for i, raw := range kept {
		if call, ok := r.call(fmt.Sprintf("calls[%d]", i), raw); ok {
			calls = append(calls, call)
		}
	}
	if len(list) > maxCalls {
		r.warn("calls: the first %d of %d are kept; the others count nowhere", maxCalls, len(list))
	}
	order(calls)
	return withTotal(calls, total, len(calls) < len(list))
}

// withTotal adds what is stated for all calls together and by none of them.
//
// A run's cost is unknown as soon as that of one generation is. So where the
// total alone has a cost, the calls become spans; where the calls have costs, a
// usage in total is a span; and where calls were lost, a generation of unknown
// cost stands for them.
func withTotal(calls []outcome.Call, total outcome.Call, lost bool) []outcome.Call {
	costs := false
	for _, c := range calls {
		if c.Usage != (outcome.Usage{}) {
			total.Usage = outcome.Usage{}
		}
		costs = costs || c.CostUSD != nil
	}
	switch {
	case costs:
		total.CostUSD = nil
		if !lost {
			total.Kind = "span"
		}
	case total.CostUSD != nil:
		for i := range calls {
			calls[i].Kind = "span"
		}
	}
	if total.Usage == (outcome.Usage{}) && total.CostUSD == nil && !lost {
		return calls
	}
	return append(calls, total)
}

// call reads one reported call.
func (r reporter) call(path string, raw json.RawMessage) (outcome.Call, bool) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		r.warn("%s: expected an object", path)
		return outcome.Call{}, false
	}
	text := func(key string) string { return r.text(path+"."+key, fields[key]) }
	c := outcome.Call{
		Name:       cmp.Or(text("name"), "call"),
		Kind:       "generation",
		Provider:   cmp.Or(text("provider"), Name),
		Model:      text("model"),
		Parameters: fields["parameters"],
		Input:      present(fields["input"]),
		Output:     present(fields["output"]),
		Usage:      r.usage(path+".usage", fields["usage"]),
		CostUSD:    r.cost(path+".cost_usd", fields["cost_usd"]),
		Finish:     text("finish_reason"),
		Attempts:   1,
		Error:      text("error"),
	}
	if text("kind") == "span" {
		c.Kind = "span"
	}
	if c.Parameters = present(c.Parameters); len(c.Parameters) > 0 && c.Parameters[0] != '{' {
		r.warn("%s.parameters: expected an object", path)
		c.Parameters = nil
	}
	var ok bool
	c.Started, c.Ended, ok = within(r.instant(path+".started", fields["started"]), r.instant(path+".ended", fields["ended"]), *r.span)
	if !ok {
		r.warn("%s: it ends before it begins; the times of the whole request stand in", path)
	}
	return c, true
}

func (r reporter) text(path string, raw json.RawMessage) string {
	var s string
	if absent(raw) {
		return ""
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		r.warn("%s: expected a text", path)
		return ""
	}
	limit := maxName
	if strings.HasSuffix(path, ".error") {
		limit = outcome.MaxMessage
	}
	return excerpt([]byte(s), limit)
}

// usage reads {"input", "output", "cached", "reasoning"}, whole numbers of
// tokens.
func (r reporter) usage(path string, raw json.RawMessage) outcome.Usage {
	if absent(raw) {
		return outcome.Usage{}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		r.warn("%s: expected an object with input and output", path)
		return outcome.Usage{}
	}
	if absent(fields["input"]) && absent(fields["output"]) {
		r.warn("%s: it has neither input nor output, the numbers of tokens", path)
	}
	count := func(key string) int64 {
		n, ok := r.number(path+"."+key, fields[key], maxTokens)
		if ok && n != float64(int64(n)) {
			r.warn("%s.%s: expected a whole number", path, key)
			return 0
		}
		return int64(n)
	}
	return outcome.Usage{Input: count("input"), Output: count("output"), Cached: count("cached"), Reasoning: count("reasoning")}
}

// cost reads an amount; nil where it is unknown.
func (r reporter) cost(path string, raw json.RawMessage) *float64 {
	n, ok := r.number(path, raw, maxCost)
	if !ok {
		return nil
	}
	return &n
}

func (r reporter) number(path string, raw json.RawMessage, most float64) (float64, bool) {
	if absent(raw) {
		return 0, false
	}
	var n float64
	if err := json.Unmarshal(raw, &n); err != nil || n < 0 || n > most {
		r.warn("%s: expected a number from 0 to %.0f", path, most)
		return 0, false
	}
	return n, true
}

// instant reads a time of RFC 3339; nil where there is none.
func (r reporter) instant(path string, raw json.RawMessage) *time.Time {
	if absent(raw) {
		return nil
	}
	var at time.Time
	if err := json.Unmarshal(raw, &at); err != nil || at.Year() < 1970 || at.Year() > 9999 {
		r.warn("%s: expected a time such as 2026-01-31T12:00:00Z", path)
		return nil
	}
	return &at
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// present returns nil for null.
func present(raw json.RawMessage) json.RawMessage {
	if absent(raw) {
		return nil
	}
	return raw
}
