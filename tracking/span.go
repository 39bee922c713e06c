package tracking

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// rootName is the name of traces and of their root spans. The experiment runners of Langfuse
// use the same name.
const rootName = "experiment-item-run"

// builder builds the spans of the outcomes of one trial.
type builder struct {
	header outcome.Header
	// shared are the attributes that every span of the trial has.
	shared   []langfuse.Attribute
	metadata map[string]string // of the run
}

func newBuilder(h outcome.Header, trial int, experiment string) builder {
	metadata := Metadata(h, trial)
	shared := []langfuse.Attribute{
		langfuse.TextAttribute("langfuse.environment", h.Environment),
		langfuse.TextAttribute("langfuse.trace.name", rootName),
		langfuse.TextAttribute("langfuse.experiment.id", experiment),
		langfuse.TextAttribute("langfuse.experiment.name", RunName(h, trial)),
		langfuse.TextAttribute("langfuse.experiment.description", description(h)),
		langfuse.TextAttribute("langfuse.experiment.metadata", string(mustMarshal(metadata))),
	}
	if h.Dataset.ID != "" {
		shared = append(shared, langfuse.TextAttribute("langfuse.experiment.dataset.id", h.Dataset.ID))
	}
	if h.Dataset.Version != "" {
		shared = append(shared, langfuse.TextAttribute("langfuse.experiment.item.version", h.Dataset.Version))
	}
	return builder{header: h, shared: shared, metadata: metadata}
}

// spans returns the trace of an outcome: the root span, then a child span for each call.
func (b builder) spans(item dataset.Item, o outcome.Outcome) []langfuse.Span {
	id := identify(b.header, o)
	trace, root := id.trace(), id.span(0)
	// v4 has no tables of traces and runs. It derives them from the spans.
	common := append(slices.Clip(b.shared),
		langfuse.TextAttribute("langfuse.experiment.item.id", o.Item),
		langfuse.TextAttribute("langfuse.experiment.item.root_observation_id", root))
	rootPeriod, calls := spanPeriods(b.header, o)
	spans := make([]langfuse.Span, 1, 1+len(o.Calls))
	spans[0] = b.root(item, o, rootPeriod, common)
	spans[0].TraceID, spans[0].SpanID = trace, root
	for i, call := range o.Calls {
		span := b.child(call, calls[i], common)
		span.TraceID, span.SpanID, span.ParentID = trace, id.span(i+1), root
		spans = append(spans, span)
	}
	return spans
}

// root returns the root span without its ids.
func (b builder) root(item dataset.Item, o outcome.Outcome, at period, common []langfuse.Attribute) langfuse.Span {
	span := langfuse.Span{
		Name: rootName, Start: at.start, End: at.end,
		Attributes: append(slices.Clip(common),
			langfuse.TextAttribute("langfuse.observation.type", "span"),
			langfuse.TextAttribute("langfuse.observation.input", cmp.Or(jsonField(item.Input), "null")),
			langfuse.TextAttribute("langfuse.observation.output", cmp.Or(jsonField(b.output(o)), "null")),
			langfuse.TextAttribute("langfuse.observation.metadata", b.rootMetadata(o)),
			langfuse.TextAttribute("langfuse.experiment.item.expected_output", cmp.Or(jsonField(item.Expected), "null")),
		),
	}
	if bytes.HasPrefix(bytes.TrimSpace(item.Metadata), []byte("{")) {
		metadata := langfuse.TextAttribute("langfuse.experiment.item.metadata", jsonField(item.Metadata))
		span.Attributes = append(span.Attributes, metadata)
	}
	if o.Failed() {
		markFailed(&span, string(o.Class)+": "+o.Failure.Message)
	}
	return span
}

// child returns the span of a call without its ids.
func (b builder) child(call outcome.Call, at period, common []langfuse.Attribute) langfuse.Span {
	kind := cmp.Or(textutil.ValidUTF8(call.Kind), "span")
	span := langfuse.Span{
		Name: cmp.Or(textutil.ValidUTF8(call.Name), kind), Start: at.start, End: at.end,
		Attributes: append(slices.Clip(common), langfuse.TextAttribute("langfuse.observation.type", kind)),
	}
	add := func(key, value string) {
		if value != "" {
			span.Attributes = append(span.Attributes, langfuse.TextAttribute(key, textutil.ValidUTF8(value)))
		}
	}
	add("langfuse.observation.input", jsonField(call.Input))
	add("langfuse.observation.output", textField(call.Output))
	add("langfuse.observation.metadata", b.callMetadata(call, at))
	if kind == "generation" {
		add("langfuse.observation.model.name", call.Model)
		add("langfuse.observation.model.parameters", string(call.Parameters))
		add("langfuse.observation.usage_details", usageDetails(call.Usage))
		if call.CostUSD != nil {
			add("langfuse.observation.cost_details", string(mustMarshal(map[string]float64{"total": *call.CostUSD})))
		}
		if p := b.header.System.Prompt; p.Name != "" {
			add("langfuse.observation.prompt.name", p.Name)
			span.Attributes = append(span.Attributes, langfuse.IntAttribute("langfuse.observation.prompt.version", int64(p.Version)))
		}
	}
	// Langfuse counts every span with level ERROR as an error of the run. Only the root of
	// a failed item may count.
	message := cmp.Or(call.Error, strings.Join(call.Warnings, "; "))
	switch {
	case call.Error != "" && b.header.Publication.Form == 0:
		markFailed(&span, message)
	case message != "":
		add("langfuse.observation.level", "WARNING")
		add("langfuse.observation.status_message", message)
	}
	return span
}

