package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
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
	var texts []string
	a.read("warnings", &texts)
	for _, text := range texts {
		a.warn("%s", text)
	}
	a.readCalls()
	if reason := pipeline.ReadError(a.fields["error"], outcome.Provider); reason != nil {
		a.err = fail(reason.Class, reason.Class == outcome.RateLimited || reason.Class == outcome.Timeout, reason.Message, nil)
	}
	return a
}

// read decodes what it can of a field; a warning names what is of another kind.
func (a *answer) read(key string, into any) {
	if raw := a.fields[key]; len(raw) > 0 {
		a.decode(key, raw, into)
	}
}

func (a *answer) decode(path string, raw json.RawMessage, into any) {
	// The answer is JSON: nothing else can be wrong.
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(raw, into)); ok {
		a.warn("%s: unexpected %s", strings.TrimSuffix(path+"."+strings.ToLower(wrong.Field), "."), wrong.Value)
	}
}

// readFound reads the extraction, strictly: of the two lists one that is absent is empty, but
// not both.
func (a *answer) readFound() {
	own, missing := map[string]json.RawMessage{}, 0
	for _, key := range []string{"entities", "relationships"} {
		if own[key] = a.fields[key]; absent(own[key]) {
			own[key] = json.RawMessage("[]")
			missing++
		}
	}
	lists, _ := json.Marshal(own) // they were read from JSON
	found, warnings, err := extraction.DecodeExtraction(lists)
	for _, warning := range warnings {
		a.warn("%s", warning)
	}
	if entities, relationships := len(found.Entities), len(found.Relationships); max(entities, relationships) > maxFound {
		err = fmt.Errorf("it has %d entities and %d relationships; the limit is %d of each", entities, relationships, maxFound)
	} else if missing == len(own) {
		keys := strings.Join(slices.Sorted(maps.Keys(a.fields)), ", ")
		err = fmt.Errorf("it has neither entities nor relationships, but %s; write empty lists where nothing was found",
			cmp.Or(textutil.Cut(keys, 200), "nothing"))
	}
	a.found = found
	if err != nil {
		a.err = fail(outcome.InvalidOutput, false, "the pipeline's answer is not an extraction: "+err.Error(), err)
	}
}

// tokens is how a usage is written.
type tokens struct{ Input, Output, Cached, Reasoning json.RawMessage }

// reported is how a call is written.
type reported struct {
	Name, Kind, Provider, Model, Error string
	Input, Output                      json.RawMessage
	Parameters                         map[string]json.RawMessage
	Usage                              *tokens
	CostUSD                            json.RawMessage `json:"cost_usd"`
	Finish                             string          `json:"finish_reason"`
	Started, Ended                     string
}

// readCalls reads the calls that an answer stands for. A usage or cost at the top
// is used where no call states one of its own, so that nothing counts twice.
func (a *answer) readCalls() {
	var model string
	var usage *tokens
	var list []json.RawMessage
	a.read("model", &model)
	a.read("usage", &usage)
	a.read("calls", &list)
	a.span.Model = textutil.Cut(cmp.Or(model, a.span.Model), maxName)
	total := generation(a.span)
	total.Usage, total.CostUSD = a.usage("usage", usage), a.number("cost_usd", a.fields["cost_usd"], maxCost)
	if list == nil {
		a.calls = []outcome.Call{total}
		return
	}
	calls, stated := []outcome.Call{}, len(list)
	if stated > maxCalls {
		a.warn("calls: the first %d of %d are kept; the others count nowhere", maxCalls, stated)
	}
	for i, raw := range list[:min(stated, maxCalls)] {
		path := fmt.Sprintf("calls[%d]", i)
		if raw[0] != '{' {
			a.warn("%s: expected an object", path)
			continue
		}
		var r reported
		a.decode(path, raw, &r)
		calls = append(calls, a.call(path, r))
	}
	slices.SortStableFunc(calls, func(a, b outcome.Call) int { return a.Started.Compare(b.Started) })
	a.calls = withTotal(calls, total, len(calls) < stated)
}

