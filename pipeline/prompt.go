package pipeline

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the text of the built-in prompt
	"encoding/json"
	"errors"
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

// TemplateMessage is one turn of a conversation. If Placeholder is set, the messages that the
// caller gives under that name take its place.
type TemplateMessage struct {
	Role        string `json:"role,omitempty"`
	Content     string `json:"content,omitempty"`
	Placeholder string `json:"placeholder,omitempty"`
}

// Template is a prompt with identifiers instead of values: a list of messages. A text prompt is
// one message of the user. In the content of a message,
//
//	{{ identifier }}
//
// stands for a value. An identifier begins with a letter or _, continues with letters, digits
// and _, and may hold single dots; white space around it is optional. Every other brace is
// plain text: {"a": 1}, {{ "a": 1 }}, {{}}, a {{ without its end. In {{{name}}} the inner pair
// belongs to the identifier. Inserted values are not scanned, so that {{object_schemas}} in a
// document stays as it is.
//
// ParseText or ParseChat reads a template. Template.Check refuses, before any item is run, a
// template that has an identifier without a value or never shows the document. DocumentVars
// collects the values of an item, and Compile inserts them.
//
//	t := pipeline.ParseText("Find all names in: {{document_text}}")
//	if err := t.Check(nil, nil); err != nil { … }
//	vars, err := pipeline.DocumentVars(doc)
//	messages, err := pipeline.Compile(t, vars)
type Template struct {
	Messages []TemplateMessage `json:"messages"`
	// Name, Version and Label identify a stored prompt; they are empty for others.
	Name    string `json:"-"`
	Version int    `json:"-"`
	Label   string `json:"-"`
	// Config is what the author of the prompt stored with it. This package does not read it.
	Config json.RawMessage `json:"config,omitempty"`
}

// ParseText returns a text prompt: one message of the user.
func ParseText(text string) Template {
	return Template{Messages: []TemplateMessage{{Role: RoleUser, Content: text}}}
}

// ParseChat reads a chat prompt in the form of Langfuse: a list of {"role", "content"} and
// {"type": "placeholder", "name"}. It ignores unknown keys. The error, of exit code 64, holds
// every problem.
func ParseChat(raw []byte) (Template, error) {
	var wire []struct {
		Type    string  `json:"type"`
		Name    string  `json:"name"`
		Role    string  `json:"role"`
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
			err = fmt.Errorf("unexpected %s", strings.TrimSpace(wrong.Value+" "+wrong.Field))
		}
		return Template{}, promptError(fmt.Errorf("a chat prompt is a list of messages with role and content: %v", err))
	}
	var t Template
	var found textutil.Problems
	for i, m := range wire {
		if m.Type == "placeholder" {
			found.Add(m.Name == "", "message %d is a placeholder without a name", i+1)
			t.Messages = append(t.Messages, TemplateMessage{Placeholder: m.Name})
		} else if found.Add(m.Content == nil, "message %d has no content", i+1); m.Content != nil {
			t.Messages = append(t.Messages, TemplateMessage{Role: m.Role, Content: *m.Content})
		}
	}
	return t, promptError(found...)
}

// SHA256 returns the hash of the messages in hexadecimal: for each message, one line with the
// JSON list of placeholder, role and content. Name, version, label and config do not count.
func (t Template) SHA256() string {
	var b bytes.Buffer
	for _, m := range t.Messages {
		// Three strings always marshal.
		line, _ := json.Marshal([]string{m.Placeholder, m.Role, m.Content})
		b.Write(append(line, '\n'))
	}
	return fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))
}

