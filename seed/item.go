package seed

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// refusals takes an error of the mapper apart.
func refusals(err error) []*Finding {
	return cli.Each(cli.Separate(err), func(one error) *Finding {
		why := &Finding{Kind: Refused, Message: one.Error()}
		errors.As(one, &why)
		return why
	})
}

// itemID names the item that is made of an observation of a trace: a function of
// the three, so that seeding again finds it. Ids are unique in a project, hence
// the dataset.
func itemID(dataset, traceID, observationID string) string {
	// Lengths keep ("a", "bc") and ("ab", "c") apart.
	hash := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%s", len(dataset), dataset, len(traceID), traceID, observationID))
	return "trace-" + hex.EncodeToString(hash[:16])
}

// mapper makes items of traces.
type mapper struct {
	cfg      TraceConfig
	queues   map[string][]completed
	replaced map[string]int // by the redaction, in all items
}

// made is an item with what a person should know about its making.
type made struct {
	item     dataset.Item
	evidence Evidence
	notes
}

const notShown = "(not shown: it is not redacted yet)"

// excerpt is a part of a message that quotes a trace. Where a redaction is asked
// for it is not shown: it is from before the redaction.
func (m *mapper) excerpt(format string, args ...any) string {
	if m.cfg.Redaction != nil {
		return notShown
	}
	return fmt.Sprintf(format, args...)
}

// item maps one trace. The error is one *Finding or several. With a redaction
// neither it nor the warnings show anything that was not redacted.
func (m *mapper) item(trace langfuse.Trace, scores []langfuse.Score) (made, error) {
	out, err := m.mapped(trace, scores)
	if m.cfg.Redaction == nil {
		return out, err
	}
	for i := range out.warnings {
		m.cfg.Redaction.finding(&out.warnings[i])
	}
	for _, why := range refusals(err) {
		m.cfg.Redaction.finding(why)
	}
	return out, err
}

// mapped maps one trace, in this order: choose the observation, demand evidence,
// take input and gold, normalise them, redact.
func (m *mapper) mapped(trace langfuse.Trace, scores []langfuse.Score) (made, error) {
	var out made
	if sign := experimentSign(trace); sign != "" {
		return out, refuse(OfExperiment, "", "is of an experiment (%s): its answer is a model's and never gold; "+
			"experiment seed --dataset %s --corrections QUEUE takes what people said of it", sign, m.cfg.Dataset)
	}
	c, err := m.choose(trace, scores)
	if err != nil {
		return out, err
	}
	out.item = dataset.Item{ID: itemID(m.cfg.Dataset, trace.ID, c.id), SourceTraceID: trace.ID, SourceObservationID: c.id}
	es := newEvidenceSearch(trace, scores, m.queues, m.cfg.Mapping.Evidence, c)
	es.private = m.cfg.Redaction != nil
	if err := m.demandEvidence(&out, es); err != nil {
		return out, err
	}
	correction, corrected := es.correction()
	if err := c.truncated(corrected); err != nil {
		return out, err
	}
	if out.item.Input, err = m.input(c.places); err != nil {
		return out, err
	}
	if out.item.Expected, err = m.expected(&out, c, correction, corrected); err != nil {
		return out, err
	}
	metadata := map[string]any{sourceKey: trace.ID, evidenceKey: out.evidence}
	for key, paths := range m.cfg.Mapping.Metadata {
		if value, ok := paths.find(c.places); ok {
			metadata[key] = value
		}
	}
	if out.item.Metadata, err = m.canonical("metadata", metadata); err != nil {
		return out, err
	}
	if m.cfg.Redaction == nil {
		return out, nil
	}
	item, w, err := m.cfg.Redaction.item(out.item)
	if err != nil {
		return out, refuse(Unredacted, "", "%v", err)
	}
	for name, n := range w.placeholders.count {
		m.replaced[name] += n
	}
	out.item = item
	return out, nil
}

// demandEvidence finds the evidence of a trace, or refuses it.
func (m *mapper) demandEvidence(out *made, es evidenceSearch) error {
	evidence, reason := es.find()
	no, other := es.rejected(), es.unusedCorrection()
	_, corrected := es.correction()
	switch {
	case reason == "" && other != "" && !corrected:
		out.warn(PassedOver, "", "is taken as it was answered; %s", other)
	case reason == "":
	case no != "": // that is not a lack of evidence; seeding takes nothing out
		return refuse(JudgedWrong, "", "%s; if it was seeded before: experiment seed --dataset %s --archive %s takes its item out",
			no, m.cfg.Dataset, m.cfg.IDPrefix+out.item.ID)
	case !m.cfg.AcceptUnvalidated:
		return refuse(NoEvidence, "", "%s; %s", reason, es.couldCount())
	default:
		evidence = Evidence{Kind: Unvalidated}
		out.warn(NoEvidence, "", "is taken without evidence: %s", reason)
	}
	out.evidence = evidence
	return nil
}

