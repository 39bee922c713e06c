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

// Path leads to a value in a trace, in the manner of JSONPath:
//
//	input.document.text          keys, of objects
//	$.output["a.b"].entities     a leading $. changes nothing; quotes keep dots
//	input.messages[0], [-1]      elements of lists, negative from the end
//	input[?role=user].content    the first element whose key has that value
//	output.pages[*].entities     of every element: a list, lists in it joined
//
// A text that holds a JSON object or list is stepped into as if it were that
// value: models answer with texts. The zero value leads nowhere.
type Path struct {
	text  string
	steps []step
}

// step is one part of a path.
type step struct {
	kind  string // "": the key of an object
	key   string
	value string // of a test
	index int
}

// The kinds of steps into lists.
const (
	stepIndex = "index"
	stepTest  = "test" // the first element whose key has the value
	stepAll   = "all"  // every element
)

// pathStep is a step as it is written: a key, all, an index, a test, a quoted key.
var pathStep = textutil.Pattern(`^(?:\.?([^.\[]+)|\[\*\]|\[(-?\d+)\]|\[\?([^=\]]+)==?([^\]]*)\]|\["(.*?)"\]|\['(.*?)'\])`)

// ParsePath reads a path. The error says from where on it cannot be read.
func ParsePath(text string) (Path, error) {
	p := Path{text: text}
	rest := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(text), "$"), ".")
	for rest != "" || len(p.steps) == 0 {
		m := pathStep().FindStringSubmatch(rest)
		if m == nil {
			return Path{}, fmt.Errorf("path %q: cannot be read from %q on: expected such as input.document.text, "+
				`messages[0], [-1], [*], ["a key"] or [?role=user]`, text, rest)
		}
		one := step{key: m[1] + m[5] + m[6]}
		switch {
		case m[0] == "[*]":
			one.kind = stepAll
		case m[2] != "":
			one.kind = stepIndex
			one.index, _ = strconv.Atoi(m[2]) // one too large leads nowhere as well
		case m[3] != "":
			one = step{kind: stepTest, key: strings.TrimSpace(m[3]), value: strings.Trim(m[4], ` "'`)}
		}
		p.steps, rest = append(p.steps, one), rest[len(m[0]):]
	}
	return p, nil
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// Find returns the value that the path leads to, and whether there is one; null
// is none. The value is as dataset.Decode gives it; it is not copied.
func (p Path) Find(from any) (any, bool) {
	if len(p.steps) == 0 {
		return nil, false
	}
	found := follow(from, p.steps)
	return found, found != nil
}

