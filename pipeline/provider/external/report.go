package external

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// The limits of what an answer says of itself.
const (
	maxCalls    = 1000
	maxFound    = 50_000 // entities, and relationships
	maxWarnings = 30
	maxWarning  = 500 // bytes
	maxName     = 200 // bytes
	maxTokens   = 1e12
	maxCost     = 1e6 // USD
)

// answer is what an answer comes to.
type answer struct {
	fields   map[string]json.RawMessage
	found    extraction.Extraction
	span     outcome.Call
	calls    []outcome.Call
	warnings []string
	err      error
}

// all returns the calls, the span first, with what is to be said about them.
func (a *answer) all() []outcome.Call {
	span := a.span
	if a.err != nil {
		span.Error = a.problem()
	}
	if len(a.warnings) > 0 {
		span.Warnings = a.warnings
	}
	return append([]outcome.Call{span}, a.calls...)
}

func (a *answer) problem() string { return outcome.FailureOf(a.err, outcome.Provider).Message }

func (a *answer) warn(format string, args ...any) {
	if len(a.warnings) == maxWarnings {
		a.warnings = append(a.warnings, "there are more warnings")
	}
	if len(a.warnings) < maxWarnings {
		a.warnings = append(a.warnings, textutil.Cut(fmt.Sprintf(format, args...), maxWarning))
	}
}

// generation is the model call that stands for a pipeline which reports none.
func generation(span outcome.Call) outcome.Call {
	span.Name, span.Kind = "external-model", "generation"
	return span
}

// readReport takes a JSON object apart. What it says about itself (calls, usage,
// cost) is read tolerantly, since it holds for a failure as well: what cannot be
// used is named in a warning. A failure that it states is the answer's error.
func readReport(raw []byte, span outcome.Call) *answer {
	a := &answer{span: span, warnings: []string{}}
	if err := json.Unmarshal(raw, &a.fields); err != nil {
		a.err = fail(outcome.InvalidOutput, false, "the answer cannot be read: "+err.Error(), err)
		return a
	}
	texts, _ := read[[]string](a, "warnings", a.fields["warnings"], "a list of texts")
	for _, text := range texts {
		a.warn("%s", text)
	}
	a.readCalls()
	if reason := readError(a.fields["error"], outcome.Provider); reason != nil {
		a.err = fail(reason.Class, reason.Class == outcome.RateLimited || reason.Class == outcome.Timeout, reason.Message, nil)
	}
	return a
}

// readFound reads the extraction, strictly.
func (a *answer) readFound() {
	found, err := a.lists()
	if err != nil {
		a.err = fail(outcome.InvalidOutput, false, "the pipeline's answer is no extraction: "+err.Error(), err)
		return
	}
	if found.Entities == nil {
		found.Entities = []extraction.Entity{}
	}
	if found.Relationships == nil {
		found.Relationships = []extraction.Relationship{}
	}
	a.found = found
}

// lists reads the two lists; one that is absent is empty, but not both.
func (a *answer) lists() (extraction.Extraction, error) {
	none, own := extraction.Extraction{}, map[string]json.RawMessage{}
	for _, key := range []string{"entities", "relationships"} {
		raw := a.fields[key]
		var elements []json.RawMessage
		switch err := json.Unmarshal(raw, &elements); {
		case absent(raw):
			continue
		case err != nil:
			return none, fmt.Errorf("%s: expected a list, got %s", key, textutil.Cut(string(raw), 40))
		case len(elements) > maxFound:
			return none, fmt.Errorf("it has %d %s and the limit is %d", len(elements), key, maxFound)
		}
		own[key] = raw
	}
	if len(own) == 0 {
		return none, errors.New("it has neither entities nor relationships; write empty lists where nothing was found")
	}
	lists, err := json.Marshal(own)
	if err != nil {
		return none, err
	}
	found, warnings, err := extraction.DecodeExtraction(lists)
	for _, warning := range warnings {
		a.warn("%s", warning)
	}
	return found, err
}

// readCalls reads the calls that an answer stands for. A usage or cost at the top
// is used where no call states one of its own, so that nothing counts twice.
func (a *answer) readCalls() {
	fields := a.fields
	a.span.Model = cmp.Or(a.text("model", fields["model"]), a.span.Model)
	total := generation(a.span)
	total.Usage = a.usage("usage", fields["usage"])
	total.CostUSD = a.cost("cost_usd", fields["cost_usd"])
	list, there := read[[]json.RawMessage](a, "calls", fields["calls"], "a list")
	if !there {
		a.calls = []outcome.Call{total}
		return
	}
	calls := []outcome.Call{}
	for i, raw := range list[:min(len(list), maxCalls)] {
		if call, ok := a.call(fmt.Sprintf("calls[%d]", i), raw); ok {
			calls = append(calls, call)
		}
	}
	if len(list) > maxCalls {
		a.warn("calls: the first %d of %d are kept; the others count nowhere", maxCalls, len(list))
	}
	slices.SortStableFunc(calls, func(a, b outcome.Call) int { return a.Started.Compare(b.Started) })
	a.calls = withTotal(calls, total, len(calls) < len(list))
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
func (a *answer) call(path string, raw json.RawMessage) (outcome.Call, bool) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		a.warn("%s: expected an object", path)
		return outcome.Call{}, false
	}
	text := func(key string) string { return a.text(path+"."+key, fields[key]) }
	c := outcome.Call{
		Name:     cmp.Or(text("name"), "call"),
		Kind:     "generation",
		Provider: cmp.Or(text("provider"), Name),
		Model:    text("model"),
		Input:    present(fields["input"]),
		Output:   present(fields["output"]),
		Usage:    a.usage(path+".usage", fields["usage"]),
		CostUSD:  a.cost(path+".cost_usd", fields["cost_usd"]),
		Finish:   text("finish_reason"),
		Attempts: 1,
		Error:    text("error"),
	}
	if text("kind") == "span" {
		c.Kind = "span"
	}
	if _, there := read[map[string]json.RawMessage](a, path+".parameters", fields["parameters"], "an object"); there {
		c.Parameters = fields["parameters"]
	}
	// The times of the span stand in for those that are missing or make no sense.
	c.Started = a.instant(path+".started", fields["started"], a.span.Started)
	c.Ended = a.instant(path+".ended", fields["ended"], a.span.Ended)
	if c.Ended.Before(c.Started) {
		a.warn("%s: it ends before it begins; the times of the whole request stand in", path)
		c.Started, c.Ended = a.span.Started, a.span.Ended
	}
	return c, true
}

