package seed

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Mapping says where in a trace an item's fields are. The zero value fits the
// traces of this project's runs and of pipelines that write an extraction input
// and output on the root of their traces.
type Mapping struct {
	// Observation chooses the observation that input, output and metadata are
	// those of; the zero value takes the trace itself and its root.
	Observation Choice
	// Input holds paths by field of the item's input ("document_text",
	// "object_schemas", …); of several paths the first that leads somewhere
	// counts. Empty: the whole input, a text being the document_text.
	Input map[string][]Path
	// Constant is put into the input where no path leads to a field of its name:
	// schemas that production does not record.
	Constant map[string]any
	// Expected leads to the entities and relationships; empty: the output.
	Expected []Path
	// Metadata holds paths by key of the item's metadata; a key without a value
	// is left out.
	Metadata map[string][]Path
	// Evidence says what counts as validation beside what people left in
	// Langfuse.
	Evidence EvidenceRules
}

// Choice is by name, by type (SPAN, GENERATION, …), or both; empty fields match
// every observation.
type Choice struct{ Name, Type string }

func (c Choice) isZero() bool { return c == Choice{} }

// String describes the choice for people.
func (c Choice) String() string {
	var parts []string
	if c.Name != "" {
		parts = append(parts, fmt.Sprintf("name %q", c.Name))
	}
	if c.Type != "" {
		parts = append(parts, "type "+c.Type)
	}
	return strings.Join(parts, " and ")
}

// pathList is one path or a list of them.
type pathList []Path

// UnmarshalYAML reads "a.b" and [a.b, c.d].
func (l *pathList) UnmarshalYAML(node *yaml.Node) error {
	var texts []string
	if node.Kind == yaml.ScalarNode {
		texts = []string{node.Value}
	} else if err := node.Decode(&texts); err != nil {
		return plainWords(err)
	}
	for _, text := range texts {
		path, err := ParsePath(text)
		if err == nil {
			err = path.rooted()
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", node.Line, err)
		}
		*l = append(*l, path)
	}
	return nil
}

// The places that a path may begin with.
const (
	placeInput    = "input"
	placeOutput   = "output"
	placeMetadata = "metadata"
	placeName     = "name"
	placeTrace    = "trace"
)

// rooted checks that the path begins where something is.
func (p Path) rooted() error {
	places := []string{placeInput, placeOutput, placeMetadata, placeName, placeTrace}
	if p.steps[0].kind != stepKey || !slices.Contains(places, p.steps[0].key) {
		return fmt.Errorf("path %q: begins with none of %s", p.text, strings.Join(places, ", "))
	}
	return nil
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
	var file struct {
		Observation struct {
			Name string `yaml:"name"`
			Type string `yaml:"type"`
		} `yaml:"observation"`
		Input    map[string]pathList `yaml:"input"`
		Constant map[string]any      `yaml:"constant"`
		Expected pathList            `yaml:"expected"`
		Metadata map[string]pathList `yaml:"metadata"`
		Evidence struct {
			Tags   []string `yaml:"tags"`
			Scores []string `yaml:"scores"`
		} `yaml:"evidence"`
	}
	if err := decodeYAML(text, &file); err != nil {
		return Mapping{}, malformed("reading the mapping: %w", err)
	}
	m := Mapping{
		Observation: Choice{Name: file.Observation.Name, Type: strings.ToUpper(file.Observation.Type)},
		Input:       paths(file.Input), Constant: file.Constant, Expected: file.Expected, Metadata: paths(file.Metadata),
		Evidence: EvidenceRules{Tags: file.Evidence.Tags},
	}
	var problems []error
	for _, text := range file.Evidence.Scores {
		rule, err := ParseScoreRule(text)
		problems = append(problems, err)
		m.Evidence.Scores = append(m.Evidence.Scores, rule)
	}
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		// Their values link to Langfuse, and no redaction looks at them: see exempt.
		if first := keyPath(key)[0]; first == evidenceKey || first == sourceKey {
			problems = append(problems, fmt.Errorf("metadata: the key %q is taken: %s is written there; choose another", key, first))
		}
	}
	for key, value := range m.Constant {
		if err := plainYAML(value); err != nil {
			problems = append(problems, fmt.Errorf("constant.%s: %w", key, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return Mapping{}, malformed("reading the mapping: %w", err)
	}
	return m, nil
}

func paths(lists map[string]pathList) map[string][]Path {
	if len(lists) == 0 {
		return nil
	}
	m := make(map[string][]Path, len(lists))
	for key, list := range lists {
		m[key] = list
	}
	return m
}

// plainYAML checks that a value can be written as JSON.
func plainYAML(value any) error {
	_, err := marshal(value)
	return err
}

// first returns the value of the first path that leads somewhere.
func first(paths []Path, from map[string]any) (any, bool) {
	for _, path := range paths {
		if value, ok := path.Find(from); ok {
			return value, true
		}
	}
	return nil, false
}
