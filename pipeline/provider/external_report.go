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

// The limits of a report.
const (
	maxCalls    = 1000
	maxFound    = 50_000 // entities, and relationships
	maxWarnings = 30
	maxWarning  = 500 // bytes
	maxName     = 200 // bytes
	maxTokens   = 1e12
	maxCost     = 1e6 // USD
)

// externalAnswer is the parsed answer of a pipeline, or the error of a request.
type externalAnswer struct {
	fields     map[string]json.RawMessage
	extraction extraction.Extraction
	span       outcome.Call
	calls      []outcome.Call
	warnings   []string
	err        error
}

// allCalls returns the span, with error and warnings, and the reported calls.
func (a *externalAnswer) allCalls() []outcome.Call {
	span := a.span
	if a.err != nil {
		span.Error = a.problem()
	}
	if len(a.warnings) > 0 {
		span.Warnings = a.warnings
	}
	return append([]outcome.Call{span}, a.calls...)
}

func (a *externalAnswer) problem() string { return outcome.FailureOf(a.err, outcome.Provider).Message }

func (a *externalAnswer) warn(format string, args ...any) {
	if len(a.warnings) == maxWarnings {
		a.warnings = append(a.warnings, "there are more warnings")
	}
	if len(a.warnings) < maxWarnings {
		a.warnings = append(a.warnings, textutil.Cut(fmt.Sprintf(format, args...), maxWarning))
	}
}

// generation makes the call that stands for a pipeline without reported calls.
func generation(span outcome.Call) outcome.Call {
	span.Name, span.Kind = "external-model", "generation"
	return span
}

// readReport reads a JSON object except for its extraction. Calls, usage and cost are read
// tolerantly, because they count for a failure as well: a warning names what cannot be used. An
// "error" in the object becomes the error of the answer.
func readReport(raw []byte, span outcome.Call) *externalAnswer {
	a := &externalAnswer{span: span, warnings: []string{}, fields: map[string]json.RawMessage{}}
	for name, value := range textutil.JSONMembers(raw) { // checkAnswer has seen that it is an object
		if a.fields[name] != nil {
			a.warn("%s is given twice; the last counts", name)
		}
		a.fields[name] = value
	}
	var texts []string
	a.read("warnings", &texts)
	for _, text := range texts {
		a.warn("%s", text)
	}
	a.readCalls()
	if reason := pipeline.ReadError(a.fields["error"], outcome.Provider); reason != nil {
		a.err = externalError(reason.Class, reason.Class == outcome.RateLimited || reason.Class == outcome.Timeout,
			reason.Message, nil)
	}
	return a
}

// read decodes as much of a field as possible; a warning names a value of a wrong type.
func (a *externalAnswer) read(key string, into any) {
	if raw := a.fields[key]; len(raw) > 0 {
		a.decode(key, raw, into)
	}
}

func (a *externalAnswer) decode(path string, raw json.RawMessage, into any) {
	// The value is valid JSON, so no other errors are possible.
	if typeErr, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(raw, into)); ok {
		a.warn("%s: unexpected %s", strings.TrimSuffix(path+"."+strings.ToLower(typeErr.Field), "."), typeErr.Value)
	}
}

// readExtraction reads the extraction strictly. One of the two lists may be absent and is then
// empty, but not both.
func (a *externalAnswer) readExtraction() {
	lists, missing := map[string]json.RawMessage{}, 0
	for _, key := range []string{"entities", "relationships"} {
		if lists[key] = a.fields[key]; textutil.AbsentJSON(lists[key]) {
			lists[key] = json.RawMessage("[]")
			missing++
		}
	}
	raw, _ := json.Marshal(lists) // the parts are valid JSON
	found, warnings, err := extraction.DecodeExtraction(raw)
	for _, warning := range warnings {
		a.warn("%s", warning)
	}
	if entities, relationships := len(found.Entities), len(found.Relationships); max(entities, relationships) > maxFound {
		err = fmt.Errorf("it has %d entities and %d relationships; the limit is %d of each", entities, relationships, maxFound)
	} else if missing == len(lists) {
		keys := strings.Join(slices.Sorted(maps.Keys(a.fields)), ", ")
		err = fmt.Errorf("it has neither entities nor relationships, but %s; write empty lists where nothing was found",
			cmp.Or(textutil.Cut(keys, 200), "nothing"))
	}
	a.extraction = found
	if err != nil {
		a.err = externalError(outcome.InvalidOutput, false, "the pipeline's answer is not an extraction: "+err.Error(), err)
	}
}

// reportedUsage is a usage in an answer.
type reportedUsage struct{ Input, Output, Cached, Reasoning json.RawMessage }

// reportedCall is a call in an answer.
type reportedCall struct {
	Name, Kind, Provider, Model, Error string
	Input, Output                      json.RawMessage
	Parameters                         map[string]json.RawMessage
	Usage                              *reportedUsage
	CostUSD                            json.RawMessage `json:"cost_usd"`
	Finish                             string          `json:"finish_reason"`
	Started, Ended                     string
}