// read reads a value that may be absent; one of another kind is as good as absent,
// with a warning.
func read[T any](a *answer, path string, raw json.RawMessage, expected string) (value T, there bool) {
	if absent(raw) {
		return value, false
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		var none T
		a.warn("%s: expected %s", path, expected)
		return none, false
	}
	return value, true
}

// text reads a short text; "" where there is none.
func (a *answer) text(path string, raw json.RawMessage) string {
	limit := maxName
	if strings.HasSuffix(path, ".error") {
		limit = outcome.MaxMessage
	}
	text, _ := read[string](a, path, raw, "a text")
	return textutil.Cut(text, limit)
}

// usage reads {"input", "output", "cached", "reasoning"}, whole numbers of
// tokens.
func (a *answer) usage(path string, raw json.RawMessage) outcome.Usage {
	fields, there := read[map[string]json.RawMessage](a, path, raw, "an object with input and output")
	if there && absent(fields["input"]) && absent(fields["output"]) {
		a.warn("%s: it has neither input nor output, the numbers of tokens", path)
	}
	count := func(key string) int64 {
		n, _ := a.number(path+"."+key, fields[key], maxTokens)
		if n != float64(int64(n)) {
			a.warn("%s.%s: expected a whole number", path, key)
			return 0
		}
		return int64(n)
	}
	return outcome.Usage{Input: count("input"), Output: count("output"), Cached: count("cached"), Reasoning: count("reasoning")}
}

// cost reads an amount; nil where it is unknown.
func (a *answer) cost(path string, raw json.RawMessage) *float64 {
	n, there := a.number(path, raw, maxCost)
	if !there {
		return nil
	}
	return &n
}

func (a *answer) number(path string, raw json.RawMessage, most float64) (float64, bool) {
	expected := fmt.Sprintf("a number from 0 to %.0f", most)
	n, there := read[float64](a, path, raw, expected)
	if n < 0 || n > most {
		a.warn("%s: expected %s", path, expected)
		return 0, false
	}
	return n, there
}

// instant reads a time of RFC 3339.
func (a *answer) instant(path string, raw json.RawMessage, otherwise time.Time) time.Time {
	const expected = "a time such as 2026-01-31T12:00:00Z"
	at, there := read[time.Time](a, path, raw, expected)
	if there && (at.Year() < 1970 || at.Year() > 9999) {
		a.warn("%s: expected %s", path, expected)
		there = false
	}
	if !there {
		return otherwise
	}
	return at.UTC()
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// present returns nil for null.
func present(raw json.RawMessage) json.RawMessage {
	if absent(raw) {
		return nil
	}
	return raw
}

// reported are the classes that a pipeline may give its own failure; internal
// is ours alone.
func reported() []outcome.Class {
	return slices.DeleteFunc(outcome.Classes(), func(c outcome.Class) bool { return c == outcome.Internal })
}

// readError reads the "error" of an answer: an object with class and message,
// or a text. It returns nil where there is none: absent, null, false, or empty.
func readError(raw json.RawMessage, otherwise outcome.Class) *outcome.Failure {
	var object struct {
		Class   string `json:"class"`
		Message string `json:"message"`
	}
	var text string
	switch trimmed := strings.TrimSpace(string(raw)); {
	case trimmed == "" || trimmed == "null" || trimmed == "false":
		return nil
	case json.Unmarshal(raw, &text) == nil:
		object.Message = text
	case json.Unmarshal(raw, &object) != nil:
		object.Message = "the pipeline reports an error in a form that is not known: " + textutil.Cut(string(raw), 200)
	}
	if object.Class == "" && object.Message == "" {
		return nil
	}
	if object.Message == "" {
		object.Message = "the pipeline reports a failure without a message"
	}
	class := outcome.Class(strings.ToLower(strings.TrimSpace(object.Class)))
	if !slices.Contains(reported(), class) {
		class = otherwise
	}
	return &outcome.Failure{Class: class, Message: textutil.Cut(object.Message, outcome.MaxMessage)}
}