func markFailed(span *langfuse.Span, message string) {
	message = textutil.ValidUTF8(message)
	span.Failed, span.StatusMessage = true, message
	span.Attributes = append(span.Attributes,
		langfuse.TextAttribute("langfuse.observation.level", "ERROR"),
		langfuse.TextAttribute("langfuse.observation.status_message", message))
}

// output returns the output of the root span. For a failed item that is the failure, because
// no view of Langfuse shows the status message of a span.
func (b builder) output(o outcome.Outcome) json.RawMessage {
	switch {
	case o.Failed():
		return mustMarshal(map[string]any{"error": o.Failure})
	case b.header.Publication.ShowsAll():
		return o.Output
	}
	return extraction.WithoutLookedUp(o.Output)
}

// rootMetadata returns the metadata of the root span as JSON. Its keys are in alphabetical
// order, so that other versions of the program send the same text.
func (b builder) rootMetadata(o outcome.Outcome) string {
	hasRecord := b.header.Publication.Form > 0
	record := ""
	if hasRecord {
		record = encodeRecord(o)
	}
	w := textutil.JSONWriter{B: append(make([]byte, 0, len(record)*5/4+256), '{')}
	w.Int("attempt", int64(o.Attempt))
	if hasRecord {
		w.Time("ended", o.Ended.UTC())
	}
	w.Text("item_id", o.Item)
	w.Int("latency_ms", o.Latency.Milliseconds())
	if hasRecord {
		w.Text(recordKey, record)
		w.Time("started", o.Started.UTC())
	}
	w.Int("trial", int64(o.Trial))
	if waited := outcome.WaitsOf(o.Calls).Sum(); hasRecord && waited > 0 {
		w.Int("waited_ms", waited.Milliseconds())
	}
	if len(o.Warnings) > 0 {
		w.Value("warnings", o.Warnings)
	}
	w.TextIf("worker", o.Worker)
	w.Close()
	return textutil.UnsafeString(w.B)
}

// callMetadata returns the properties of a call for which Langfuse has no field as JSON with
// keys in alphabetical order, or "" if there are none.
func (b builder) callMetadata(call outcome.Call, at period) string {
	w := textutil.JSONWriter{B: append(make([]byte, 0, 128), '{')}
	if call.Attempts > 1 {
		w.Int("attempts", int64(call.Attempts))
	}
	moved := !at.start.Equal(call.Started) || !at.end.Equal(latest(call.Started, call.Ended))
	if moved {
		w.Time("ended", call.Ended.UTC())
	}
	w.TextIf("finish_reason", call.Finish)
	if call.Kind == outcome.JudgingKind { // the usage fields of Langfuse would add it to the cost of the run
		judging := map[string]any{"input_tokens": call.Usage.Input, "output_tokens": call.Usage.Output}
		if call.CostUSD != nil {
			judging["cost_usd"] = *call.CostUSD
		}
		w.Value("judging", judging)
		w.Text("model", call.Model)
	}
	w.TextIf("provider", call.Provider)
	if moved {
		w.Time("started", call.Started.UTC())
		if call.Waited > 0 {
			w.Int("waited_ms", call.Waited.Milliseconds())
		}
	}
	if len(w.B) == 1 {
		return ""
	}
	w.Close()
	return textutil.UnsafeString(w.B)
}

func usageDetails(u outcome.Usage) string {
	if u == (outcome.Usage{}) {
		return ""
	}
	w := textutil.JSONWriter{B: append(make([]byte, 0, 64), '{')}
	w.Int("input", u.Input-u.Cached)
	if u.Cached > 0 {
		w.Int("input_cached_tokens", u.Cached)
	}
	w.Int("output", u.Output-u.Reasoning)
	if u.Reasoning > 0 {
		w.Int("output_reasoning_tokens", u.Reasoning)
	}
	w.Int("total", u.Total())
	w.Close()
	return textutil.UnsafeString(w.B)
}

// maxField bounds one input or output on a span, in bytes. A span with a few of them stays
// within the limits of servers.
const maxField = 2 << 20

// jsonField returns raw as a string for a span, or "" if raw is empty. It replaces a value
// longer than maxField by its size, its hash and its beginning. The string may share the
// memory of raw.
func jsonField(raw json.RawMessage) string {
	if len(raw) <= maxField {
		return textutil.ValidUTF8(textutil.UnsafeString(raw))
	}
	const kept = 64 << 10
	sum := sha256.Sum256(raw)
	return string(mustMarshal(map[string]any{
		"truncated": true, "bytes": len(raw), "sha256": hex.EncodeToString(sum[:]),
		"begins": strings.ToValidUTF8(string(raw[:kept]), ""),
	}))
}

