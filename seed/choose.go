package seed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// chosen is what a trace is seen as: the observation that input and output are
// taken from, and the places that paths begin with.
type chosen struct {
	id     string // of the observation; "" where the trace has none
	whole  bool   // the trace itself was chosen, id is its root
	places map[string]any
	output json.RawMessage // as it was recorded
}

// choose finds the observation of the mapping. Of several that match, those with
// evidence or a correction of their own come first, then the latest: the attempt
// that was kept.
func (m *mapper) choose(trace langfuse.Trace, scores []langfuse.Score) (chosen, error) {
	root, hasRoot := trace.Root()
	if m.mapping.Observation.isZero() {
		if !hasRoot && isNothing(trace.Input) && isNothing(trace.Output) {
			return chosen{}, refuse(Truncated, "", "its root observation is missing: it was cut off, or has not arrived yet")
		}
		c, err := newChosen(trace, langfuse.Observation{
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
		if m.mapping.Observation.matches(o) {
			if !found || judged[o.ID] || !judged[best.ID] {
				best, found = o, true
			}
		} else if name := fmt.Sprintf("%s (%s)", o.Name, o.Type); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if !found {
		return chosen{}, refuse(NoObservation, "", "has no observation of %s; it has %s", m.mapping.Observation, excerpt(listed(names)))
	}
	return newChosen(trace, best)
}

func (c Choice) matches(o langfuse.Observation) bool {
	return (c.Name == "" || c.Name == o.Name) && (c.Type == "" || c.Type == strings.ToUpper(o.Type))
}

// judged returns the observations that a person looked at or a correction is of.
func (m *mapper) judged(scores []langfuse.Score) map[string]bool {
	ids := map[string]bool{}
	for _, s := range scores {
		if s.Subject.Kind == "observation" && (s.AuthorUserID != "" || s.Type == langfuse.ScoreCorrection) {
			ids[s.Subject.ID] = true
		}
	}
	for id, items := range m.queues {
		if slices.ContainsFunc(items, func(c completed) bool { return c.ObjectType == langfuse.ObjectObservation }) {
			ids[id] = true
		}
	}
	return ids
}

func listed(names []string) string {
	const shown = 10
	if len(names) == 0 {
		return "none"
	}
	if len(names) > shown {
		names = append(names[:shown:shown], "…")
	}
	return strings.Join(names, ", ")
}

func newChosen(trace langfuse.Trace, o langfuse.Observation) (chosen, error) {
	fields := []struct {
		path string
		raw  json.RawMessage
		into any
	}{
		{placeInput, o.Input, nil}, {placeOutput, o.Output, nil}, {placeMetadata, o.Metadata, nil},
		{"trace.input", trace.Input, nil}, {"trace.output", trace.Output, nil}, {"trace.metadata", trace.Metadata, nil},
	}
	for i, f := range fields {
		if isNothing(f.raw) {
			continue
		}
		value, err := dataset.Decode(f.raw)
		if err != nil {
			return chosen{}, refuse(NotJSON, f.path, "%s", excerpt(err.Error()))
		}
		fields[i].into = value
	}
	tags := make([]any, len(trace.Tags))
	for i, tag := range trace.Tags {
		tags[i] = tag
	}
	return chosen{id: o.ID, output: o.Output, places: map[string]any{
		placeInput: fields[0].into, placeOutput: fields[1].into, placeMetadata: fields[2].into, placeName: o.Name,
		placeTrace: map[string]any{
			placeInput: fields[3].into, placeOutput: fields[4].into, placeMetadata: fields[5].into,
			placeName: trace.Name, "tags": tags, "environment": trace.Environment,
		},
	}}, nil
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
// output of a corrected trace does not count.
func (c chosen) truncated(corrected bool) error {
	places := []string{placeInput, placeOutput}
	if corrected {
		places = places[:1] // the output is replaced
	}
	for _, place := range places {
		if mark := cutMark(opened(c.places[place]), 0); mark != "" {
			return refuse(Truncated, place, "the trace's %s was cut when it was recorded (%s)", place, mark)
		}
	}
	return nil
}

// cutMark returns the mark of a value that was cut, or nothing: that of this
// project's spans, that of the official SDKs, and the usual ends of texts.
func cutMark(value any, depth int) string {
	const deepest = 20 // marks stand in the place of whole fields
	if depth > deepest {
		return ""
	}
	switch v := value.(type) {
	case string:
		for _, mark := range []string{"<truncated due to size exceeding limit>", "[truncated]"} {
			if strings.HasSuffix(strings.TrimRight(v, " \n"), mark) {
				return mark
			}
		}
	case []any:
		for _, element := range v {
			if mark := cutMark(element, depth+1); mark != "" {
				return mark
			}
		}
	case map[string]any:
		if v["truncated"] == true && v["begins"] != nil {
			return fmt.Sprintf("truncated, of %s bytes", spelled(v["bytes"]))
		}
		for _, key := range slices.Sorted(maps.Keys(v)) { // of several always the same
			if mark := cutMark(v[key], depth+1); mark != "" {
				return mark
			}
		}
	}
	return ""
}