// chosen is what a trace is seen as: the observation that input and output are
// taken from, and the places that paths begin with.
type chosen struct {
	id     string // of the observation; "" where the trace has none
	whole  bool   // the trace itself was chosen, id is its root
	places map[string]any
}

// choose finds the observation of the mapping. Of several that match, those with
// evidence or a correction of their own come first, then the latest: the attempt
// that was kept.
func (m *mapper) choose(trace langfuse.Trace, scores []langfuse.Score) (chosen, error) {
	if m.cfg.Mapping.Observation == (Choice{}) {
		root, hasRoot := trace.Root()
		if !hasRoot && isNothing(trace.Input) && isNothing(trace.Output) {
			return chosen{}, refuse(Truncated, "", "its root observation is missing: it was cut off, or has not arrived yet")
		}
		c, err := m.newChosen(trace, langfuse.Observation{
			ID: root.ID, Name: root.Name, Input: orNothing(trace.Input, root.Input),
			Output: orNothing(trace.Output, root.Output), Metadata: orNothing(trace.Metadata, root.Metadata),
		})
		c.whole = true
		return c, err
	}
	judged := m.judged(scores)
	best, found := langfuse.Observation{}, false
	var names []string
	for _, o := range trace.Observations { // by start
		if m.cfg.Mapping.Observation.matches(o) {
			if !found || judged[o.ID] || !judged[best.ID] {
				best, found = o, true
			}
		} else if name := fmt.Sprintf("%s (%s)", o.Name, o.Type); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if !found {
		return chosen{}, refuse(NoObservation, "", "has no observation of {name: %q, type: %q}; it has %s", m.cfg.Mapping.Observation.Name, m.cfg.Mapping.Observation.Type, m.excerpt("%s", textutil.First(names, mostListed)))
	}
	return m.newChosen(trace, best)
}

// judged returns the observations that a person looked at or a correction is of.
func (m *mapper) judged(scores []langfuse.Score) map[string]bool {
	ids := map[string]bool{}
	for _, s := range scores {
		if s.Subject.Kind == "observation" && (s.AuthorUserID != "" || s.Type == langfuse.ScoreCorrection) {
			ids[s.Subject.ID] = true
		}
	}
	for id := range m.queues { // those of traces are not ids of observations
		ids[id] = true
	}
	return ids
}

func (m *mapper) newChosen(trace langfuse.Trace, o langfuse.Observation) (chosen, error) {
	var problem error
	read := func(path string, raw json.RawMessage) any {
		if isNothing(raw) {
			return nil
		}
		value, err := dataset.Decode(raw)
		if err != nil && problem == nil {
			problem = refuse(NotJSON, path, "%s", m.excerpt("%v", err))
		}
		return value
	}
	tags := append([]any{}, cli.Each(trace.Tags, func(tag string) any { return tag })...)
	return chosen{id: o.ID, places: map[string]any{
		placeInput: read(placeInput, o.Input), placeOutput: read(placeOutput, o.Output), placeMetadata: read(placeMetadata, o.Metadata),
		placeName: o.Name,
		placeTrace: map[string]any{
			placeInput: read("trace.input", trace.Input), placeOutput: read("trace.output", trace.Output),
			placeMetadata: read("trace.metadata", trace.Metadata), placeName: trace.Name, "tags": tags, "environment": trace.Environment,
		},
	}}, problem
}

// isNothing says which values stand for an absent one; v4 gives "" for it.
func isNothing(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null" || string(raw) == `""`
}

func orNothing(raw, other json.RawMessage) json.RawMessage {
	if isNothing(raw) {
		return other
	}
	return raw
}

// truncated looks for the marks that writers of traces leave where they cut. The
// output of a corrected trace does not count: it is replaced.
func (c chosen) truncated(corrected bool) error {
	for _, place := range []string{placeInput, placeOutput} {
		if mark := cutMark(opened(c.places[place])); mark != "" && !(corrected && place == placeOutput) {
			return refuse(Truncated, place, "the trace's %s was cut when it was recorded (%s)", place, mark)
		}
	}
	return nil
}

// cutMark returns the mark of a value that was cut, or nothing: that of this
// project's spans, that of the official SDKs, and the usual ends of texts.
func cutMark(value any) string {
	switch v := value.(type) {
	case string:
		for _, mark := range []string{"<truncated due to size exceeding limit>", "[truncated]"} {
			if strings.HasSuffix(strings.TrimRight(v, " \n"), mark) {
				return mark
			}
		}
	case []any:
		for _, element := range v {
			if mark := cutMark(element); mark != "" {
				return mark
			}
		}
	case map[string]any:
		if v["truncated"] == true && v["begins"] != nil {
			return fmt.Sprintf("truncated, of %s bytes", spelled(v["bytes"]))
		}
		return cutMark(slices.Collect(maps.Values(v)))
	}
	return ""
}

// input makes the item's input.
func (m *mapper) input(places map[string]any) (json.RawMessage, error) {
	fields := map[string]any{}
	if len(m.cfg.Mapping.Input) == 0 {
		switch whole := opened(places[placeInput]).(type) {
		case nil:
			return nil, refuse(NoInput, "input", "the trace has no input")
		case string:
			fields["document_text"] = whole
		case map[string]any:
			maps.Copy(fields, whole)
		default:
			return nil, refuse(NoInput, "input", "the trace's input is %s: say in a mapping file where the document is (input: {document_text: …})",
				m.excerpt("%s", brief(whole)))
		}
	}
	for field, paths := range m.cfg.Mapping.Input {
		if value, ok := paths.find(places); ok {
			fields[field] = value
			if field != "document_text" && field != "text" {
				fields[field] = opened(value)
			}
		}
	}
	document := cmp.Or(fields["document_text"], fields["text"])
	if text, isText := document.(string); document == nil || isText && strings.TrimSpace(text) == "" {
		sought := m.excerpt("its input has the keys %q;", slices.Sorted(maps.Keys(fields))) + " a mapping file says which one it is"
		if paths := slices.Concat(m.cfg.Mapping.Input["document_text"], m.cfg.Mapping.Input["text"]); len(paths) > 0 {
			sought = fmt.Sprint(paths) + " lead to no text"
		} else if isText {
			sought = "the text is empty"
		}
		return nil, refuse(NoInput, "input.document_text", "the trace has no document there: %s", sought)
	}
	for field, value := range m.cfg.Mapping.Constant {
		if fields[field] == nil {
			fields[field] = value
		}
	}
	return m.canonical("input", fields)
}

// canonical writes a field of the item.
func (m *mapper) canonical(path string, value any) (json.RawMessage, error) {
	raw, err := dataset.Marshal(value)
	if err == nil {
		raw, err = dataset.Canonical(raw)
	}
	if err != nil {
		return nil, refuse(Syntax, path, "%s", m.excerpt("%v", err))
	}
	return raw, nil
}

// expected finds the gold, in the correction, else where the mapping says, and
// writes it in the native form, names in place of references. A correction has the
// form of the output that it corrects, or is the gold itself; paths that lead past the
// output lead past it.
func (m *mapper) expected(out *made, c chosen, correction langfuse.Score, corrected bool) (json.RawMessage, error) {
	paths := m.cfg.Mapping.Expected
	if len(paths) == 0 {
		paths = Paths{{text: placeOutput, steps: []step{{key: placeOutput}}}}
	}
	where := "the trace's output"
	value, _ := paths.find(c.places)
	if corrected {
		text, _ := correction.Value.Text()
		where, value = "the correction "+correction.ID, opened(text)
		part, ok := paths.find(map[string]any{placeOutput: value, placeTrace: map[string]any{placeOutput: value}})
		if ok && !hasGold(value) {
			value = part
		}
	}
	gold, err := m.readGold(out, where, opened(value))
	if err != nil {
		return nil, err
	}
	for i := range gold.Entities {
		gold.Entities[i].ID = "" // references are names by now
	}
	return m.canonical("expectedOutput", gold)
}

func hasGold(value any) bool {
	object, _ := value.(map[string]any)
	_, entities := object["entities"]
	_, relationships := object["relationships"]
	return entities || relationships
}

// readGold reads entities and relationships.
func (m *mapper) readGold(out *made, where string, value any) (gold extraction.Extraction, err error) {
	var warnings []string
	text, isText := value.(string)
	switch {
	case value == nil || isText && strings.TrimSpace(text) == "":
		return gold, refuse(NoOutput, "expectedOutput", "%s has no value there", where)
	case isText:
		result, err := answer.Parse(text)
		if err != nil {
			return gold, refuse(NotJSON, "expectedOutput", "%s is not JSON with entities and relationships: %s", where, m.excerpt("%v", err))
		}
		if result.Truncated {
			return gold, refuse(Truncated, "expectedOutput", "%s ends in the middle", where)
		}
		gold, warnings = result.Extraction, result.Warnings
	case !hasGold(value):
		return gold, refuse(Expected, "expectedOutput", "%s is %s, without entities and relationships: say in a mapping file where they are (expected: …)",
			where, m.excerpt("%s", brief(value)))
	default:
		if gold, warnings, err = extraction.DecodeExtraction(dataset.CanonicalValue(value)); err != nil {
			return gold, errors.Join(cli.Each(cli.Separate(err), func(one error) error {
				path, message := splitPath(one.Error(), "expectedOutput")
				return refuse(Expected, path, "%s", m.excerpt("%s", message))
			})...)
		}
	}
	for _, warning := range warnings {
		warning = strings.Replace(warning, "are kept but not used", "are left out", 1) // here only what is known is written
		path, message := splitPath(warning, "expectedOutput")
		out.warn(Reading, path, "%s", m.excerpt("%s", message))
	}
	return gold, nil
}

// brief is the beginning of a value, for people.
func brief(value any) string { return textutil.Cut(string(dataset.CanonicalValue(value)), 100) }
