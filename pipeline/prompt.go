package pipeline

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the text of the built-in prompt
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// The roles of a message.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

func isRole(role string) bool { return role == RoleSystem || role == RoleUser || role == RoleAssistant }

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
// stands for a value. An identifier begins with a letter or _, continues with
// letters, digits and _, and may hold single dots; white space around it is
// optional. Every other brace is text and stays as it is: {"a": 1}, {{ "a": 1 }},
// {{}}, a {{ without its end. In {{{name}}} the inner pair is the identifier's.
// What is inserted is never looked at again, so that a document which holds
// {{object_schemas}} remains what it is.
//
// The steps: ParseText or ParseChat reads a template; Template.Check refuses,
// before any item is run, one with an identifier that nothing fills, or that
// never shows the document; DocumentVars collects the values of an
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
	return t, promptError(problems...)
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
	return fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))
}

// Identifiers returns what the template asks for, sorted, each once. Time is
// linear in the template.
func (t Template) Identifiers() []string {
	var names []string
	for _, m := range t.Messages {
		for i, part := range parts(m.Content) {
			if i%2 == 1 {
				names = append(names, part)
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

// shown is a hostile word as a message can hold it.
func shown(word string) string { return textutil.Cut(word, 80) }

// namePattern is an expression for identifiers: what follows a dot may be the position in a list.
const namePattern = `[\p{L}_][\p{L}\p{Nd}\p{M}_]*(?:\.[\p{L}\p{Nd}_][\p{L}\p{Nd}\p{M}_]*)*`

var (
	wholeName  = textutil.Pattern("^" + namePattern + "$")
	identifier = textutil.Pattern(`\{\{[ \t\r\n]*(` + namePattern + `)[ \t\r\n]*\}\}`)
)

// parts returns the texts around the identifiers of a template, with the identifiers
// between them: every second one is a name. Time is linear.
func parts(text string) []string {
	var list []string
	start := 0
	for _, at := range identifier().FindAllStringSubmatchIndex(text, -1) {
		list = append(list, text[start:at[0]], text[at[2]:at[3]])
		start = at[1]
	}
	return append(list, text[start:])
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
	var compiled []Message
	left := MaxCompiled
	for _, m := range t.Messages {
		inserted, filled := vars.Messages[m.Placeholder]
		if m.Placeholder == "" {
			one := Message{Role: m.Role}
			one.Content, filled = fill(m.Content, vars.Texts)
			inserted = []Message{one}
		}
		if !filled {
			texts, messages := slices.Sorted(maps.Keys(vars.Texts)), slices.Sorted(maps.Keys(vars.Messages))
			return nil, promptError(t.unfilled(texts, messages)...)
		}
		for _, one := range inserted {
			if left -= len(one.Content); left < 0 {
				return nil, promptError(fmt.Sprintf("with its document it is longer than %d bytes: does it repeat the document?", MaxCompiled))
			}
			compiled = append(compiled, one)
		}
	}
	return compiled, nil
}

// fill puts values into a text, but no more of them than make it longer than
// MaxCompiled; not ok where one is missing.
func fill(text string, values map[string]string) (filled string, ok bool) {
	list, size := parts(text), 0
	for i := range list {
		if i%2 == 1 {
			if list[i], ok = values[list[i]]; !ok {
				return "", false
			}
		}
		if size += len(list[i]); size > MaxCompiled {
			list = list[:i+1]
			break
		}
	}
	return strings.Join(list, ""), true
}

// Check refuses, before any item is run, a template that cannot work: without
// messages or with a role that no model has, too large, with an identifier that
// neither the document nor a variable fills, with a message placeholder that is
// not among the given names, or one that never shows the document
// (document_text, or a variable whose path is that of the text). Variables are
// checked as well: two of one name, names and paths that cannot be. One that
// the template does not use is not a problem. The error, of exit code 64, holds every
// problem. Time is linear in the template.
func (t Template) Check(vars []Var, placeholders []string) error {
	var problems []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	for i, m := range t.Messages {
		add(m.Placeholder == "" && !isRole(m.Role), "message %d has the role %q: known are system, user and assistant", i+1, shown(m.Role))
		add(!utf8.ValidString(m.Content), "message %d is not valid UTF-8: convert the prompt first", i+1)
	}
	add(len(t.Messages) == 0, "the prompt has no messages")
	filled, shows := KnownVars(), []string{DocumentText}
	for _, v := range vars {
		if problem := v.problem(); problem != "" {
			problems = append(problems, problem)
			continue
		}
		add(slices.Contains(filled, v.Name), "the variable %q is given twice", v.Name)
		filled = append(filled, v.Name)
		if v.ShowsDocument() {
			shows = append(shows, v.Name)
		}
	}
	problems = append(problems, t.unfilled(filled, placeholders)...)
	add(!slices.ContainsFunc(t.Identifiers(), func(name string) bool { return slices.Contains(shows, name) }),
		"the prompt never shows the document: write {{document_text}} where its text belongs")
	return promptError(problems...)
}

// CheckUse refuses a template for another purpose than to extract: one that asks for an
// identifier that is not known, or never shows one that is needed. The error, of exit code
// 64, holds every problem.
func (t Template) CheckUse(known []string, needed ...string) error {
	problems, used := t.unfilled(known, nil), t.Identifiers()
	for _, name := range needed {
		if !slices.Contains(used, name) {
			problems = append(problems, fmt.Sprintf("it never shows {{%s}}", name))
		}
	}
	return promptError(problems...)
}

// unfilled says which identifiers and placeholders are not among those that are filled.
func (t Template) unfilled(texts, messages []string) []string {
	return append(missing("the identifier {{%s}}", t.Identifiers(), texts),
		missing("the message placeholder %q", t.Placeholders(), messages)...)
}

// missing says of the first names that are not among those that are filled.
func missing(what string, names, filled []string) []string {
	const most = 20
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(filled, name) })
	return cli.Each(names[:min(len(names), most)], func(name string) string {
		return fmt.Sprintf(what+" is filled by nothing: known are %s", shown(name), textutil.Listed(name, filled))
	})
}

// promptError says everything that is wrong with a template, its variables or the
// values for it, before anything is sent; it has exit code 64. Of nothing it is nil.
func promptError(problems ...string) error {
	if len(problems) == 0 {
		return nil
	}
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