// Identifiers returns the identifiers of the template, sorted, without repetitions. Time is
// linear in the template.
func (t Template) Identifiers() []string {
	var names []string
	for _, m := range t.Messages {
		for _, match := range identifierRegexp().FindAllStringSubmatch(m.Content, -1) {
			names = append(names, match[1])
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// Placeholders returns the names of the message placeholders, sorted, without repetitions.
func (t Template) Placeholders() []string {
	var names []string
	for _, m := range t.Messages {
		if m.Placeholder != "" {
			names = append(names, m.Placeholder)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// brief cuts a word from outside to a length that fits into a message.
func brief(word string) string { return textutil.Cut(word, 80) }

// namePattern matches an identifier. After a dot, a part may be the position in a list.
const namePattern = `[\p{L}_][\p{L}\p{Nd}\p{M}_]*(?:\.[\p{L}\p{Nd}_][\p{L}\p{Nd}\p{M}_]*)*`

var (
	nameRegexp       = textutil.Pattern("^" + namePattern + "$")
	identifierRegexp = textutil.Pattern(`\{\{[ \t\r\n]*(` + namePattern + `)[ \t\r\n]*\}\}`)
)

// MaxCompiled is the most bytes that Compile returns, so that a template that repeats a long
// document does not fill the memory.
const MaxCompiled = 64 << 20

// Compile inserts values into a template and returns the messages in order. The messages of a
// placeholder, which may be none, are inserted unchanged. Inserted text is not scanned. The
// error, of exit code 64, names every identifier and placeholder without a value, with the
// existing ones and the nearest. Time and memory are linear in the template and the result; the
// template is not changed.
func Compile(t Template, vars Vars) ([]Message, error) {
	var compiled []Message
	remaining := MaxCompiled
	for _, m := range t.Messages {
		messages, ok := vars.Messages[m.Placeholder]
		if m.Placeholder == "" {
			message := Message{Role: m.Role}
			message.Content, ok = substitute(m.Content, vars.Texts)
			messages = []Message{message}
		}
		if !ok {
			texts, placeholders := slices.Sorted(maps.Keys(vars.Texts)), slices.Sorted(maps.Keys(vars.Messages))
			return nil, promptError(t.missing(texts, placeholders)...)
		}
		for _, message := range messages {
			if remaining -= len(message.Content); remaining < 0 {
				return nil, promptError(fmt.Errorf("with its document it is longer than %d bytes: does it repeat the document?", MaxCompiled))
			}
			compiled = append(compiled, message)
		}
	}
	return compiled, nil
}

// substitute inserts values into a text and stops once it is longer than MaxCompiled. ok is false if
// a value is missing.
func substitute(text string, values map[string]string) (result string, ok bool) {
	var parts []string
	end, size := 0, 0
	for _, match := range identifierRegexp().FindAllStringSubmatchIndex(text, -1) {
		value, ok := values[text[match[2]:match[3]]]
		if !ok {
			return "", false
		}
		parts, end = append(parts, text[end:match[0]], value), match[1]
		if size += len(value); size > MaxCompiled {
			break
		}
	}
	return strings.Join(append(parts, text[end:]), ""), true
}

// Check refuses a template that cannot work, before any item is run. It must have messages,
// known roles, valid UTF-8, a value for each identifier from the document or a variable, and
// only the given placeholders. It must show the document: document_text, or a variable whose
// path is that of the text. Names and paths of variables must be valid and names unique; a
// variable may be unused. The error, of exit code 64, holds every problem. Time is linear in
// the template.
func (t Template) Check(vars []Var, placeholders []string) error {
	var found textutil.Problems
	add := found.Add
	for i, m := range t.Messages {
		add(m.Placeholder == "" && !isRole(m.Role), "message %d has the role %q: known are system, user and assistant", i+1, brief(m.Role))
		add(!utf8.ValidString(m.Content), "message %d is not valid UTF-8: convert the prompt first", i+1)
	}
	add(len(t.Messages) == 0, "the prompt has no messages")
	known, documentNames := KnownVars(), []string{DocumentText}
	for _, v := range vars {
		if err := v.check(); err != nil {
			found = append(found, err)
			continue
		}
		add(slices.Contains(known, v.Name), "the variable %q is given twice", v.Name)
		known = append(known, v.Name)
		if v.ShowsDocument() {
			documentNames = append(documentNames, v.Name)
		}
	}
	found = append(found, t.missing(known, placeholders)...)
	add(!slices.ContainsFunc(t.Identifiers(), func(name string) bool { return slices.Contains(documentNames, name) }),
		"the prompt never shows the document: write {{document_text}} where its text belongs")
	return promptError(found...)
}

// CheckUse checks a template for another purpose than extraction: it must use only known
// identifiers, and all needed ones. The error, of exit code 64, holds every problem.
func (t Template) CheckUse(known []string, needed ...string) error {
	found, identifiers := textutil.Problems(t.missing(known, nil)), t.Identifiers()
	for _, name := range needed {
		found.Add(!slices.Contains(identifiers, name), "it never shows {{%s}}", name)
	}
	return promptError(found...)
}

// missing describes the identifiers and placeholders that have no value.
func (t Template) missing(texts, messages []string) []error {
	return append(describeMissing("the identifier {{%s}}", t.Identifiers(), texts),
		describeMissing("the message placeholder %q", t.Placeholders(), messages)...)
}

// describeMissing describes the first names that are not in filled.
func describeMissing(kind string, names, known []string) []error {
	const maxNames = 20
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(known, name) })
	return cli.Each(names[:min(len(names), maxNames)], func(name string) error {
		return fmt.Errorf(kind+" is filled by nothing: known are %s", brief(name), textutil.Listed(name, known))
	})
}

// promptError returns an error of exit code 64 with all problems of a template, its variables
// or its values, or nil if there are none.
func promptError(found ...error) error { return usageError("the prompt cannot be used", found) }

// usageError returns an error of exit code 64 that says what fails and why, or nil without problems.
func usageError(what string, found []error) error {
	if len(found) == 0 {
		return nil
	}
	return cli.Usage("%s: %s", what, strings.ReplaceAll(errors.Join(found...).Error(), "\n", "; "))
}

// DefaultPromptName is the name of the built-in prompt, which is used if no other is named.
const DefaultPromptName = "extraction"

//go:embed default_system.txt
var defaultSystem string

//go:embed default_user.txt
var defaultUser string

// DefaultPrompt returns the built-in prompt: a system message that says what to extract and how
// to write it, for models with and without JSON Schema, and a user message with schemas and
// document.
func DefaultPrompt() Template {
	return Template{
		Name: DefaultPromptName,
		Messages: []TemplateMessage{
			{Role: RoleSystem, Content: defaultSystem},
			{Role: RoleUser, Content: defaultUser},
		},
	}
}
