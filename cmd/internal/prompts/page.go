package prompts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
)

// Page is a version for a person: what it is, its messages and its configuration.
func Page(p langfuse.Prompt) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, version %d, %s\n", textutil.Line(p.Name), p.Version, textutil.Line(p.Type))
	for _, row := range []struct{ title, text string }{
		{"labels", labelWords(p.Labels)},
		{"tags", strings.Join(p.Tags, ", ")},
		{"commit", p.CommitMessage},
	} {
		if text := textutil.Line(row.text); text != "" {
			fmt.Fprintf(&b, "%-8s%s\n", row.title, text)
		}
	}
	b.WriteByte('\n')
	for _, line := range promptLines(p) {
		b.WriteString(promptLine("", line))
	}
	return b.String()
}

// Diff is a unified diff of the lines of two versions. It is anchored at the lines that
// each version has once, which is readable and takes n log n steps, whatever
// strangers wrote.
func Diff(a, b langfuse.Prompt) string {
	form := promptLines
	if slices.Equal(form(a), form(b)) { // what a person need not see may differ
		form = jsonLines
	}
	text := func(p langfuse.Prompt) []byte { return []byte(strings.Join(form(p), "\n") + "\n") }
	raw := diff.Diff("a", text(a), "b", text(b))
	if raw == nil {
		what := fmt.Sprintf("versions %d and %d", a.Version, b.Version)
		if a.Version == b.Version {
			what = fmt.Sprintf("both are version %d", a.Version)
		}
		return fmt.Sprintf("%s: no difference (%s)\n", textutil.Line(a.Name), what)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", versionTitle(a), versionTitle(b))
	for _, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")[3:] { // behind its own titles
		if strings.HasPrefix(line, "@@") {
			out.WriteString(line + "\n")
			continue
		}
		out.WriteString(promptLine(line[:1], line[1:]))
	}
	return out.String()
}

// jsonLines writes all that Langfuse keeps of the messages and the configuration.
func jsonLines(p langfuse.Prompt) []string {
	return section(section(nil, "prompt", canonicalJSON(p.Prompt)), "config", canonicalConfig(p.Config))
}

func versionTitle(p langfuse.Prompt) string {
	return fmt.Sprintf("%s, version %d (%s)", textutil.Line(p.Name), p.Version, textutil.Line(labelWords(p.Labels)))
}

// promptLine makes a line harmless; what a terminal would break stays behind
// the mark and the line's indentation, so that it cannot pass for a heading.
func promptLine(mark, line string) string {
	text := strings.TrimLeft(line, " ")
	indent := mark + line[:len(line)-len(text)]
	var b strings.Builder
	for part := range strings.SplitSeq(textutil.Block(text), "\n") {
		if part == "" {
			b.WriteString(strings.TrimRight(indent, " ") + "\n")
			continue
		}
		b.WriteString(indent + part + "\n")
	}
	return b.String()
}

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
