package seed

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/langfuse"
	"extraction-experiment/pipeline/answer"
)

// expectedPaths lead to the gold; without any it is the output.
func (m Mapping) expectedPaths() []Path {
	if len(m.Expected) > 0 {
		return m.Expected
	}
	return []Path{{text: placeOutput, steps: []step{{kind: stepKey, key: placeOutput}}}}
}

// normalGold writes the gold in the native form, names in the place of
// references.
func normalGold(out *made, where string, value any) (json.RawMessage, error) {
	gold, err := readGold(out, where, value)
	if err != nil {
		return nil, err
	}
	for i := range gold.Entities {
		gold.Entities[i].ID = "" // references are names by now
	}
	raw, err := json.Marshal(gold)
	if err == nil {
		raw, err = dataset.Canonical(raw)
	}
	if err != nil {
		return nil, refuse(Syntax, "expectedOutput", "%s", excerpt(err.Error()))
	}
	return raw, nil
}

// correctedOutput looks for the gold in a correction, which has the form of the
// output that it corrects, or is the gold itself.
func correctedOutput(correction langfuse.Score, paths []Path, places map[string]any) any {
	text, _ := correction.Value.Text()
	whole := opened(text)
	if hasGold(whole) {
		return whole
	}
	paths = slices.DeleteFunc(slices.Clone(paths), func(p Path) bool { return !p.throughOutput() })
	instead := maps.Clone(places)
	instead[placeOutput] = whole
	if trace, ok := places[placeTrace].(map[string]any); ok {
		trace = maps.Clone(trace)
		trace[placeOutput] = whole
		instead[placeTrace] = trace
	}
	if value, ok := first(paths, instead); ok {
		return value
	}
	return whole
}

// throughOutput reports whether a path leads into an output, which a correction
// stands for; the others lead past it.
func (p Path) throughOutput() bool {
	if len(p.steps) == 0 {
		return false
	}
	return p.steps[0].key == placeOutput || len(p.steps) > 1 && p.steps[0].key == placeTrace && p.steps[1].key == placeOutput
}

func hasGold(value any) bool {
	object, _ := value.(map[string]any)
	_, entities := object["entities"]
	_, relationships := object["relationships"]
	return entities || relationships
}

// readGold reads entities and relationships.
func readGold(out *made, where string, value any) (extraction.Extraction, error) {
	var gold extraction.Extraction
	var warnings []string
	switch value := opened(value).(type) {
	case nil:
		return gold, refuse(NoOutput, "expectedOutput", "%s has no value there", where)
	case string:
		if strings.TrimSpace(value) == "" {
			return gold, refuse(NoOutput, "expectedOutput", "%s is empty", where)
		}
		result, err := answer.Parse(value)
		if err != nil {
			return gold, refuse(NotJSON, "expectedOutput", "%s is not JSON with entities and relationships: %s", where, excerpt(err.Error()))
		}
		if result.Truncated {
			return gold, refuse(Truncated, "expectedOutput", "%s ends in the middle", where)
		}
		gold, warnings = result.Extraction, append(result.Repairs, result.Warnings...)
	default:
		if !hasGold(value) {
			return gold, refuse(Expected, "expectedOutput", "%s is %s, without entities and relationships: say in a mapping file where they are (expected: …)", where, excerpt(described(value)))
		}
		raw, err := marshal(value)
		if err != nil {
			return gold, refuse(Syntax, "expectedOutput", "%s", excerpt(err.Error()))
		}
		if gold, warnings, err = extraction.DecodeExtraction(raw); err != nil {
			return gold, errors.Join(wrongGold(err)...)
		}
	}
	if err := unambiguous(gold, opened(value)); err != nil {
		return gold, err
	}
	for _, text := range warnings {
		text = strings.Replace(text, "are kept but not used", "are left out", 1) // here only what is known is written
		path, message := splitPath(text, "expectedOutput")
		out.warn(Reading, path, "%s", excerpt(message))
	}
	return gold, nil
}

// wrongGold makes a refusal of each value of the wrong kind.
func wrongGold(err error) []error {
	var list []error
	for _, one := range all(err) {
		path, message := splitPath(one.Error(), "expectedOutput")
		list = append(list, refuse(Expected, path, "%s", excerpt(message)))
	}
	return list
}

// described names a value for people.
func described(value any) string {
	switch v := value.(type) {
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) > 8 {
			keys = append(keys[:8], "…")
		}
		return fmt.Sprintf("an object with the keys %q", keys)
	}
	return fmt.Sprintf("%q", cut(spelled(value)))
}
