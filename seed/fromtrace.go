package seed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// mapper makes items of traces.
type mapper struct {
	dataset  string
	mapping  Mapping
	accept   bool // traces without evidence
	redact   *Redaction
	queues   map[string][]completed
	replaced map[string]int // by the redaction, in all items
}

// made is an item with what a person should know about its making.
type made struct {
	item     dataset.Item
	evidence Evidence
	warnings []Finding
	private  bool // warnings show no excerpts
}

func (m *made) warn(kind Kind, path, format string, args ...any) {
	if m.private {
		args = withheld(args)
	}
	m.warnings = append(m.warnings, Finding{Kind: kind, Path: path, Message: fmt.Sprintf(format, args...)})
}

// item maps one trace. The error is one *refusal or several. With a redaction
// neither it nor the warnings show anything that was not redacted.
func (m *mapper) item(trace langfuse.Trace, scores []langfuse.Score) (made, error) {
	out, err := m.mapped(trace, scores)
	if m.redact != nil {
		for i := range out.warnings {
			out.warnings[i] = m.redact.finding(out.warnings[i])
		}
		err = m.redact.refusals(err)
	}
	return out, err
}

// mapped maps one trace, in this order: choose the observation, demand evidence,
// take input and gold, normalise them, redact.
func (m *mapper) mapped(trace langfuse.Trace, scores []langfuse.Score) (made, error) {
	chosen, err := m.choose(trace, scores)
	if err != nil {
		return made{}, err
	}
	w := newWitness(trace, scores, m.queues, m.mapping.Evidence, chosen)
	w.private = m.redact != nil
	out := made{private: m.redact != nil}
	evidence, reason := w.find()
	if no := w.rejected(); reason != "" && no != "" { // that is no lack of evidence
		return made{}, &refusal{JudgedWrong, "", no, no, ItemID(m.dataset, trace.ID, chosen.id)}
	}
	switch {
	case reason == "":
	case !m.accept:
		return made{}, refuse(NoEvidence, "", "%s; %s", reason, w.couldCount())
	default:
		evidence = Evidence{Kind: Unvalidated}
		out.warn(NoEvidence, "", "is taken without evidence: %s", reason)
	}
	out.evidence = evidence
	correction, corrected := w.correction()
	if other := w.passedOver(); other != "" && !corrected && reason == "" {
		out.warn(PassedOver, "", "is taken as it was answered; %s", other)
	}
	if err := chosen.truncated(corrected); err != nil {
		return made{}, err
	}
	input, err := m.input(chosen.places)
	if err != nil {
		return made{}, err
	}
	where, gold, raw := m.gold(chosen, correction, corrected)
	if key := doubledKey(raw); key != "" {
		out.warn(Reading, "expectedOutput", "%s has the key %s twice in one object: the last one counts", where, excerpt(key))
	}
	expected, err := normalGold(&out, where, gold)
	if err != nil {
		return made{}, err
	}
	metadata := map[string]any{sourceKey: trace.ID, evidenceKey: evidence}
	for key, paths := range m.mapping.Metadata {
		if value, ok := first(paths, chosen.places); ok {
			metadata[key] = value
		}
	}
	out.item = dataset.Item{
		ID: ItemID(m.dataset, trace.ID, chosen.id), Input: input, Expected: expected,
		SourceTraceID: trace.ID, SourceObservationID: chosen.id,
	}
	if out.item.Metadata, err = marshal(metadata); err != nil {
		return made{}, refuse(Syntax, "metadata", "cannot be written as JSON: %s", excerpt(err.Error()))
	}
	return out, m.redacted(&out)
}

// gold finds the expected output: in the correction, else where the mapping says.
// It comes with the name of its place, and as it was recorded.
func (m *mapper) gold(c chosen, correction langfuse.Score, corrected bool) (where string, gold any, raw json.RawMessage) {
	paths := m.mapping.expectedPaths()
	if corrected {
		text, _ := correction.Value.Text()
		return "the correction " + correction.ID, correctedOutput(correction, paths, c.places), json.RawMessage(text)
	}
	gold, _ = first(paths, c.places)
	return "the trace's output", gold, c.output
}

func (m *mapper) redacted(out *made) error {
	if m.redact == nil {
		return nil
	}
	item, count, err := m.redact.Item(out.item)
	if err != nil {
		return refuse(Unredacted, "", "%v", err)
	}
	for name, n := range count {
		m.replaced[name] += n
	}
	out.item = item
	return nil
}

// ItemID names the item that is made of an observation of a trace: a function of
// the three, so that seeding again finds it. Ids are unique in a project, hence
// the dataset.
func ItemID(dataset, traceID, observationID string) string {
	// Lengths keep ("a", "bc") and ("ab", "c") apart.
	hash := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%s", len(dataset), dataset, len(traceID), traceID, observationID))
	return "trace-" + hex.EncodeToString(hash[:16])
}

// input makes the item's input.
func (m *mapper) input(places map[string]any) (json.RawMessage, error) {
	fields := map[string]any{}
	if len(m.mapping.Input) == 0 {
		switch whole := opened(places[placeInput]).(type) {
		case nil:
			return nil, refuse(NoInput, "input", "the trace has no input")
		case string:
			fields["document_text"] = whole
		case map[string]any:
			maps.Copy(fields, whole)
		default:
			return nil, refuse(NoInput, "input", "the trace's input is %s: say in a mapping file where the document is (input: {document_text: …})", excerpt(described(whole)))
		}
	}
	for field, paths := range m.mapping.Input {
		value, ok := first(paths, places)
		if !ok {
			continue
		}
		if field != "document_text" && field != "text" {
			value = opened(value)
		}
		fields[field] = value
	}
	if text, isText := orElse(fields["document_text"], fields["text"]).(string); isText && strings.TrimSpace(text) == "" || orElse(fields["document_text"], fields["text"]) == nil {
		return nil, refuse(NoInput, "input.document_text", "the trace has no document there: %s %s", m.soughtFor(fields)...)
	}
	for field, value := range m.mapping.Constant {
		if fields[field] == nil {
			fields[field] = value
		}
	}
	raw, err := marshal(fields)
	if err == nil {
		raw, err = dataset.Canonical(raw)
	}
	if err != nil {
		return nil, refuse(Syntax, "input", "%s", excerpt(err.Error()))
	}
	return raw, nil
}

func orElse(a, b any) any {
	if a == nil {
		return b
	}
	return a
}

// soughtFor says where a document was looked for, in two parts.
func (m *mapper) soughtFor(fields map[string]any) []any {
	if paths := slices.Concat(m.mapping.Input["document_text"], m.mapping.Input["text"]); len(paths) > 0 {
		return []any{fmt.Sprint(paths), "lead to no text"}
	}
	keys := fmt.Sprintf("its input has the keys %q;", slices.Sorted(maps.Keys(fields)))
	return []any{excerpt(keys), "a mapping file says which one it is"}
}
