package pipeline

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the text of the built-in prompt
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// The limits of a template; beyond them it is refused, as a mistake or an attack.
const (
	MaxTemplate = 4 << 20 // bytes of all messages together
	MaxMessages = 1000
)

// The roles of a message.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// TemplateMessage is one turn of a conversation, or, where Placeholder is set, the place
// of a list of messages that the caller gives under that name.
type TemplateMessage struct {
	Role        string `json:"role,omitempty"`
	Content     string `json:"content,omitempty"`
	Placeholder string `json:"placeholder,omitempty"`
}

// Template is a prompt before anything was put in: a list of messages; a text prompt is one message of the user.
// In their texts
//
//	{{ identifier }}
//
// stands for a value. An identifier begins with a letter or _, goes on with
// letters, digits and _, and may hold single dots; white space around it is
// optional. Every other brace is text and stays as it is: {"a": 1}, {{ "a": 1 }},
// {{}}, a {{ without its end. In {{{name}}} the inner pair is the identifier's.
// What is inserted is never looked at again, so that a document which holds
// {{object_schemas}} remains what it is.
//
// The steps: ParseText or ParseChat reads a template; Template.Check refuses,
// before any item is run, one with an identifier that nothing fills, or that
// never shows the document; DocumentVars and Vars.Add collect the values of an
// item; Compile puts them in.
//
//	t := pipeline.ParseText("Find all names in: {{document_text}}")
//	if err := t.Check(nil, nil); err != nil { … }
//	vars, err := pipeline.DocumentVars(doc)
//	messages, err := pipeline.Compile(t, vars)
type Template struct {
	Messages []TemplateMessage
	// Name, Version and Label say where it is kept; empty for one that is not.
	Name    string
	Version int
	Label   string
	// Config is what the prompt's author stored beside it; not read here.
	Config json.RawMessage
}

// ParseText returns a text prompt: one message of the user.
func ParseText(text string) Template {
	return Template{Messages: []TemplateMessage{{Role: RoleUser, Content: text}}}
}

// ParseChat reads a chat prompt as Langfuse keeps it: a list of
// {"role", "content"} and {"type": "placeholder", "name"}. Unknown keys are
// ignored. The error, of exit code 64, holds every problem.
func ParseChat(raw []byte) (Template, error) {
	var wire []struct {
		Type    string  `json:"type"`
		Name    string  `json:"name"`
		Role    string  `json:"role"`
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Template{}, promptError(fmt.Sprintf("a chat prompt is a list of messages with role and content: %v", err))
	}
	var t Template
	var problems []string
	for i, m := range wire {
		switch {
		case m.Type == "placeholder" && m.Name == "":
			problems = append(problems, fmt.Sprintf("message %d is a placeholder without a name", i+1))
		case m.Type == "placeholder":
			t.Messages = append(t.Messages, TemplateMessage{Placeholder: m.Name})
		case m.Content == nil:
			problems = append(problems, fmt.Sprintf("message %d has no content", i+1))
		default:
			t.Messages = append(t.Messages, TemplateMessage{Role: m.Role, Content: *m.Content})
		}
	}
	if len(problems) > 0 {
		return Template{}, promptError(problems...)
	}
	return t, nil
}

