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

// rootName is the name of traces and their roots that readers of Langfuse know from its
// own experiment runners.
const rootName = "experiment-item-run"

// builder makes the spans and scores of the outcomes of one trial.
type builder struct {
	header outcome.Header
	// same are the attributes that are the same on every span of the trial.
	same     []langfuse.Attribute
	metadata map[string]string // of the run
}

func newBuilder(h outcome.Header, trial int, experiment string) builder {
	metadata := Metadata(h, trial)
	same := []langfuse.Attribute{
		langfuse.TextAttribute("langfuse.environment", h.Environment),
		langfuse.TextAttribute("langfuse.trace.name", rootName),
		langfuse.TextAttribute("langfuse.experiment.id", experiment),
		langfuse.TextAttribute("langfuse.experiment.name", RunName(h, trial)),
		langfuse.TextAttribute("langfuse.experiment.description", description(h)),
		langfuse.TextAttribute("langfuse.experiment.metadata", string(encode(metadata))),
	}
	if h.Dataset.ID != "" {
		same = append(same, langfuse.TextAttribute("langfuse.experiment.dataset.id", h.Dataset.ID))
	}
	if h.Dataset.Version != "" {
		same = append(same, langfuse.TextAttribute("langfuse.experiment.item.version", h.Dataset.Version))
	}
	return builder{header: h, same: same, metadata: metadata}
}

// spans returns the trace of an outcome: the root, then a child per call.
func (b builder) spans(item dataset.Item, o outcome.Outcome) []langfuse.Span {
	id := identify(b.header, o)
	trace, root := id.trace(), id.span(0)
	// v4 has no trace and no run of its own, it reads them from the spans.
	common := append(clone(b.same),
		langfuse.TextAttribute("langfuse.experiment.item.id", o.Item),
		langfuse.TextAttribute("langfuse.experiment.item.root_observation_id", root))
	whole, calls := layOut(b.header, o)
	spans := make([]langfuse.Span, 1, 1+len(o.Calls))
	spans[0] = b.root(item, o, whole, common)
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
		Attributes: append(clone(common),
			langfuse.TextAttribute("langfuse.observation.type", "span"),
			langfuse.TextAttribute("langfuse.observation.input", cmp.Or(field(item.Input), "null")),
			langfuse.TextAttribute("langfuse.observation.output", cmp.Or(field(b.output(o)), "null")),
			langfuse.TextAttribute("langfuse.observation.metadata", b.rootMetadata(o)),
			langfuse.TextAttribute("langfuse.experiment.item.expected_output", cmp.Or(field(item.Expected), "null")),
		),
	}
	if bytes.HasPrefix(bytes.TrimSpace(item.Metadata), []byte("{")) {
		metadata := langfuse.TextAttribute("langfuse.experiment.item.metadata", field(item.Metadata))
		span.Attributes = append(span.Attributes, metadata)
	}
	if o.Failed() {
		markFailed(&span, string(o.Class)+": "+o.Failure.Message)
	}
	return span
}

