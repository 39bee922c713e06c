package seed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
)

// Path selects a value in a trace, similar to JSONPath:
//
//	input.document.text          keys, of objects
//	$.output["a.b"].entities     a leading $. changes nothing; quotes keep dots
//	input.messages[0], [-1]      elements of lists, negative from the end
//	input[?role=user].content    the first element whose key has that value
//	output.pages[*].entities     of every element: a list, lists in it joined
//
// A path also steps into a text that holds a JSON object or list, because models answer with texts.
// The zero value selects nothing.
type Path struct {
	text  string
	steps []step
}

// step is one part of a path.
type step struct {
	kind  string // "" is the key of an object; else see stepIndex
	key   string
	value string // for stepTest
	index int
}

// The kinds of steps into lists.
const (
	stepIndex = "index"
	stepTest  = "test" // the first element whose key has the value
	stepAll   = "all"  // every element
)

// pathStep matches one step: a key, [*], an index, a test or a quoted key.
var pathStep = textutil.Pattern(`^(?:\.?([^.\[]+)|\[\*\]|\[(-?\d+)\]|\[\?([^=\]]+)==?([^\]]*)\]|\["(.*?)"\]|\['(.*?)'\])`)

// ParsePath parses a path. The error quotes the part that it cannot parse.
func ParsePath(text string) (Path, error) {
	p := Path{text: text}
	rest := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(text), "$"), ".")
	for rest != "" || len(p.steps) == 0 {
		m := pathStep().FindStringSubmatch(rest)
		if m == nil {
			return Path{}, fmt.Errorf("path %q: cannot be read from %q on: expected such as input.document.text, "+
				`messages[0], [-1], [*], ["a key"] or [?role=user]`, text, rest)
		}
		next := step{key: m[1] + m[5] + m[6]}
		switch {
		case m[0] == "[*]":
			next.kind = stepAll
		case m[2] != "":
			next.kind = stepIndex
			next.index, _ = strconv.Atoi(m[2]) // an index out of range selects nothing, and so does this
		case m[3] != "":
			next = step{kind: stepTest, key: strings.TrimSpace(m[3]), value: strings.Trim(m[4], ` "'`)}
		}
		p.steps, rest = append(p.steps, next), rest[len(m[0]):]
	}
	return p, nil
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// Find returns the value that the path selects, and whether there is one. Null counts as absent.
// The value has the types of dataset.Decode and is not copied.
func (p Path) Find(from any) (any, bool) {
	if len(p.steps) == 0 {
		return nil, false
	}
	found := follow(from, p.steps)
	return found, found != nil
}

// follow applies steps to a value. It returns nil if they select nothing.
func follow(from any, steps []step) any {
	if len(steps) == 0 {
		return from
	}
	s, rest, value := steps[0], steps[1:], decodeText(from)
	if object, isObject := value.(map[string]any); isObject && s.kind == "" {
		return follow(object[s.key], rest)
	}
	list, _ := value.([]any)
	i := s.index
	switch {
	case s.kind == "" || list == nil:
		return nil
	case s.kind == stepAll:
		all := []any{}
		for _, element := range list {
			found := follow(element, rest)
			if inner, isList := decodeText(found).([]any); isList {
				all = append(all, inner...)
			} else if found != nil {
				all = append(all, found)
			}
		}
		return all
	case s.kind == stepTest:
		i = slices.IndexFunc(list, s.holds)
	case i < 0:
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		return nil
	}
	return follow(list[i], rest)
}

// holds reports whether an element of a list passes the step's test.
func (s step) holds(element any) bool {
	object, _ := decodeText(element).(map[string]any)
	value, ok := object[s.key]
	return ok && plainText(value) == s.value
}

// plainText returns a text, number or boolean as text, the form in which tests compare values, and
// "" for anything else.
func plainText(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// decodeText returns the decoded value of a text that holds a JSON object or list, and any other
// value unchanged.
func decodeText(value any) any {
	text, _ := value.(string)
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' {
		return value
	}
	if inner, err := dataset.Decode([]byte(trimmed)); err == nil {
		return inner
	}
	return value
}

