package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/langfuse"
)

// promptLines writes the messages and the configuration of a prompt as lines:
// headings at the margin, content two spaces in. The lines hold the words of
// strangers as they are.
func promptLines(p langfuse.Prompt) []string {
	var lines []string
	if text, err := p.Text(); err == nil {
		lines = section(lines, "text", text)
	} else {
		lines = messageLines(lines, p.Prompt)
	}
	return section(lines, "config", canonicalConfig(p.Config))
}

// messageLines adds the messages; a prompt of another form is shown as JSON.
func messageLines(lines []string, raw json.RawMessage) []string {
	var messages []map[string]any
	if err := unmarshalNumbers(raw, &messages); err != nil || slices.ContainsFunc(messages, func(m map[string]any) bool { return m == nil }) {
		return section(lines, "prompt", canonicalJSON(raw))
	}
	for _, m := range messages {
		lines = messageSection(lines, m)
	}
	return lines
}

// messageSection adds one message under its role, or a placeholder under its
// name; fields that Langfuse adds to those follow as JSON.
func messageSection(lines []string, m map[string]any) []string {
	title := "message"
	role, hasRole := m["role"].(string)
	name, hasName := m["name"].(string)
	switch {
	case m["type"] == "placeholder" && hasName:
		title = "placeholder " + name
		delete(m, "type")
		delete(m, "name")
	case hasRole:
		title = role
		delete(m, "role")
	}
	if m["type"] == "message" || m["type"] == "chatmessage" { // what Langfuse notes beside a role
		delete(m, "type")
	}
	content, isText := m["content"].(string)
	if isText {
		delete(m, "content")
	}
	lines = append(lines, heading(title))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, indented(key+": "+encodeIndented(m[key]))...)
	}
	if isText {
		lines = append(lines, indented(content)...)
	}
	return append(lines, "")
}

func section(lines []string, title, body string) []string {
	lines = append(lines, heading(title))
	return append(append(lines, indented(body)...), "")
}

// heading keeps a title on its line, and lets it not look like content.
func heading(title string) string {
	return strings.NewReplacer("\n", `\n`, "\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`).Replace(strings.TrimSpace(title))
}

func indented(body string) []string {
	lines := strings.Split(body, "\n")
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

// canonicalConfig writes a configuration; none is an empty one.
func canonicalConfig(raw json.RawMessage) string {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		return "{}"
	}
	return canonicalJSON(raw)
}

// canonicalJSON writes JSON with its keys in order, and anything else as it is.
func canonicalJSON(raw json.RawMessage) string {
	var value any
	if err := unmarshalNumbers(raw, &value); err != nil {
		return string(raw)
	}
	return encodeIndented(value)
}

// unmarshalNumbers keeps numbers as they are written.
func unmarshalNumbers(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}

func encodeIndented(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil { // it was decoded from JSON
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