// child returns the span of a call without its ids.
func (b builder) child(call outcome.Call, at period, common []langfuse.Attribute) langfuse.Span {
	kind := cmp.Or(call.Kind, "span")
	span := langfuse.Span{
		Name: call.Name, Start: at.start, End: at.end,
		Attributes: append(clone(common), langfuse.TextAttribute("langfuse.observation.type", kind)),
	}
	add := func(key, value string) {
		if value != "" {
			span.Attributes = append(span.Attributes, langfuse.TextAttribute(key, value))
		}
	}
	add("langfuse.observation.input", field(call.Input))
	add("langfuse.observation.output", spoken(call.Output))
	add("langfuse.observation.metadata", b.callMetadata(call, at))
	if kind == "generation" {
		add("langfuse.observation.model.name", call.Model)
		add("langfuse.observation.model.parameters", string(call.Parameters))
		add("langfuse.observation.usage_details", usageDetails(call.Usage))
		if call.CostUSD != nil {
			add("langfuse.observation.cost_details", string(encode(map[string]float64{"total": *call.CostUSD})))
		}
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
		add("langfuse.observation.status_message", textutil.ValidUTF8(message))
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

// output returns what the root shows: no view of Langfuse shows the text of an
// error, so a failed item has it there.
func (b builder) output(o outcome.Outcome) json.RawMessage {
	switch {
	case o.Failed():
		return encode(map[string]any{"error": o.Failure})
	case b.header.Publication.ShowsAll():
		return o.Output
	}
	return extraction.WithoutLookedUp(o.Output)
}

// rootMetadata has its keys in the order of the alphabet: spans that are sent again by
// another version must be the same.
func (b builder) rootMetadata(o outcome.Outcome) string {
	timed := b.header.Publication.Form > 0
	recorded := ""
	if timed {
		recorded = record(o)
	}
	w := textutil.JSONWriter{B: append(make([]byte, 0, len(recorded)*5/4+256), '{')}
	w.Int("attempt", int64(o.Attempt))
	if timed {
		w.Time("ended", o.Ended.UTC())
	}
	w.Text("item_id", o.Item)
	w.Int("latency_ms", o.Latency.Milliseconds())
	if timed {
		w.Text(recordKey, recorded)
		w.Time("started", o.Started.UTC())
	}
	w.Int("trial", int64(o.Trial))
	if waited := outcome.WaitsOf(o.Calls).Sum(); timed && waited > 0 {
		w.Int("waited_ms", waited.Milliseconds())
	}
	if len(o.Warnings) > 0 {
		w.Value("warnings", o.Warnings)
	}
	w.TextIf("worker", o.Worker)
	w.Close()
	return textutil.TextIn(w.B)
}

// callMetadata is what Langfuse has no field for, in the same order; "" where there is nothing.
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
	if call.Kind == outcome.JudgingKind { // in fields of Langfuse it would add to the cost of what is judged
		took := map[string]any{"input_tokens": call.Usage.Input, "output_tokens": call.Usage.Output}
		if call.CostUSD != nil {
			took["cost_usd"] = *call.CostUSD
		}
		w.Value("judging", took)
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
	return textutil.TextIn(w.B)
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
	return textutil.TextIn(w.B)
}

func clone(attributes []langfuse.Attribute) []langfuse.Attribute {
	return append(make([]langfuse.Attribute, 0, len(attributes)+8), attributes...)
}

// maxField bounds one input or output on a span. With a few of them a span
// stays under what servers keep.
const maxField = 2 << 20

// field returns JSON fit for a span, which may be a part of raw: absent is nothing, and a
// value too large for a server is replaced by its size, its hash and its beginning.
func field(raw json.RawMessage) string {
	if len(raw) <= maxField {
		return textutil.ValidUTF8(textutil.TextIn(raw))
	}
	const shown = 64 << 10
	sum := sha256.Sum256(raw)
	return string(encode(map[string]any{
		"truncated": true, "bytes": len(raw), "sha256": hex.EncodeToString(sum[:]),
		"begins": strings.ToValidUTF8(string(raw[:shown]), ""),
	}))
}

// spoken is field, but for a text, such as a model's answer, which is
// shown as it is and not as JSON of a text.
func spoken(raw json.RawMessage) string {
	var text string
	if len(raw) > maxField || json.Unmarshal(raw, &text) != nil {
		return field(raw)
	}
	return textutil.ValidUTF8(text)
}

// encode marshals what always can be marshalled: maps of plain values.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// maxComment bounds the comment of a score, in bytes; servers keep far more, pages do
// not show it.
const maxComment = 4000

// publishes reports whether a run has the score of that name in Langfuse. Unless
// more was asked for, that are few: its pages give each a column, and list all of
// them in every cell of a comparison. The others are in the metadata of the root
// span; see record. Form 0 published all.
func publishes(h outcome.Header, score string) bool {
	p := h.Publication
	return p.Form == 0 || score == outcome.ErrorScore || h.Scorer.External(score) ||
		slices.Contains(scoring.Headlines(), score) ||
		slices.Contains(p.Scores, score) || slices.Contains(p.Scores, outcome.AllScores)
}

// scores returns the defined scores of an outcome as Langfuse takes them: on
// the root span, with the counts behind the value as metadata. An undefined
// score is not recorded. They carry the time at which the item ended, or the
// later one at which they were corrected.
func (b builder) scores(o runstore.Pending) []langfuse.ScoreCreate {
	id := identify(b.header, o.Outcome)
	trace, root := id.trace(), id.span(0)
	scores := make([]langfuse.ScoreCreate, 0, len(scoring.Headlines())+1)
	for _, s := range o.Scores {
		if s.Value == nil || !publishes(b.header, s.Name) {
			continue
		}
		score := langfuse.ScoreCreate{
			ID: id.score(s.Name), Name: scoreName(s.Name), Value: langfuse.NumberValue(*s.Value), Type: langfuse.ScoreNumeric,
			TraceID: trace, ObservationID: root,
			Comment:     textutil.Cut(s.Comment, maxComment),
			Environment: b.header.ScoreEnvironment(),
			Timestamp:   latest(latest(o.Started, o.Ended), o.Corrected),
		}
		if s.Boolean {
			score.Type = langfuse.ScoreBoolean
		}
		score.Metadata = behind(s, o.Scores)
		scores = append(scores, score)
	}
	return scores
}

// weightKey is where the metadata of a score has its weight; the error score has
// those of scores without a value after heldWeight and their names.
const (
	weightKey  = "weight"
	heldWeight = "weight_of_"
)

// behind returns the integers behind a score, and its weight, as metadata: from them pooled
// values and weighted means can be rebuilt by anyone who reads Langfuse. The error score
// has besides the weights of those among all that are not recorded, having no value: in
// a weighted mean a failed item counts as 0.
func behind(s outcome.Score, all []outcome.Score) json.RawMessage {
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
			weights[heldWeight+scoreName(other.Name)] = *other.Weight
		}
	}
	switch {
	case len(weights) > 0:
		for _, one := range counts {
			if _, weight := weights[one.Name]; !weight {
				weights[one.Name] = one.N
			}
		}
		return encode(weights)
	case len(counts) > 0:
		text, _ := counts.MarshalJSON() // numbers can always be written
		return text
	}
	return nil
}

// recordKey is the key of a root span's metadata that holds the outcome: whoever has
// nothing but Langfuse finds there what the run file has of scores and counts.
const recordKey = "outcome"

// record returns the outcome as the run file and its export write it, as one text,
// so that no server takes it for more keys. Left out are what the span says itself
// (output, calls, failure, warnings), the comments of scores, and the explanation.
func record(o outcome.Outcome) string {
	o.Output, o.Calls, o.Failure, o.Warnings, o.Explanation = nil, nil, nil, nil, nil
	o.Scores = slices.Clone(o.Scores)
	for i := range o.Scores {
		o.Scores[i].Comment = ""
	}
	text, err := o.AppendJSON(make([]byte, 0, 512+150*len(o.Scores)+90*len(o.Groups)))
	if err != nil { // an outcome that is stored can be written
		panic(err)
	}
	return textutil.TextIn(text)
}
