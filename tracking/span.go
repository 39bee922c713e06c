package tracking

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
)

// The names that readers of Langfuse know from its own experiment runners.
const (
	rootSpan  = "experiment-item-run"
	traceName = "experiment-item-run"
)

// builder makes the spans and scores of the outcomes of one trial.
type builder struct {
	header     outcome.Header
	experiment string // the experiment id
	run        string // the run's name in Langfuse
	metadata   string // JSON
}

func newBuilder(h outcome.Header, trial int, experiment string) (builder, error) {
	metadata, err := json.Marshal(Metadata(h, trial))
	return builder{header: h, experiment: experiment, run: RunName(h, trial), metadata: string(metadata)}, err
}

// spans returns the trace of an outcome: the root, then a child per call.
func (b builder) spans(item dataset.Item, o outcome.Outcome) []langfuse.Span {
	id := identify(b.header, o)
	common := b.common(id, o)
	root, calls := layOut(b.header, o)
	spans := []langfuse.Span{b.root(id, item, o, root, common)}
	for i, call := range o.Calls {
		spans = append(spans, b.child(id, i, call, calls[i], common))
	}
	return spans
}

// common returns the attributes that every span carries: v4 has no trace and
// no run of its own, it reads them from the spans.
func (b builder) common(id identity, o outcome.Outcome) []langfuse.Attribute {
	h := b.header
	attributes := []langfuse.Attribute{
		langfuse.TextAttribute("langfuse.environment", h.Environment),
		langfuse.TextAttribute("langfuse.trace.name", traceName),
		langfuse.TextAttribute("langfuse.experiment.id", b.experiment),
		langfuse.TextAttribute("langfuse.experiment.name", b.run),
		langfuse.TextAttribute("langfuse.experiment.description", Description(h)),
		langfuse.TextAttribute("langfuse.experiment.metadata", b.metadata),
		langfuse.TextAttribute("langfuse.experiment.item.id", o.Item),
		langfuse.TextAttribute("langfuse.experiment.item.root_observation_id", id.span(0)),
	}
	if h.Dataset.ID != "" {
		attributes = append(attributes, langfuse.TextAttribute("langfuse.experiment.dataset.id", h.Dataset.ID))
	}
	if h.Dataset.Version != "" {
		attributes = append(attributes, langfuse.TextAttribute("langfuse.experiment.item.version", h.Dataset.Version))
	}
	return attributes
}

func (b builder) root(id identity, item dataset.Item, o outcome.Outcome, at period, common []langfuse.Attribute) langfuse.Span {
	span := langfuse.Span{
		TraceID: id.trace(), SpanID: id.span(0), Name: rootSpan,
		Start: at.start, End: at.end,
		Attributes: append(clone(common),
			langfuse.TextAttribute("langfuse.observation.type", "span"),
			langfuse.TextAttribute("langfuse.observation.input", field(item.Input)),
			langfuse.TextAttribute("langfuse.observation.output", field(b.output(o))),
			langfuse.TextAttribute("langfuse.observation.metadata", b.rootMetadata(o)),
			langfuse.TextAttribute("langfuse.experiment.item.expected_output", field(item.Expected)),
		),
	}
	if isObject(item.Metadata) {
		span.Attributes = append(span.Attributes, langfuse.TextAttribute("langfuse.experiment.item.metadata", field(item.Metadata)))
	}
	if o.Failed() {
		markFailed(&span, string(o.Class)+": "+o.Failure.Message)
	}
	return span
}