// Mapping describes where a trace has the fields of an item. The zero value fits pipelines that
// write extraction input and output on the root.
type Mapping struct {
	// Observation chooses the observation that has input, output and metadata. The zero value takes
	// the trace itself and its root.
	Observation ObservationFilter
	// Input holds paths by field of the item's input ("document_text", "object_schemas", …). The
	// first path with a value counts. If Input is empty, the whole input is taken; a text becomes
	// the document_text.
	Input map[string]Paths
	// Constant supplies input fields for which no path has a value, for example schemas that
	// production does not record.
	Constant map[string]any
	// Expected selects the entities and relationships; empty for the output.
	Expected Paths
	// Metadata holds paths by key of the item's metadata. A key without a value is omitted.
	Metadata map[string]Paths
	// Evidence lists what counts as validation in addition to what people did in Langfuse.
	Evidence EvidenceRules
}

// ObservationFilter selects observations by name, by type (SPAN, GENERATION, …), or both. An empty field
// matches every observation.
type ObservationFilter struct{ Name, Type string }

func (c ObservationFilter) matches(o langfuse.Observation) bool {
	return (c.Name == "" || c.Name == o.Name) && (c.Type == "" || c.Type == strings.ToUpper(o.Type))
}

// Paths are tried in order.
type Paths []Path

// UnmarshalYAML reads "a.b" or [a.b, c.d].
func (l *Paths) UnmarshalYAML(node *yaml.Node) error {
	var texts []string
	if node.Kind == yaml.ScalarNode {
		texts = []string{node.Value}
	} else if err := node.Decode(&texts); err != nil {
		return err
	}
	places := []string{"input", "output", "metadata", "name", "trace"}
	for _, text := range texts {
		path, err := ParsePath(text)
		if err == nil && !slices.Contains(places, path.steps[0].key) {
			err = fmt.Errorf("path %q: begins with none of %s", text, strings.Join(places, ", "))
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", node.Line, err)
		}
		*l = append(*l, path)
	}
	return nil
}

// find returns the value of the first path that has one.
func (l Paths) find(from map[string]any) (any, bool) {
	for _, path := range l {
		if value, ok := path.Find(from); ok {
			return value, true
		}
	}
	return nil, false
}

// ParseMapping parses a mapping file in YAML:
//
//	observation: {name: llm-extract, type: GENERATION}
//	input:
//	  document_text: [input.document.text, "input.messages[?role=user].content"]
//	  object_schemas: trace.metadata.schemas
//	constant:
//	  allowed_types: [Person, City]
//	expected: output.result
//	metadata: {category: trace.metadata.category}
//	evidence: {tags: [validated], scores: ["quality>=0.9"]}
//
// A path begins with input, output, metadata or name of the chosen observation, or with trace:
// trace.input, .output, .metadata, .name, .tags, .environment. All keys are optional. Unknown
// keys and invalid paths are errors with their line and the exit code of malformed input.
func ParseMapping(text []byte) (Mapping, error) {
	var m Mapping
	if err := textutil.DecodeYAML(text, "the mapping", &m, ObservationFilter{}, EvidenceRules{}); err != nil {
		return Mapping{}, cli.WithCode(cli.ExitUsage, err)
	}
	m.Observation.Type = strings.ToUpper(m.Observation.Type)
	var problems textutil.Problems
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		// The values of these keys link to Langfuse or are kept, and are not redacted: see exemptPaths.
		first := keyPath(key)[0]
		problems.Add(slices.Contains([]string{evidenceKey, sourceKey, reviewKey}, first),
			"metadata: the key %q is taken: %s is written there; choose another", key, first)
	}
	if err := errors.Join(problems...); err != nil {
		return Mapping{}, cli.Usage("reading the mapping: %w", err)
	}
	return m, nil
}

