package prompt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxCompiled bounds what Compile returns, in bytes: a template that repeats a
// long document must not fill the memory.
const MaxCompiled = 64 << 20

// Compile puts values into a template. Messages in the order of the template;
// a message placeholder is replaced by its messages, which may be none, as they
// are. Nothing that was inserted is scanned. The error, *Error, names every
// identifier and placeholder that has no value, with those that exist and the
// nearest. Time and memory are linear in the template and the result; the
// template is not changed.
func Compile(t Template, vars Vars) ([]Message, error) {
	problems := missing("the identifier {{%s}}", t.Identifiers(), slices.Sorted(maps.Keys(vars.Texts)))
	problems = append(problems, missing("the message placeholder %q", t.Placeholders(), slices.Sorted(maps.Keys(vars.Messages)))...)
	if len(problems) > 0 {
		return nil, &Error{Problems: problems}
	}
	var compiled []Message
	left := MaxCompiled
	for _, m := range t.Messages {
		inserted := []Message{m}
		if m.Placeholder != "" {
			inserted = vars.Messages[m.Placeholder]
		}
		for _, one := range inserted {
			size := len(one.Content)
			if m.Placeholder == "" {
				size = filledSize(one.Content, vars.Texts)
			}
			if left -= size; left < 0 {
				return nil, &Error{Problems: []string{fmt.Sprintf("with its document it is longer than %d bytes: does it repeat the document?", MaxCompiled)}}
			}
			if m.Placeholder == "" {
				one.Content = fill(one.Content, vars.Texts, size)
			}
			compiled = append(compiled, one)
		}
	}
	return compiled, nil
}

func filledSize(text string, values map[string]string) int {
	size := 0
	for p := range parts(text) {
		if size > MaxCompiled {
			break
		}
		size += len(p.text) + len(values[p.name])
	}
	return size
}

func fill(text string, values map[string]string, size int) string {
	var b strings.Builder
	b.Grow(size)
	for p := range parts(text) {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		b.WriteString(values[p.name])
	}
	return b.String()
}
