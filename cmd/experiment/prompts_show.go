package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"extraction-experiment/cmd/internal/output"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
)

// showPrompt writes one version, references to other prompts filled in as a
// model would get them.
func showPrompt(call promptCall) error {
	ref := langfuse.PromptRef{Name: call.words[0], Label: call.c.String("prompt-label"), Version: call.c.Int("prompt-version")}
	if call.c.IsSet("prompt-label") && call.c.IsSet("prompt-version") {
		return cli.Usage("--prompt-label and --prompt-version cannot both be given: each names a version")
	}
	if call.c.IsSet("prompt-label") && ref.Label == "" {
		return cli.Usage("--prompt-label is empty: name a label, or leave it out for production")
	}
	if call.c.IsSet("prompt-version") && ref.Version < 1 {
		return cli.Usage("--prompt-version is %d: versions are numbers from 1", ref.Version)
	}
	summary, err := call.findPromptName(ref.Name)
	if err != nil {
		return err
	}
	found, err := call.fetch(summary, ref)
	if err != nil {
		return err
	}
	if call.c.Bool("json") {
		return output.JSON(call.env, found)
	}
	return cli.Written(promptPage(call.env.Stdout, found))
}

// promptPage writes a version for a person.
func promptPage(w io.Writer, p langfuse.Prompt) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, version %d, %s\n", printable.Line(p.Name), p.Version, printable.Line(p.Type))
	for _, row := range []struct{ title, text string }{
		{"labels", labelWords(p.Labels)},
		{"tags", strings.Join(p.Tags, ", ")},
		{"commit", p.CommitMessage},
	} {
		if text := printable.Line(row.text); text != "" {
			fmt.Fprintf(&b, "%-8s%s\n", row.title, text)
		}
	}
	b.WriteByte('\n')
	for _, line := range promptLines(p) {
		b.WriteString(promptLine("", line))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// promptLine makes a line harmless; what a terminal would break stays behind
// the mark and the line's indentation, so that it cannot pass for a heading.
func promptLine(mark, line string) string {
	text := strings.TrimLeft(line, " ")
	indent := mark + line[:len(line)-len(text)]
	var b strings.Builder
	for part := range strings.SplitSeq(printable.Block(text), "\n") {
		if part == "" {
			b.WriteString(strings.TrimRight(indent, " ") + "\n")
			continue
		}
		b.WriteString(indent + part + "\n")
	}
	return b.String()
}

// labelWords lists labels, in the order of the alphabet.
func labelWords(labels []string) string {
	if len(labels) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(slices.Values(labels)), ", ")
}
