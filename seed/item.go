package seed

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/pipeline/answer"
)

func refuse(kind Kind, path, format string, args ...any) error {
	return &Finding{Kind: kind, Path: path, Message: fmt.Sprintf(format, args...)}
}

// refusals splits an error of the mapper into findings.
func refusals(err error) []Finding {
	return cli.Each(cli.Unjoin(err), func(one error) Finding {
		why := &Finding{Kind: Refused, Message: one.Error()}
		errors.As(one, &why)
		return *why
	})
}

// itemID returns the id of the item made from an observation of a trace. It depends on these three
// values only, so that seeding again finds the item. The dataset is included because ids are unique
// in a project.
func itemID(dataset, traceID, observationID string) string {
	// The lengths distinguish ("a", "bc") from ("ab", "c").
	hash := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%s", len(dataset), dataset, len(traceID), traceID, observationID))
	return "trace-" + hex.EncodeToString(hash[:16])
}

// mapper makes items from traces.
type mapper struct {
	cfg      TraceConfig
	queues   map[string][]completedItem
	replaced map[string]int // replacements of the redaction in all items, by name
}

// mappedItem is an item with its evidence and the findings of making it.
type mappedItem struct {
	item     dataset.Item
	original dataset.Item // before redaction
	evidence Evidence
	// correctedAt is when the correction that is the gold was made; zero without one.
	correctedAt time.Time
	notes
}

const notShown = "(not shown: it is not redacted yet)"

// excerpt formats a part of a message that quotes a trace. With a redaction it returns notShown,
// because the quoted text is not redacted.
func (m *mapper) excerpt(format string, args ...any) string {
	if m.cfg.Redaction != nil {
		return notShown
	}
	return fmt.Sprintf(format, args...)
}

// item maps one trace. If it makes no item, it returns the problems. With a redaction neither these
// nor the warnings show anything that was not redacted.
func (m *mapper) item(trace langfuse.Trace, scores []langfuse.Score) mappedItem {
	out, err := m.build(trace, scores)
	out.problems = refusals(err)
	if m.cfg.Redaction != nil {
		m.cfg.Redaction.redactFindings(out.problems)
		m.cfg.Redaction.redactFindings(out.warnings)
	}
	return out
}

// build maps one trace: it chooses the observation, demands evidence, takes input and gold,
// normalises both, and redacts the item. The error is one or several joined *Finding.
func (m *mapper) build(trace langfuse.Trace, scores []langfuse.Score) (mappedItem, error) {
	var out mappedItem
	if sign := experimentSign(trace); sign != "" {
		return out, refuse(ExperimentTrace, "", "is of an experiment (%s): its answer is a model's and never gold; "+
			"experiment seed --dataset %s --corrections QUEUE takes the corrections of people", sign, m.cfg.Dataset)
	}
	src, err := m.choose(trace, scores)
	if err != nil {
		return out, err
	}
	out.item = dataset.Item{ID: itemID(m.cfg.Dataset, trace.ID, src.id), SourceTraceID: trace.ID,
		SourceObservationID: src.id}
	es := newEvidenceSearch(trace, scores, m.queues, m.cfg.Mapping.Evidence, src)
	es.private = m.cfg.Redaction != nil
	if err := m.demandEvidence(&out, es); err != nil {
		return out, err
	}
	if es.correction != nil {
		out.correctedAt = es.correction.Timestamp
	}
	for _, key := range []string{"input", "output"} { // a correction replaces the output
		if mark := truncationMark(decodeText(src.values[key])); mark != "" && !(es.correction != nil && key == "output") {
			return out, refuse(Truncated, key, "the trace's %s was cut when it was recorded (%s)", key, mark)
		}
	}
	if out.item.Input, err = m.input(src.values); err != nil {
		return out, err
	}
	if out.item.Expected, err = m.expected(&out, src, es.correction); err != nil {
		return out, err
	}
	metadata := map[string]any{sourceKey: trace.ID, evidenceKey: out.evidence}
	for key, paths := range m.cfg.Mapping.Metadata {
		if value, ok := paths.find(src.values); ok {
			metadata[key] = value
		}
	}
	if out.item.Metadata, err = m.canonical("metadata", metadata); err != nil {
		return out, err
	}
	if m.cfg.Redaction == nil {
		return out, nil
	}
	out.original = out.item
	item, w, err := m.cfg.Redaction.redactItem(out.item)
	if err != nil {
		return out, refuse(Unredacted, "", "%v", err)
	}
	for _, warning := range w.warnings() {
		out.warn(Unredacted, "", "%s", warning)
	}
	for name, n := range w.placeholders.count {
		m.replaced[name] += n
	}
	out.item = item
	return out, nil
}

