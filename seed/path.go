package seed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"extraction-experiment/dataset"
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

// ParsePath reads a path. The error says where it cannot be read.
func ParsePath(text string) (Path, error) {
	p := Path{text: text}
	rest := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(text), "$"), ".")
	if rest == "" {
		return Path{}, fmt.Errorf("path %q: is empty: expected such as input.document_text", text)
	}
	for rest != "" {
		var one step
		var err error
		if inside, ok := strings.CutPrefix(rest, "["); ok {
			one, rest, err = parseBracket(inside)
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			one, rest = step{kind: stepKey, key: rest[:end]}, rest[end:]
			if one.key == "" {
				err = errors.New("a key is missing between two dots")
			}
		}
		if err != nil {
			return Path{}, fmt.Errorf("path %q: %w", text, err)
		}
		p.steps = append(p.steps, one)
		if after, ok := strings.CutPrefix(rest, "."); ok {
			if rest = after; rest == "" {
				return Path{}, fmt.Errorf("path %q: ends in a dot", text)
			}
		}
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
	for i, s := range p.steps {
		from = opened(from)
		if s.kind == stepAll {
			return p.each(from, p.steps[i+1:])
		}
		var ok bool
		if from, ok = s.take(from); !ok {
			return nil, false
		}
	}
	return from, from != nil
}

// each follows the rest of a path from every element of a list.
func (p Path) each(list any, rest []step) (any, bool) {
	elements, ok := list.([]any)
	if !ok {
		return nil, false
	}
	all := []any{}
	for _, element := range elements {
		found, ok := element, element != nil
		if len(rest) > 0 {
			found, ok = Path{steps: rest}.Find(element)
		}
		if inner, isList := opened(found).([]any); ok && isList {
			all = append(all, inner...)
		} else if ok {
			all = append(all, found)
		}
	}
	return all, true
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
	text, isText := value.(string)
	if !isText {
		return value
	}
	trimmed := bytes.TrimSpace([]byte(text))
	if len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' {
		return value
	}
	if inner, err := dataset.Decode(trimmed); err == nil {
		return inner
	}
	return value
}
