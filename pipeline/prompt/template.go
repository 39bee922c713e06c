package prompt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"extraction-experiment/internal/printable"
)

// The limits of a template; beyond them it is refused, as a mistake or an attack.
const (
	MaxTemplate = 4 << 20 // bytes of all messages together
	MaxMessages = 1000
)

// The roles of a message.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
)

// Message is one turn of a conversation, or, where Placeholder is set, the place
// of a list of messages that the caller gives under that name.
type Message struct {
	Role        string `json:"role,omitempty"`
	Content     string `json:"content,omitempty"`
	Placeholder string `json:"placeholder,omitempty"`
}

// Template is a prompt before anything was put in.
type Template struct {
	Messages []Message
	// Name, Version and Label say where it is kept; empty for one that is not.
	Name    string
	Version int
	Label   string
	// Config is what the prompt's author stored beside it; not read here.
	Config json.RawMessage
}

// ParseText returns a text prompt: one message of the user.
func ParseText(text string) Template {
	return Template{Messages: []Message{{Role: User, Content: text}}}
}

// ParseChat reads a chat prompt as Langfuse keeps it: a list of
// {"role", "content"} and {"type": "placeholder", "name"}. Unknown keys are
// ignored. The error, *Error, holds every problem.
func ParseChat(raw []byte) (Template, error) {
	var wire []struct {
		Type    string  `json:"type"`
		Name    string  `json:"name"`
		Role    string  `json:"role"`
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Template{}, &Error{Problems: []string{fmt.Sprintf("a chat prompt is a list of messages with role and content: %v", err)}}
	}
	var t Template
	var problems []string
	for i, m := range wire {
		switch {
		case m.Type == "placeholder" && m.Name == "":
			problems = append(problems, fmt.Sprintf("message %d is a placeholder without a name", i+1))
		case m.Type == "placeholder":
			t.Messages = append(t.Messages, Message{Placeholder: m.Name})
		case m.Content == nil:
			problems = append(problems, fmt.Sprintf("message %d has no content", i+1))
		default:
			t.Messages = append(t.Messages, Message{Role: m.Role, Content: *m.Content})
		}
	}
	if len(problems) > 0 {
		return Template{}, &Error{Problems: problems}
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
		case m.Placeholder == "" && m.Role != System && m.Role != User && m.Role != Assistant:
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
func shown(word string) string { return printable.Cut(word, 80) }