// SHA256 returns the hash of the template's text in hexadecimal: of its messages
// as one JSON list per line of placeholder, role and content. Name, version,
// label and config do not count.
func (t Template) SHA256() string {
	var b bytes.Buffer
	for _, m := range t.Messages {
		// Three strings always marshal.
		line, _ := json.Marshal([]string{m.Placeholder, m.Role, m.Content})
		b.Write(append(line, '\n'))
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}

// Identifiers returns what the template asks for, sorted, each once. Time is
// linear in the template.
func (t Template) Identifiers() []string {
	var names []string
	for _, m := range t.Messages {
		for part := range parts(m.Content) {
			if part.name != "" {
				names = append(names, part.name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Placeholders returns the names of the message placeholders, sorted, each once.
func (t Template) Placeholders() []string {
	var names []string
	for _, m := range t.Messages {
		if m.Placeholder != "" {
			names = append(names, m.Placeholder)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// wellFormed returns what is wrong with the messages as such.
func (t Template) wellFormed() []string {
	var problems []string
	size := 0
	for i, m := range t.Messages {
		size += len(m.Content)
		switch {
		case i >= MaxMessages:
		case m.Placeholder == "" && m.Role != RoleSystem && m.Role != RoleUser && m.Role != RoleAssistant:
			problems = append(problems, fmt.Sprintf("message %d has the role %q: known are system, user and assistant", i+1, shown(m.Role)))
		case !utf8.ValidString(m.Content):
			problems = append(problems, fmt.Sprintf("message %d is not valid UTF-8: convert the prompt first", i+1))
		}
	}
	if len(t.Messages) == 0 {
		problems = append(problems, "the prompt has no messages")
	}
	if len(t.Messages) > MaxMessages {
		problems = append(problems, fmt.Sprintf("the prompt has %d messages, at most %d are sent", len(t.Messages), MaxMessages))
	}
	if size > MaxTemplate {
		problems = append(problems, fmt.Sprintf("the prompt has %d bytes, at most %d are read", size, MaxTemplate))
	}
	return problems
}

// shown is a hostile word as a message can hold it.
func shown(word string) string { return textutil.Cut(word, 80) }

// part is a stretch of a template: text, or an identifier to fill.
type part struct{ text, name string }

// parts yields the parts of a text in order. Texts are never empty; joined with
// the identifiers as they were written they are the whole text. Time is linear:
// an identifier holds no brace, so that no character is looked at by two
// attempts to read one.
func parts(text string) iter.Seq[part] {
	return func(yield func(part) bool) {
		start, at := 0, 0
		for {
			open := strings.Index(text[at:], "{{")
			if open < 0 {
				break
			}
			open += at
			name, length := identifier(text[open:])
			if length == 0 {
				at = open + 1
				continue
			}
			if open > start && !yield(part{text: text[start:open]}) {
				return
			}
			if !yield(part{name: name}) {
				return
			}
			at = open + length
			start = at
		}
		if start < len(text) {
			yield(part{text: text[start:]})
		}
	}
}

// identifier reads "{{ name }}" at the start of the text; the length is 0 where
// there is none.
func identifier(text string) (name string, length int) {
	at := len("{{")
	at += spaces(text[at:])
	end := at + nameLength(text[at:])
	if end == at {
		return "", 0
	}
	closing := end + spaces(text[end:])
	if !strings.HasPrefix(text[closing:], "}}") {
		return "", 0
	}
	return text[at:end], closing + len("}}")
}

func spaces(text string) int {
	return len(text) - len(strings.TrimLeft(text, " \t\r\n"))
}

// nameLength returns how many bytes at the start of the text are a name.
func nameLength(text string) int {
	length, first := 0, true
	for length < len(text) {
		r, size := utf8.DecodeRuneInString(text[length:])
		switch {
		case r == '_' || unicode.IsLetter(r) || !first && (unicode.IsDigit(r) || unicode.IsMark(r)):
			first = false
		case r == '.' && !first:
			first = true // a name goes on after a dot as it begins
			next, _ := utf8.DecodeRuneInString(text[length+size:])
			if unicode.IsDigit(next) {
				first = false // lists are indexed: sections.0
			}
		default:
			if first {
				return 0 // nothing, or a dot at the end
			}
			return length
		}
		length += size
	}
	if first {
		return 0
	}
	return length
}

// MaxCompiled bounds what Compile returns, in bytes: a template that repeats a
// long document must not fill the memory.
const MaxCompiled = 64 << 20

// Compile puts values into a template. Messages in the order of the template;
// a message placeholder is replaced by its messages, which may be none, as they
// are. Nothing that was inserted is scanned. The error, of exit code 64, names every
// identifier and placeholder that has no value, with those that exist and the
// nearest. Time and memory are linear in the template and the result; the
// template is not changed.
func Compile(t Template, vars Vars) ([]Message, error) {
	problems := missing("the identifier {{%s}}", t.Identifiers(), slices.Sorted(maps.Keys(vars.Texts)))
	problems = append(problems, missing("the message placeholder %q", t.Placeholders(), slices.Sorted(maps.Keys(vars.Messages)))...)
	if len(problems) > 0 {
		return nil, promptError(problems...)
	}
	var compiled []Message
	left := MaxCompiled
	for _, m := range t.Messages {
		inserted := vars.Messages[m.Placeholder]
		if m.Placeholder == "" {
			inserted = []Message{{Role: m.Role}}
		}
		for _, one := range inserted {
			size := len(one.Content)
			if m.Placeholder == "" {
				size = filledSize(m.Content, vars.Texts)
			}
			if left -= size; left < 0 {
				return nil, promptError(fmt.Sprintf("with its document it is longer than %d bytes: does it repeat the document?", MaxCompiled))
			}
			if m.Placeholder == "" {
				one.Content = fill(m.Content, vars.Texts, size)
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

// Check refuses, before any item is run, a template that cannot work: without
// messages or with a role that no model has, too large, with an identifier that
// neither the document nor a variable fills, with a message placeholder that is
// not among the given names, or one that never shows the document
// (document_text, or a variable whose path is that of the text). Variables are
// checked as well: two of one name, names and paths that cannot be. One that
// the template does not use is no problem. The error, of exit code 64, holds every
// problem. Time is linear in the template.
func (t Template) Check(vars []Var, placeholders []string) error {
	problems := t.wellFormed()
	filled := KnownVars()
	shows := []string{DocumentText}
	for _, v := range vars {
		if problem := v.problem(); problem != "" {
			problems = append(problems, problem)
			continue
		}
		if slices.Contains(filled, v.Name) {
			problems = append(problems, fmt.Sprintf("the variable %q is given twice", v.Name))
		}
		filled = append(filled, v.Name)
		if v.ShowsDocument() {
			shows = append(shows, v.Name)
		}
	}
	used := t.Identifiers()
	problems = append(problems, missing("the identifier {{%s}}", used, filled)...)
	problems = append(problems, missing("the message placeholder %q", t.Placeholders(), placeholders)...)
	if !slices.ContainsFunc(used, func(name string) bool { return slices.Contains(shows, name) }) {
		problems = append(problems, "the prompt never shows the document: write {{document_text}} where its text belongs")
	}
	if len(problems) > 0 {
		return promptError(problems...)
	}
	return nil
}

// CheckUse refuses a template for another purpose than to extract: one that asks for an
// identifier that is not known, or never shows one that is needed. The error joins every
// problem.
func (t Template) CheckUse(known []string, needed ...string) error {
	used := t.Identifiers()
	var problems []error
	for _, name := range used {
		if !slices.Contains(known, name) {
			problems = append(problems, fmt.Errorf("the prompt asks for {{%s}}; there are {{%s}}", name, strings.Join(known, "}}, {{")))
		}
	}
	for _, name := range needed {
		if !slices.Contains(used, name) {
			problems = append(problems, fmt.Errorf("the prompt never shows {{%s}}", name))
		}
	}
	for _, name := range t.Placeholders() {
		problems = append(problems, fmt.Errorf("the prompt has a placeholder %q, which nothing fills", name))
	}
	return errors.Join(problems...)
}

// missing says of each name that it is not among those that are filled.
func missing(what string, names, filled []string) []string {
	const most = 20
	var problems []string
	for _, name := range names {
		if slices.Contains(filled, name) {
			continue
		}
		if len(problems) == most {
			return append(problems, "and more that nothing fills")
		}
		known := "there are none"
		if len(filled) > 0 {
			known = "known are " + strings.Join(filled, ", ")
		}
		meant := ""
		if near := textutil.Nearest(name, filled); near != "" {
			meant = fmt.Sprintf(" (did you mean %q?)", near)
		}
		problems = append(problems, fmt.Sprintf(what+" is filled by nothing%s: %s", shown(name), meant, known))
	}
	return problems
}

// promptError says everything that is wrong with a template, its variables or the
// values for it, before anything is sent; it has exit code 64.
func promptError(problems ...string) error {
	return cli.Usage("the prompt cannot be used: %s", strings.Join(problems, "; "))
}

// DefaultPromptName is the name of the built-in prompt, and the one that is asked for
// where no other is named.
const DefaultPromptName = "extraction"

//go:embed default_system.txt
var defaultSystem string

//go:embed default_user.txt
var defaultUser string

// DefaultPrompt returns the built-in prompt: what to extract and how to write it, for
// models with and without JSON Schema, in a message of the system, and schemas
// and document in one of the user.
func DefaultPrompt() Template {
	return Template{
		Name: DefaultPromptName,
		Messages: []TemplateMessage{
			{Role: RoleSystem, Content: defaultSystem},
			{Role: RoleUser, Content: defaultUser},
		},
	}
}