func (b builder) child(id identity, i int, call outcome.Call, at period, common []langfuse.Attribute) langfuse.Span {
	kind := call.Kind
	if kind == "" {
		kind = "span"
	}
	span := langfuse.Span{
		TraceID: id.trace(), SpanID: id.span(i + 1), ParentID: id.span(0), Name: call.Name,
		Start: at.start, End: at.end,
		Attributes: append(clone(common), langfuse.TextAttribute("langfuse.observation.type", kind)),
	}
	add := func(key, value string) {
		if value != "" {
			span.Attributes = append(span.Attributes, langfuse.TextAttribute(key, value))
		}
	}
	add("langfuse.observation.input", fieldOrNone(call.Input))
	add("langfuse.observation.output", spoken(call.Output))
	add("langfuse.observation.metadata", b.callMetadata(call, at))
	if kind == "generation" {
		add("langfuse.observation.model.name", call.Model)
		add("langfuse.observation.model.parameters", string(call.Parameters))
		add("langfuse.observation.usage_details", usageDetails(call.Usage))
		add("langfuse.observation.cost_details", costDetails(call.CostUSD))
		if p := b.header.System.Prompt; p.Name != "" {
			add("langfuse.observation.prompt.name", p.Name)
			span.Attributes = append(span.Attributes, langfuse.IntAttribute("langfuse.observation.prompt.version", int64(p.Version)))
		}
	}
	// Langfuse counts every ERROR of a run as an error of it: that is the item's.
	message := cmp.Or(call.Error, strings.Join(call.Warnings, "; "))
	switch {
	case call.Error != "" && b.header.Publication.Form == 0:
		markFailed(&span, message)
	case message != "":
		add("langfuse.observation.level", "WARNING")
		add("langfuse.observation.status_message", clean(message))
	}
	return span
}

func markFailed(span *langfuse.Span, message string) {
	message = clean(message)
	span.Status, span.StatusMessage = langfuse.SpanError, message
	span.Attributes = append(span.Attributes,
		langfuse.TextAttribute("langfuse.observation.level", "ERROR"),
		langfuse.TextAttribute("langfuse.observation.status_message", message))
}

// output returns what the root shows: no view of Langfuse shows the text of an
// error, so a failed item has it there.
func (b builder) output(o outcome.Outcome) json.RawMessage {
	switch {
	case o.Failed():
		return encode(map[string]any{"error": o.Failure})
	case b.header.Publication.Form == 0 || b.header.Publication.Mentions:
		return o.Output
	}
	return extraction.WithoutLookedUp(o.Output)
}

func (b builder) rootMetadata(o outcome.Outcome) string {
	m := map[string]any{"item_id": o.Item, "trial": o.Trial, "attempt": o.Attempt, "latency_ms": o.Latency.Milliseconds()}
	if b.header.Publication.Form > 0 {
		m[recordKey] = record(o)
	}
	if len(o.Warnings) > 0 {
		m["warnings"] = o.Warnings
	}
	if b.header.Publication.Form > 0 {
		times(m, o.Started, o.Ended, outcome.WaitsOf(o.Calls).Sum())
	}
	return string(encode(m))
}

// callMetadata is what Langfuse has no field for; "" where there is nothing.
func (b builder) callMetadata(call outcome.Call, at period) string {
	m := map[string]any{}
	if call.Provider != "" {
		m["provider"] = call.Provider
	}
	if call.Finish != "" {
		m["finish_reason"] = call.Finish
	}
	if call.Attempts > 1 {
		m["attempts"] = call.Attempts
	}
	if call.Kind == outcome.JudgingKind { // in fields of Langfuse it would add to the cost of what is judged
		m["model"], m["judging"] = call.Model, usageOf(call)
	}
	if !at.start.Equal(call.Started) || !at.end.Equal(later(call.Started, call.Ended)) {
		times(m, call.Started, call.Ended, call.Waited)
	}
	if len(m) == 0 {
		return ""
	}
	return string(encode(m))
}

// usageOf is what a call took, as metadata.
func usageOf(call outcome.Call) map[string]any {
	took := map[string]any{"input_tokens": call.Usage.Input, "output_tokens": call.Usage.Output}
	if call.CostUSD != nil {
		took["cost_usd"] = *call.CostUSD
	}
	return took
}

func usageDetails(u outcome.Usage) string {
	if u == (outcome.Usage{}) {
		return ""
	}
	details := map[string]int64{"input": u.Input - u.Cached, "output": u.Output - u.Reasoning, "total": u.Total()}
	if u.Cached > 0 {
		details["input_cached_tokens"] = u.Cached
	}
	if u.Reasoning > 0 {
		details["output_reasoning_tokens"] = u.Reasoning
	}
	return string(encode(details))
}

func costDetails(usd *float64) string {
	if usd == nil {
		return ""
	}
	return string(encode(map[string]float64{"total": *usd}))
}

func clone(attributes []langfuse.Attribute) []langfuse.Attribute {
	return append(make([]langfuse.Attribute, 0, len(attributes)+8), attributes...)
}

// later returns end, or start where a clock that was set back put it earlier.
func later(start, end time.Time) time.Time {
	if end.Before(start) {
		return start
	}
	return end
}
