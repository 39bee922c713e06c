package conformance

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/nearest"
)

// reader takes a YAML tree apart and collects what is wrong with it.
type reader struct {
	path     string
	problems dataset.Problems
	warnings []string
}

func (r *reader) problem(line int, format string, args ...any) {
	r.problems.Add(&dataset.SyntaxError{File: r.path, Line: line, Msg: fmt.Sprintf(format, args...)})
}

func (r *reader) warn(format string, args ...any) {
	const most = 100
	if len(r.warnings) < most {
		r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
	}
}

// fields are the keys of one mapping that nobody has taken yet.
type fields struct {
	r    *reader
	name string
	line int
	left map[string]*yaml.Node
	keys []*yaml.Node
}

// mapping opens a mapping; anything else is a problem and reads as empty.
func (r *reader) mapping(node *yaml.Node, name string) fields {
	f := fields{r: r, name: name, line: node.Line, left: map[string]*yaml.Node{}}
	if node.Kind != yaml.MappingNode {
		r.problem(node.Line, "%s: expected keys with values", name)
		return f
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if _, twice := f.left[key.Value]; twice {
			r.problem(key.Line, "%s: the key %q is there twice", name, key.Value)
		}
		f.left[key.Value] = node.Content[i+1]
		f.keys = append(f.keys, key)
	}
	return f
}

// take returns the value of the first of these keys that is there and not null.
func (f fields) take(keys ...string) *yaml.Node {
	var found *yaml.Node
	for _, key := range keys {
		node := f.left[key]
		delete(f.left, key)
		if found == nil && node != nil && node.Tag != "!!null" {
			found = node
		}
	}
	return found
}

func (f fields) text(keys ...string) string { return f.r.scalar(f.take(keys...), keys[0]) }

func (f fields) texts(key string) []string {
	node := f.take(key)
	if node == nil {
		return nil
	}
	return f.r.texts(node, key)
}

// end names the keys that nobody took; known are those that might be meant.
func (f fields) end(known []string) {
	for _, key := range f.keys {
		if _, left := f.left[key.Value]; left {
			delete(f.left, key.Value)
			f.r.problem(key.Line, "%s: unknown key %q%s", f.name, key.Value, nearest.Hint(key.Value, known))
		}
	}
}

// scalar reads a text; numbers and booleans are read as they are spelled.
func (r *reader) scalar(node *yaml.Node, name string) string {
	switch {
	case node == nil:
		return ""
	case node.Kind == yaml.AliasNode:
		r.problem(node.Line, "%s: aliases are not read", name)
		return ""
	case node.Kind != yaml.ScalarNode:
		r.problem(node.Line, "%s: expected a text", name)
		return ""
	}
	return node.Value
}

func (r *reader) texts(node *yaml.Node, name string) []string {
	if node.Kind != yaml.SequenceNode {
		r.problem(node.Line, "%s: expected a list of texts", name)
		return nil
	}
	list := []string{}
	for _, one := range node.Content {
		list = append(list, r.scalar(one, name))
	}
	return list
}
