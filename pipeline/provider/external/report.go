package external

import (
	"cmp"
	"encoding/json"
	"fmt"

	"extraction-experiment/outcome"
)

// maxCalls bounds the calls that one answer may report.
const maxCalls = 1000

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