// withTotal adds what is stated for all calls together and by none of them.
//
// A run's cost is unknown as soon as that of one generation is. So where the
// total alone has a cost, the calls become spans; where the calls have costs, a
// usage in total is a span; and where calls were lost, a generation of unknown
// cost stands for them.
func withTotal(calls []outcome.Call, total outcome.Call, lost bool) []outcome.Call {
	for _, c := range calls {
		if c.Usage != (outcome.Usage{}) {
			total.Usage = outcome.Usage{}
		}
		if c.CostUSD != nil {
			total.CostUSD = nil
			if !lost {
				total.Kind = "span"
			}
		}
	}
	if total.CostUSD != nil {
		for i := range calls {
			calls[i].Kind = "span"
		}
	}
	if total.Usage == (outcome.Usage{}) && total.CostUSD == nil && !lost {
		return calls
	}
	return append(calls, total)
}

// call makes a call of what was reported.
func (a *answer) call(path string, r reported) outcome.Call {
	name := func(text string) string { return textutil.Cut(text, maxName) }
	c := outcome.Call{
		Name: name(cmp.Or(r.Name, "call")), Kind: "generation", Provider: name(cmp.Or(r.Provider, ExternalName)), Model: name(r.Model),
		Input: r.Input, Output: r.Output, Usage: a.usage(path+".usage", r.Usage), CostUSD: a.number(path+".cost_usd", r.CostUSD, maxCost),
		Finish: name(r.Finish), Attempts: 1, Error: textutil.Cut(r.Error, outcome.MaxMessage),
		Started: a.instant(path+".started", r.Started, a.span.Started), Ended: a.instant(path+".ended", r.Ended, a.span.Ended),
	}
	if absent(c.Input) {
		c.Input = nil
	}
	if absent(c.Output) {
		c.Output = nil
	}
	if r.Kind == "span" {
		c.Kind = r.Kind
	}
	if r.Parameters != nil {
		c.Parameters, _ = json.Marshal(r.Parameters) // they were read from JSON
	}
	if c.Ended.Before(c.Started) {
		a.warn("%s: it ends before it begins; the times of the whole request stand in", path)
		c.Started, c.Ended = a.span.Started, a.span.Ended
	}
	return c
}

// usage checks numbers of tokens.
func (a *answer) usage(path string, t *tokens) outcome.Usage {
	if t == nil {
		return outcome.Usage{}
	}
	if absent(t.Input) && absent(t.Output) {
		a.warn("%s: it has neither input nor output, the numbers of tokens", path)
	}
	count := func(key string, raw json.RawMessage) int64 {
		n := a.number(path+"."+key, raw, maxTokens)
		switch {
		case n == nil:
			return 0
		case *n != math.Trunc(*n): // 2.0 is a whole number
			a.warn("%s.%s: expected a whole number", path, key)
			return 0
		}
		return int64(*n)
	}
	return outcome.Usage{
		Input: count("input", t.Input), Output: count("output", t.Output),
		Cached: count("cached", t.Cached), Reasoning: count("reasoning", t.Reasoning),
	}
}

// number reads a number; nil where there is none that can be.
func (a *answer) number(path string, raw json.RawMessage, most float64) *float64 {
	if absent(raw) {
		return nil
	}
	var n float64
	if json.Unmarshal(raw, &n) != nil || n < 0 || n > most {
		a.warn("%s: expected a number from 0 to %.0f", path, most)
		return nil
	}
	return &n
}

// instant reads a time of RFC 3339; the other one stands in for one that is missing
// or makes no sense.
func (a *answer) instant(path, text string, otherwise time.Time) time.Time {
	if text == "" {
		return otherwise
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Year() < 1970 {
		a.warn("%s: expected a time such as 2026-01-31T12:00:00Z", path)
		return otherwise
	}
	return at.UTC()
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