// follow makes steps from a value; nil where they lead nowhere.
func follow(from any, steps []step) any {
	if len(steps) == 0 {
		return from
	}
	s, rest, value := steps[0], steps[1:], opened(from)
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
			if inner, isList := opened(found).([]any); isList {
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

// holds reports whether an element of a list has the value of a test.
func (s step) holds(element any) bool {
	object, _ := opened(element).(map[string]any)
	value, ok := object[s.key]
	return ok && spelled(value) == s.value
}

// spelled is the text of a plain value, as tests and filters compare it.
func spelled(value any) string {
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

// opened reads a text that holds a JSON object or list.
func opened(value any) any {
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

// The places that a path may begin with.
const (
	placeInput    = "input"
	placeOutput   = "output"
	placeMetadata = "metadata"
	placeName     = "name"
	placeTrace    = "trace"
)

// Mapping says where in a trace an item's fields are. The zero value fits the
// traces of pipelines that write an extraction input and output on the root.
type Mapping struct {
	// Observation chooses the observation that input, output and metadata are
	// those of; the zero value takes the trace itself and its root.
	Observation Choice
	// Input holds paths by field of the item's input ("document_text",
	// "object_schemas", …); of several paths the first that leads somewhere
	// counts. Empty: the whole input, a text being the document_text.
	Input map[string]Paths
	// Constant is put into the input where no path leads to a field of its name:
	// schemas that production does not record.
	Constant map[string]any
	// Expected leads to the entities and relationships; empty: the output.
	Expected Paths
	// Metadata holds paths by key of the item's metadata; a key without a value
	// is left out.
	Metadata map[string]Paths
	// Evidence says what counts as validation beside what people left in
	// Langfuse.
	Evidence EvidenceRules
}

// Choice is by name, by type (SPAN, GENERATION, …), or both; empty fields match
// every observation.
type Choice struct{ Name, Type string }

func (c Choice) matches(o langfuse.Observation) bool {
	return (c.Name == "" || c.Name == o.Name) && (c.Type == "" || c.Type == strings.ToUpper(o.Type))
}

// Paths are tried in their order.
type Paths []Path

// UnmarshalYAML reads "a.b" and [a.b, c.d].
func (l *Paths) UnmarshalYAML(node *yaml.Node) error {
	var texts []string
	if node.Kind == yaml.ScalarNode {
		texts = []string{node.Value}
	} else if err := node.Decode(&texts); err != nil {
		return err
	}
	places := []string{placeInput, placeOutput, placeMetadata, placeName, placeTrace}
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

// find returns the value of the first path that leads somewhere.
func (l Paths) find(from map[string]any) (any, bool) {
	for _, path := range l {
		if value, ok := path.Find(from); ok {
			return value, true
		}
	}
	return nil, false
}

// ParseMapping reads a mapping file, YAML:
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
// A path begins with input, output, metadata or name, of the chosen
// observation, or with trace: trace.input, .output, .metadata, .name, .tags,
// .environment. Every key may be left out. Unknown keys and paths that cannot
// be read are errors with their line and the exit code of malformed input.
func ParseMapping(text []byte) (Mapping, error) {
	var m Mapping
	if err := textutil.DecodeYAML(text, "the mapping", &m, Choice{}, EvidenceRules{}); err != nil {
		return Mapping{}, cli.WithCode(cli.ExitUsage, err)
	}
	m.Observation.Type = strings.ToUpper(m.Observation.Type)
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		// Their values link to Langfuse, and no redaction looks at them: see exempt.
		if first := keyPath(key)[0]; first == evidenceKey || first == sourceKey {
			problems = append(problems, fmt.Errorf("metadata: the key %q is taken: %s is written there; choose another", key, first))
		}
	}
	for key, value := range m.Constant {
		if _, err := dataset.Marshal(value); err != nil {
			problems = append(problems, fmt.Errorf("constant.%s: %w", key, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return Mapping{}, cli.Usage("reading the mapping: %w", err)
	}
	return m, nil
}

// parts says what has to be read of traces for the mapping.
func (m Mapping) parts() langfuse.TraceParts {
	parts := langfuse.TraceParts{IO: true, Metadata: true} // by which experimentSign knows traces
	paths := slices.Clone(m.Expected)
	for _, fields := range []map[string]Paths{m.Input, m.Metadata} {
		paths = append(paths, slices.Concat(slices.Collect(maps.Values(fields))...)...)
	}
	for _, path := range paths {
		for i := range min(2, len(path.steps)-1) {
			if next := path.steps[i+1]; path.steps[i] == (step{key: placeMetadata}) && next.kind == "" {
				parts.ExpandMetadata = append(parts.ExpandMetadata, next.key)
			}
		}
	}
	slices.Sort(parts.ExpandMetadata)
	parts.ExpandMetadata = slices.Compact(parts.ExpandMetadata)
	return parts
}

// ScoreRule is a condition on a score: "validated>=1", "quality>0.8",
// "verdict=correct".
type ScoreRule struct {
	Name     string
	Operator string // >=, <=, >, <, =, !=
	Value    string
	number   float64
	isNumber bool
}

// scoreRule is the form of a rule.
var scoreRule = textutil.Pattern(`^\s*([^<>=!]*?)\s*([<>=!]+)\s*(.*?)\s*$`)

// ParseScoreRule reads NAME, operator and VALUE: a number, true or false (which
// are 1 and 0), or with = and != a text. The name alone is "NAME>=1".
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
		return r, cli.Usage("score %q: %s compares numbers, %q is none", text, r.Operator, r.Value)
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

// String returns the rule as it is written.
func (r ScoreRule) String() string { return r.Name + r.Operator + r.Value }

// holds reports whether a score is of the rule's name and satisfies it. Numbers
// and booleans compare as numbers, texts as they are; a score of another kind
// satisfies nothing.
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