// demandEvidence sets the evidence of an item, or refuses the trace.
func (m *mapper) demandEvidence(out *mappedItem, es evidenceSearch) error {
	evidence, reason := es.find()
	rejection, unused := es.rejection(), es.unusedCorrection()
	switch {
	case reason == "" && unused != "" && es.correction == nil:
		out.warn(PassedOver, "", "is taken as it was answered; %s", unused)
	case reason == "":
	case rejection != "": // a rejection is not a lack of evidence; seeding removes no item
		return refuse(JudgedWrong, "", "%s; if it was seeded before: experiment seed --dataset %s --archive %s takes its item out",
			rejection, m.cfg.Dataset, m.cfg.IDPrefix+out.item.ID)
	case !m.cfg.AcceptUnvalidated:
		return refuse(NoEvidence, "", "%s; %s", reason, es.countableHint())
	default:
		evidence = Evidence{Kind: Unvalidated}
		out.warn(NoEvidence, "", "is taken without evidence: %s", reason)
	}
	out.evidence = evidence
	return nil
}

// source is the observation that input and output are taken from, with the values that paths begin
// at.
type source struct {
	id     string // id of the observation; "" if the trace has none
	whole  bool   // the trace itself was chosen, and id is its root
	values map[string]any
}

// choose returns the observation of the mapping. Of several that match it prefers one with evidence
// or a correction of its own, then the latest: the attempt that was kept.
func (m *mapper) choose(trace langfuse.Trace, scores []langfuse.Score) (source, error) {
	if m.cfg.Mapping.Observation == (ObservationFilter{}) {
		root, hasRoot := trace.Root()
		if !hasRoot && isEmptyValue(trace.Input) && isEmptyValue(trace.Output) {
			return source{}, refuse(Truncated, "", "its root observation is missing: it was cut off, or has not arrived yet")
		}
		src, err := m.newSource(trace, langfuse.Observation{
			ID: root.ID, Name: root.Name, Input: orDefault(trace.Input, root.Input),
			Output: orDefault(trace.Output, root.Output), Metadata: orDefault(trace.Metadata, root.Metadata),
		})
		src.whole = true
		return src, err
	}
	reviewed := map[string]bool{} // ids of observations with a correction, a score by a person, or a place in a queue
	for _, s := range scores {
		if s.Subject.Kind == "observation" && (s.AuthorUserID != "" || s.Type == langfuse.ScoreCorrection) {
			reviewed[s.Subject.ID] = true
		}
	}
	for id := range m.queues { // the ids of traces among them match no observation
		reviewed[id] = true
	}
	best, found := langfuse.Observation{}, false
	var names []string
	for _, o := range trace.Observations { // sorted by start
		if m.cfg.Mapping.Observation.matches(o) {
			if !found || reviewed[o.ID] || !reviewed[best.ID] {
				best, found = o, true
			}
		} else if name := fmt.Sprintf("%s (%s)", o.Name, o.Type); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if !found {
		return source{}, refuse(NoObservation, "", "has no observation of {name: %q, type: %q}; it has %s", m.cfg.Mapping.Observation.Name, m.cfg.Mapping.Observation.Type, m.excerpt("%s", textutil.First(names, maxListed)))
	}
	return m.newSource(trace, best)
}

func (m *mapper) newSource(trace langfuse.Trace, o langfuse.Observation) (source, error) {
	var problem error
	read := func(path string, raw json.RawMessage) any {
		if isEmptyValue(raw) {
			return nil
		}
		value, err := dataset.Decode(raw)
		if err != nil && problem == nil {
			problem = refuse(NotJSON, path, "%s", m.excerpt("%v", err))
		}
		return value
	}
	tags := append([]any{}, cli.Each(trace.Tags, func(tag string) any { return tag })...)
	return source{id: o.ID, values: map[string]any{
		"input": read("input", o.Input), "output": read("output", o.Output), "metadata": read("metadata", o.Metadata),
		"name": o.Name,
		"trace": map[string]any{
			"input": read("trace.input", trace.Input), "output": read("trace.output", trace.Output),
			"metadata": read("trace.metadata", trace.Metadata), "name": trace.Name, "tags": tags,
			"environment": trace.Environment,
		},
	}}, problem
}

// isEmptyValue reports whether a value stands for an absent one. v4 returns "" for absent.
func isEmptyValue(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return textutil.AbsentJSON(raw) || string(raw) == `""`
}

func orDefault(raw, fallback json.RawMessage) json.RawMessage {
	if isEmptyValue(raw) {
		return fallback
	}
	return raw
}

// truncationMark returns the mark of a value that was cut, or "". It knows the marks of this
// project's spans, of the official SDKs, and the usual ends of texts.
func truncationMark(value any) string {
	switch v := value.(type) {
	case string:
		for _, mark := range []string{"<truncated due to size exceeding limit>", "[truncated]"} {
			if strings.HasSuffix(strings.TrimRight(v, " \n"), mark) {
				return mark
			}
		}
	case []any:
		for _, element := range v {
			if mark := truncationMark(element); mark != "" {
				return mark
			}
		}
	case map[string]any:
		if v["truncated"] == true && v["begins"] != nil {
			return fmt.Sprintf("truncated, of %s bytes", plainText(v["bytes"]))
		}
		return truncationMark(slices.Collect(maps.Values(v)))
	}
	return ""
}

// input makes the item's input.
func (m *mapper) input(values map[string]any) (json.RawMessage, error) {
	fields := map[string]any{}
	if len(m.cfg.Mapping.Input) == 0 {
		switch v := decodeText(values["input"]).(type) {
		case nil:
			return nil, refuse(NoInput, "input", "the trace has no input: a mapping file says where the document is "+
				"(observation: {name: …}, input: {document_text: …})")
		case string:
			fields["document_text"] = v
		case map[string]any:
			maps.Copy(fields, v)
		default:
			return nil, refuse(NoInput, "input", "the trace's input is %s: say in a mapping file where the document is (input: {document_text: …})",
				m.excerpt("%s", brief(v)))
		}
	}
	for field, paths := range m.cfg.Mapping.Input {
		if value, ok := paths.find(values); ok {
			fields[field] = value
			if field != "document_text" && field != "text" {
				fields[field] = decodeText(value)
			}
		}
	}
	document := cmp.Or(fields["document_text"], fields["text"])
	if text, isText := document.(string); document == nil || isText && strings.TrimSpace(text) == "" {
		return nil, refuse(NoInput, "input.document_text", "the trace has no document there, or an empty one: its input has "+
			"%s; a mapping file says where it is", m.excerpt("the keys %q", slices.Sorted(maps.Keys(fields))))
	}
	for field, value := range m.cfg.Mapping.Constant {
		if fields[field] == nil {
			fields[field] = value
		}
	}
	return m.canonical("input", fields)
}

// canonical encodes a field of the item.
func (m *mapper) canonical(path string, value any) (json.RawMessage, error) {
	raw, err := textutil.MarshalJSON(value)
	if err == nil {
		raw, err = dataset.Canonical(raw)
	}
	if err != nil {
		return nil, refuse(Syntax, path, "%s", m.excerpt("%v", err))
	}
	return raw, nil
}

// listKey matches the key of a list in a text that holds an extraction.
var listKey = textutil.Pattern(`(?i)["'](entities|relationships)["']\s*:`)

// expected returns the gold in the native form, with names in place of references. It takes the
// correction, if not nil, else the value at the mapping's path. A correction has the form of the output that it
// corrects, or is the gold itself; a path that leads outside the output does not apply to it.
func (m *mapper) expected(out *mappedItem, src source, correction *langfuse.Score) (json.RawMessage, error) {
	paths := m.cfg.Mapping.Expected
	if len(paths) == 0 {
		paths = Paths{{text: "output", steps: []step{{key: "output"}}}}
	}
	origin := "the trace's output"
	if len(m.cfg.Mapping.Expected) > 0 || !src.whole {
		origin = fmt.Sprintf("%v of the observation %s", paths, src.id)
	}
	value, _ := paths.find(src.values)
	var replaced extraction.Extraction
	if correction != nil {
		text, _ := correction.Value.Text()
		if out.item.Expected != nil { // the gold of an item that exists
			value, _ = dataset.Decode(out.item.Expected)
		}
		replaced, _ = m.readGold(&mappedItem{}, "", decodeText(value)) // what is no gold has no lists
		origin, value = "the correction "+correction.ID, decodeText(text)
		part, ok := paths.find(map[string]any{"output": value, "trace": map[string]any{"output": value}})
		if ok && !hasGold(value) {
			value = part
		}
	}
	value = decodeText(value)
	gold, err := m.readGold(out, origin, value)
	if err != nil {
		return nil, err
	}
	object, _ := value.(map[string]any)
	words, _ := value.(string) // a text with an object in it
	keys := listKey().FindAllStringSubmatch(words, -1)
	for list, n := range map[string]int{"entities": len(replaced.Entities), "relationships": len(replaced.Relationships)} {
		_, has := object[list]
		isList := func(key []string) bool { return strings.EqualFold(key[1], list) }
		if n > 0 && !has && !slices.ContainsFunc(keys, isList) {
			return nil, refuse(Expected, "expectedOutput", `%s has no list of %[2]s, and the gold that it replaces has %[3]d: `+
				`add them to the correction, or "%[2]s": [] if there are none`, origin, list, n)
		}
	}
	for i := range gold.Entities {
		gold.Entities[i].ID = "" // references were replaced by names
	}
	return m.canonical("expectedOutput", gold)
}

func hasGold(value any) bool {
	object, _ := value.(map[string]any)
	_, entities := object["entities"]
	_, relationships := object["relationships"]
	return entities || relationships
}

// readGold decodes entities and relationships.
func (m *mapper) readGold(out *mappedItem, origin string, value any) (gold extraction.Extraction, err error) {
	var warnings []string
	text, isText := value.(string)
	switch {
	case value == nil || isText && strings.TrimSpace(text) == "":
		return gold, refuse(NoOutput, "expectedOutput", "%s has no value: a mapping file says where the gold is "+
			"(observation: {name: …}, expected: …)", origin)
	case isText:
		result, err := answer.Parse(text)
		cutOff := func() bool {
			return errors.Is(json.NewDecoder(strings.NewReader(text)).Decode(new(any)), io.ErrUnexpectedEOF)
		}
		switch {
		case result.Truncated, err != nil && cutOff():
			return gold, refuse(Truncated, "expectedOutput", "%s ends in the middle", origin)
		case err != nil:
			return gold, refuse(NotJSON, "expectedOutput", "%s is not JSON with entities and relationships: %s", origin, m.excerpt("%v", err))
		}
		gold, warnings = result.Extraction, result.Warnings
	case !hasGold(value):
		return gold, refuse(Expected, "expectedOutput", "%s is %s, without entities and relationships: say in a mapping file where they are (expected: …)",
			origin, m.excerpt("%s", brief(value)))
	default:
		if gold, warnings, err = extraction.DecodeExtraction(dataset.CanonicalValue(value)); err != nil {
			return gold, errors.Join(cli.Each(cli.Unjoin(err), func(one error) error {
				path, message := splitPath(one.Error(), "expectedOutput")
				return refuse(Expected, path, "%s", m.excerpt("%s", message))
			})...)
		}
	}
	for _, warning := range warnings {
		warning = strings.Replace(warning, "are kept but not used", "are left out", 1) // the item has only known keys
		path, message := splitPath(warning, "expectedOutput")
		out.warn(Reading, path, "%s", m.excerpt("%s", message))
	}
	return gold, nil
}

// brief returns the beginning of a value for messages.
func brief(value any) string { return textutil.Cut(string(dataset.CanonicalValue(value)), 100) }