// readCalls reads the reported calls. A usage or cost of the whole answer counts only if no
// call has one, so that nothing counts twice.
func (a *externalAnswer) readCalls() {
	var model string
	var usage *reportedUsage
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
	calls, reportedCalls := []outcome.Call{}, len(list)
	if reportedCalls > maxCalls {
		a.warn("calls: the first %d of %d are kept; the others count nowhere", maxCalls, reportedCalls)
	}
	for i, raw := range list[:min(reportedCalls, maxCalls)] {
		path := fmt.Sprintf("calls[%d]", i)
		if raw[0] != '{' {
			a.warn("%s: expected an object", path)
			continue
		}
		var r reportedCall
		a.decode(path, raw, &r)
		calls = append(calls, a.call(path, r))
	}
	slices.SortStableFunc(calls, func(a, b outcome.Call) int { return a.Started.Compare(b.Started) })
	a.calls = addTotal(calls, total, len(calls) < reportedCalls)
}

// addTotal adds the usage and cost of the whole answer if no call has them.
//
// The cost of a run is unknown as soon as that of one generation is. So if only the total has a
// cost, the calls become spans. If the calls have costs, a total usage is a span. If calls were
// lost, a generation of unknown cost stands for them.
func addTotal(calls []outcome.Call, total outcome.Call, incomplete bool) []outcome.Call {
	for _, c := range calls {
		if c.Usage != (outcome.Usage{}) {
			total.Usage = outcome.Usage{}
		}
		if c.CostUSD != nil {
			total.CostUSD = nil
			if !incomplete {
				total.Kind = "span"
			}
		}
	}
	if total.CostUSD != nil {
		for i := range calls {
			calls[i].Kind = "span"
		}
	}
	if total.Usage == (outcome.Usage{}) && total.CostUSD == nil && !incomplete {
		return calls
	}
	return append(calls, total)
}

// call converts a reported call.
func (a *externalAnswer) call(path string, r reportedCall) outcome.Call {
	name := func(text string) string { return textutil.Cut(text, maxName) }
	c := outcome.Call{
		Name: name(cmp.Or(r.Name, "call")), Kind: "generation", Provider: name(cmp.Or(r.Provider, ExternalName)), Model: name(r.Model),
		Input: r.Input, Output: r.Output, Usage: a.usage(path+".usage", r.Usage), CostUSD: a.number(path+".cost_usd", r.CostUSD, maxCost),
		Finish: name(r.Finish), Attempts: 1, Error: textutil.Cut(r.Error, outcome.MaxMessage),
		Started: a.timestamp(path+".started", r.Started, a.span.Started),
		Ended:   a.timestamp(path+".ended", r.Ended, a.span.Ended),
	}
	for _, value := range []*json.RawMessage{&c.Input, &c.Output} {
		if textutil.AbsentJSON(*value) {
			*value = nil
		}
	}
	used := c.Usage != (outcome.Usage{}) || !textutil.AbsentJSON(r.CostUSD)
	if r.Kind == "span" && !used { // only generations have a cost
		c.Kind = r.Kind
	}
	if r.Parameters != nil {
		c.Parameters, _ = json.Marshal(r.Parameters) // decoded from JSON
	}
	if c.Ended.Before(c.Started) {
		a.warn("%s: it ends before it begins; the times of the whole request stand in", path)
		c.Started, c.Ended = a.span.Started, a.span.Ended
	}
	return c
}

// usage checks and converts reported numbers of tokens. Cached is at most input, and reasoning at most
// output.
func (a *externalAnswer) usage(path string, t *reportedUsage) outcome.Usage {
	if t == nil {
		return outcome.Usage{}
	}
	if textutil.AbsentJSON(t.Input) && textutil.AbsentJSON(t.Output) {
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
	u := outcome.Usage{
		Input: count("input", t.Input), Output: count("output", t.Output),
		Cached: count("cached", t.Cached), Reasoning: count("reasoning", t.Reasoning),
	}
	if u.Cached > u.Input || u.Reasoning > u.Output {
		a.warn("%s: cached is a part of input, and reasoning of output: neither can be more", path)
		u.Cached, u.Reasoning = min(u.Cached, u.Input), min(u.Reasoning, u.Output)
	}
	return u
}

// number reads a number from 0 to maximum, or returns nil.
func (a *externalAnswer) number(path string, raw json.RawMessage, maximum float64) *float64 {
	if textutil.AbsentJSON(raw) {
		return nil
	}
	var n float64
	if json.Unmarshal(raw, &n) != nil || n < 0 || n > maximum {
		a.warn("%s: expected a number from 0 to %.0f", path, maximum)
		return nil
	}
	return &n
}

// timestamp reads a time in RFC 3339, or returns the fallback if it is missing or invalid.
func (a *externalAnswer) timestamp(path, text string, fallback time.Time) time.Time {
	if text == "" {
		return fallback
	}
	instant, err := time.Parse(time.RFC3339, text)
	if instant = instant.UTC(); err != nil || instant.Year() < 1970 || instant.Year() > 9999 { // the last year of RFC 3339
		a.warn("%s: expected a time such as 2026-01-31T12:00:00Z", path)
		return fallback
	}
	return instant
}