// textField is like jsonField, but returns a JSON string, for example a model's answer,
// without quotes and escapes.
func textField(raw json.RawMessage) string {
	var text string
	if len(raw) > maxField || json.Unmarshal(raw, &text) != nil {
		return jsonField(raw)
	}
	return textutil.ValidUTF8(text)
}

// mustMarshal marshals a value for which json.Marshal cannot fail, for example a map of
// strings. It panics on an error.
func mustMarshal(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// maxComment bounds the comment of a score, in bytes. Servers keep more, but pages do not
// show it.
const maxComment = 4000

// publishes reports whether a run publishes the named score in Langfuse. By default a run
// publishes few scores, because the pages of Langfuse show a column for each score, and list
// all scores in every cell of a comparison. The other scores are in the metadata of the root
// span; see encodeRecord. Form 0 publishes all scores.
func publishes(h outcome.Header, score string) bool {
	p := h.Publication
	return p.Form == 0 || score == outcome.ErrorScore || h.Scorer.External(score) ||
		slices.Contains(scoring.Headlines(), score) ||
		slices.Contains(p.Scores, score) || slices.Contains(p.Scores, outcome.AllScores)
}

// scoreRequests returns the published scores of an outcome that have a value. They are attached to
// the root span, and their metadata holds the counts from which the value was computed. Their
// timestamp is the end of the item, or the time of the correction if that is later.
func scoreRequests(h outcome.Header, o runstore.Pending) []langfuse.ScoreCreate {
	id := identify(h, o.Outcome)
	trace, root := id.trace(), id.span(0)
	scores := make([]langfuse.ScoreCreate, 0, len(scoring.Headlines())+1)
	for _, s := range o.Scores {
		if s.Value == nil || !publishes(h, s.Name) {
			continue
		}
		score := langfuse.ScoreCreate{
			ID: id.score(s.Name), Name: scoreName(s.Name), Value: langfuse.NumberValue(*s.Value), Type: langfuse.ScoreNumeric,
			TraceID: trace, ObservationID: root,
			Comment: textutil.Cut(s.Comment, maxComment), Metadata: scoreMetadata(s, o.Scores),
			Environment: h.ScoreEnvironment(),
			Timestamp:   latest(latest(o.Started, o.Ended), o.Corrected),
		}
		if s.Boolean {
			score.Type = langfuse.ScoreBoolean
		}
		scores = append(scores, score)
	}
	return scores
}

// weightKey is the key of a score's weight in its metadata. The metadata of the error score
// also holds the weights of scores without a value; their keys are missingWeight followed by
// the name of the score.
const (
	weightKey     = "weight"
	missingWeight = "weight_of_"
)

// scoreMetadata returns the counts of a score and its weight as metadata, from which readers
// of Langfuse can compute pooled values and weighted means. The metadata of the error score
// also holds the weights of those scores of all that have no value and are therefore not
// published: in a weighted mean a failed item counts as 0.
func scoreMetadata(s outcome.Score, all []outcome.Score) json.RawMessage {
	counts := append(make(outcome.Counts, 0, len(s.Counts)+2), s.Counts...)
	if s.Ratio != nil {
		counts.Set("numerator", s.Ratio.Num)
		counts.Set("denominator", s.Ratio.Den)
	}
	weights := map[string]any{}
	if s.Weight != nil {
		weights[weightKey] = *s.Weight
	}
	for _, other := range all {
		if s.Name == outcome.ErrorScore && other.Value == nil && other.Weight != nil {
			weights[missingWeight+scoreName(other.Name)] = *other.Weight
		}
	}
	switch {
	case len(weights) > 0:
		for _, count := range counts {
			if _, weight := weights[count.Name]; !weight {
				weights[count.Name] = count.N
			}
		}
		return mustMarshal(weights)
	case len(counts) > 0:
		text, _ := counts.MarshalJSON() // cannot fail for numbers
		return text
	}
	return nil
}

// recordKey is the key of the outcome in the metadata of a root span. ReadRun reads scores
// and counts from there if there is no run file.
const recordKey = "outcome"

// encodeRecord returns the outcome as JSON in the form of the run file and its export. It is
// one string, so that no server expands it into several keys. It omits what the spans have
// elsewhere (output, calls, failure, warnings), the comments of scores, and the explanation.
func encodeRecord(o outcome.Outcome) string {
	o.Output, o.Calls, o.Failure, o.Warnings, o.Explanation = nil, nil, nil, nil, nil
	o.Scores = slices.Clone(o.Scores)
	for i := range o.Scores {
		o.Scores[i].Comment = ""
	}
	text, err := o.AppendJSON(make([]byte, 0, 512+150*len(o.Scores)+90*len(o.Groups)))
	if err != nil { // cannot happen for an outcome from a run file
		panic(err)
	}
	return textutil.UnsafeString(text)
}