// parts returns the parts of traces that the mapping reads.
func (m Mapping) parts() langfuse.TraceParts {
	parts := langfuse.TraceParts{IO: true, Metadata: true} // experimentSign needs the metadata
	paths := slices.Clone(m.Expected)
	for _, fields := range []map[string]Paths{m.Input, m.Metadata} {
		paths = append(paths, slices.Concat(slices.Collect(maps.Values(fields))...)...)
	}
	for _, path := range paths {
		for i := range min(2, len(path.steps)-1) {
			if next := path.steps[i+1]; path.steps[i] == (step{key: "metadata"}) && next.kind == "" {
				parts.ExpandMetadata = append(parts.ExpandMetadata, next.key)
			}
		}
	}
	slices.Sort(parts.ExpandMetadata)
	parts.ExpandMetadata = slices.Compact(parts.ExpandMetadata)
	return parts
}

// ScoreRule is a condition on a score: "validated>=1", "quality>0.8", "verdict=correct".
type ScoreRule struct {
	Name     string
	Operator string // >=, <=, >, <, =, !=
	Value    string
	number   float64
	isNumber bool
}

// scoreRule matches a rule.
var scoreRule = textutil.Pattern(`^\s*([^<>=!]*?)\s*([<>=!]+)\s*(.*?)\s*$`)

// ParseScoreRule parses a name, an operator and a value: a number, true or false (which are 1 and
// 0), or with = and != a text. A name alone means "NAME>=1". Errors have the exit code of malformed
// input.
func ParseScoreRule(text string) (ScoreRule, error) {
	m := scoreRule().FindStringSubmatch(text)
	if m == nil {
		m = []string{text, strings.TrimSpace(text), ">=", "1"}
	}
	r := ScoreRule{Name: m[1], Operator: m[2], Value: m[3]}
	if operators := []string{">=", "<=", "!=", "==", ">", "<", "="}; !slices.Contains(operators, r.Operator) {
		meant := map[string]string{"=<": "<=", "=!": "!=", "<>": "!=", "===": "=", "!": "!="}[r.Operator]
		return r, cli.Usage("score %q: %s is not an operator (there are %s): write '%s%s%s'",
			text, r.Operator, strings.Join(operators, " "), r.Name, cmp.Or(meant, ">="), r.Value)
	}
	if r.Operator == "==" {
		r.Operator = "="
	}
	words := map[string]string{"true": "1", "false": "0"}
	number, err := strconv.ParseFloat(cmp.Or(words[r.Value], r.Value), 64)
	r.number, r.isNumber = number, err == nil && number-number == 0 // finite
	switch {
	case r.Name == "" || r.Value == "":
		return r, cli.Usage("score %q: expected such as 'validated>=1' or 'verdict=correct'", text)
	case strings.Contains(r.Name, ","):
		return r, cli.Usage("score %q: Langfuse cannot be asked for a name with a comma", text)
	case !r.isNumber && r.Operator != "=" && r.Operator != "!=":
		return r, cli.Usage("score %q: %s compares numbers, and %q is not one", text, r.Operator, r.Value)
	}
	return r, nil
}

// UnmarshalYAML reads a rule as ParseScoreRule does.
func (r *ScoreRule) UnmarshalYAML(node *yaml.Node) (err error) {
	var text string
	if err := node.Decode(&text); err != nil {
		return err
	}
	*r, err = ParseScoreRule(text)
	return err
}

// holds reports whether a score has the rule's name and satisfies the rule. Numbers and booleans
// compare as numbers, texts as texts; a score of another kind satisfies no rule.
func (r ScoreRule) holds(s langfuse.Score) bool {
	if s.Name != r.Name {
		return false
	}
	if number, ok := s.Value.Number(); ok && r.isNumber {
		c := cmp.Compare(number, r.number)
		return map[string]bool{">=": c >= 0, "<=": c <= 0, ">": c > 0, "<": c < 0, "!=": c != 0, "=": c == 0}[r.Operator]
	}
	text, ok := s.Value.Text()
	if !ok || r.Operator != "=" && (r.Operator != "!=" || r.isNumber) {
		return false
	}
	return (text == r.Value) == (r.Operator == "=")
}
