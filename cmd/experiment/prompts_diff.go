package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
)

// diffPrompts compares the messages and the configuration of two versions. A
// difference is no error.
func diffPrompts(call promptCall) error {
	if slices.Contains(call.words, "") {
		return cli.Usage("prompts diff takes the name of a prompt and two of its versions or labels, and one of them is empty")
	}
	summary, err := call.findPromptName(call.words[0])
	if err != nil {
		return err
	}
	a, err := call.fetch(summary, versionOrLabel(summary, call.words[1]))
	if err != nil {
		return err
	}
	b, err := call.fetch(summary, versionOrLabel(summary, call.words[2]))
	if err != nil {
		return err
	}
	_, err = io.WriteString(call.env.Stdout, promptDiff(a, b))
	return cli.Written(err)
}

// versionOrLabel reads a word: a number is a version, unless the prompt has no
// such version and a label of that name.
func versionOrLabel(summary langfuse.PromptSummary, word string) langfuse.PromptRef {
	version, err := strconv.ParseUint(word, 10, 31)
	isVersion := err == nil && version > 0
	if isVersion && (slices.Contains(summary.Versions, int(version)) || !slices.Contains(summary.Labels, word)) {
		return langfuse.PromptRef{Name: summary.Name, Version: int(version)}
	}
	return langfuse.PromptRef{Name: summary.Name, Label: word}
}

// promptDiff writes a unified diff of lines. It is anchored at the lines that
// each version has once, which is readable and takes n log n steps, whatever
// strangers wrote.
func promptDiff(a, b langfuse.Prompt) string {
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
		return fmt.Sprintf("%s: no difference (%s)\n", printable.Line(a.Name), what)
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
	return fmt.Sprintf("%s, version %d (%s)", printable.Line(p.Name), p.Version, printable.Line(labelWords(p.Labels)))
}
