package system

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/report"
	"extraction-experiment/tracking"
)

// The prompts in Langfuse for a person: what strangers wrote into them cannot steer a
// terminal.

// ListPrompts returns the prompts by name, their labels in order.
func ListPrompts(ctx context.Context, client *langfuse.Client) ([]langfuse.PromptSummary, error) {
	list := []langfuse.PromptSummary{}
	for summary, err := range client.ListPrompts(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		slices.Sort(summary.Labels)
		list = append(list, summary)
	}
	slices.SortStableFunc(list, func(a, b langfuse.PromptSummary) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// PromptTable has one line for each prompt. Names stay whole, to be copied.
func PromptTable(list []langfuse.PromptSummary, zone *time.Location) string {
	if len(list) == 0 {
		return "no prompts\n"
	}
	t := report.Table{Columns: []report.Column{{Title: "name"}, {Title: "type"}, {Title: "versions"}, {Title: "labels"}, {Title: "updated"}}}
	for _, p := range list {
		updated := "–"
		if !p.LastUpdatedAt.IsZero() {
			updated = p.LastUpdatedAt.In(zone).Format("2006-01-02 15:04")
		}
		t.Rows = append(t.Rows, report.Row{Cells: []string{textutil.Line(p.Name), textutil.Line(p.Type), ranges(p.Versions),
			textutil.Line(strings.Join(p.Labels, ", ")), updated}})
	}
	return t.Text()
}

// ranges writes numbers in order, runs of several shortened: 1-4, 6-7, 9.
func ranges(numbers []int) string {
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	var parts []string
	for i := 0; i < len(numbers); i++ {
		from := numbers[i]
		for i+1 < len(numbers) && numbers[i+1]-numbers[i] == 1 {
			i++
		}
		part := fmt.Sprint(from)
		if to := numbers[i]; to > from {
			part += fmt.Sprintf("-%d", to)
		}
		parts = append(parts, part)
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// labelWords lists labels, in the order of the alphabet.
func labelWords(labels []string) string {
	return cmp.Or(strings.Join(slices.Sorted(slices.Values(labels)), ", "), "none")
}

// findSummary returns the prompt of that name with all its versions and labels; where there
// is none the error says which there are.
func findSummary(ctx context.Context, client *langfuse.Client, name string) (langfuse.PromptSummary, error) {
	found, err := namedPrompt(ctx, client, name, "")
	if err != nil || found.Name != "" {
		return found, err
	}
	list, err := ListPrompts(ctx, client)
	if err != nil {
		return found, err
	}
	names := cli.Each(list, func(p langfuse.PromptSummary) string { return p.Name })
	return found, cli.Usage("there is no prompt %q; there are: %s", name, textutil.Listed(name, names))
}

// namedPrompt returns the one of the query's name; without a name where there is none.
func namedPrompt(ctx context.Context, client *langfuse.Client, name, label string) (langfuse.PromptSummary, error) {
	for summary, err := range client.ListPrompts(ctx, name, label) {
		if err != nil || summary.Name == name {
			return summary, err
		}
	}
	return langfuse.PromptSummary{}, nil
}

// GetPrompt returns one version, references to other prompts filled in as a model would get
// them. Where there is none, the error (exit code 64) says which there are.
func GetPrompt(ctx context.Context, client *langfuse.Client, ref langfuse.PromptRef) (langfuse.Prompt, error) {
	found, err := client.GetPrompt(ctx, ref)
	if errors.Is(err, langfuse.ErrNotFound) {
		err = missingPrompt(ctx, client, ref)
	}
	return found, err
}

// missingPrompt says of a prompt that Langfuse does not have which there are.
func missingPrompt(ctx context.Context, client *langfuse.Client, ref langfuse.PromptRef) error {
	of, err := findSummary(ctx, client, ref.Name)
	if err != nil {
		return err
	}
	if ref.Label == "" && ref.Version > 0 {
		return cli.Usage("the prompt %q has no version %d; %s", of.Name, ref.Version, choices(of))
	}
	label := cmp.Or(ref.Label, "production")
	return cli.Usage("the prompt %q has no label %q; %s; experiment prompts label %s VERSION %s sets it", of.Name, label, choices(of), cli.Quote(of.Name), label)
}

func choices(of langfuse.PromptSummary) string {
	return fmt.Sprintf("its versions: %s; its labels: %s", ranges(of.Versions), labelWords(of.Labels))
}

// ComparePrompts returns the difference between two versions of a prompt, each named by its
// number or a label. A number that is not one of its versions may be a label.
func ComparePrompts(ctx context.Context, client *langfuse.Client, name, a, b string) (string, error) {
	summary, err := findSummary(ctx, client, name)
	if err != nil {
		return "", err
	}
	var both []langfuse.Prompt
	for _, word := range []string{a, b} {
		ref := langfuse.PromptRef{Name: name, Label: word}
		version := versionOf(word)
		if version > 0 && (slices.Contains(summary.Versions, version) || !slices.Contains(summary.Labels, word)) {
			ref = langfuse.PromptRef{Name: name, Version: version}
		}
		found, err := GetPrompt(ctx, client, ref)
		if err != nil {
			return "", err
		}
		both = append(both, found)
	}
	return promptDiff(both[0], both[1]), nil
}

// versionOf reads the number of a version; 0 is none.
func versionOf(word string) int {
	if version, err := strconv.ParseUint(word, 10, 31); err == nil {
		return int(version)
	}
	return 0
}

// LabelPrompt sets labels on a version beside those that it has, and says where each was
// before. What cannot be a label Langfuse refuses.
func LabelPrompt(ctx context.Context, client *langfuse.Client, name, version string, labels []string) (string, error) {
	labels = slices.Compact(slices.Sorted(slices.Values(labels)))
	summary, err := findSummary(ctx, client, name)
	if err != nil {
		return "", err
	}
	n := versionOf(version)
	if n == 0 {
		return "", cli.Usage("%q is not a version of the prompt %q: versions are numbers from 1; %s", version, name, choices(summary))
	}
	target, err := GetPrompt(ctx, client, langfuse.PromptRef{Name: name, Version: n})
	if err != nil {
		return "", err
	}
	said, err := moves(ctx, client, name, n, labels)
	if err != nil {
		return "", err
	}
	// Langfuse keeps latest on the newest version itself, and lets nobody set it.
	kept := slices.DeleteFunc(target.Labels, func(label string) bool {
		return label == "latest" || slices.Contains(labels, label)
	})
	if target, err = client.SetPromptLabels(ctx, name, n, slices.Concat(labels, kept)); err != nil {
		return "", err
	}
	return said + fmt.Sprintf("%s, version %d: labels %s\n",
		textutil.Line(target.Name), target.Version, textutil.Line(labelWords(target.Labels))), nil
}

// moves says of labels that are set on a version where each was before.
func moves(ctx context.Context, client *langfuse.Client, name string, version int, labels []string) (said string, err error) {
	for _, label := range labels {
		found, err := namedPrompt(ctx, client, name, label)
		switch {
		case err != nil:
			return "", err
		case len(found.Versions) == 0:
			said += fmt.Sprintf("%s: new, on version %d\n", label, version)
		case slices.Max(found.Versions) == version:
			said += fmt.Sprintf("%s: stays on version %d\n", label, version)
		default:
			said += fmt.Sprintf("%s: moved from version %d to version %d\n", label, slices.Max(found.Versions), version)
		}
	}
	return said, nil
}

// PromptPage is a version for a person: what it is, its messages and its configuration.
func PromptPage(p langfuse.Prompt) string {
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

// promptDiff is a unified diff of the lines of two versions. It is anchored at the lines that
// each version has once, which is readable and takes n log n steps, whatever
// strangers wrote.
func promptDiff(a, b langfuse.Prompt) string {
	text := func(p langfuse.Prompt) []byte { return []byte(strings.Join(promptLines(p), "\n") + "\n") }
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
	for _, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")[3:] { // after its own titles
		if strings.HasPrefix(line, "@@") {
			out.WriteString(line + "\n")
		} else {
			out.WriteString(promptLine(line[:1], line[1:]))
		}
	}
	return out.String()
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
	config := bytes.TrimSpace(p.Config)
	if len(config) == 0 || string(config) == "null" {
		config = []byte("{}")
	}
	return section(lines, "config", canonicalJSON(config))
}

// messageLines adds the messages, each under its role, or a placeholder under its name.
// One that is more than that, and a prompt of another form, is shown as JSON.
func messageLines(lines []string, raw json.RawMessage) []string {
	var messages []map[string]json.RawMessage
	if json.Unmarshal(raw, &messages) != nil || slices.ContainsFunc(messages, func(m map[string]json.RawMessage) bool { return m == nil }) {
		return section(lines, "prompt", canonicalJSON(raw))
	}
	for _, m := range messages {
		if kind := string(m["type"]); kind == `"message"` || kind == `"chatmessage"` { // what Langfuse notes beside a role
			delete(m, "type")
		}
		var role, content, name string
		isText := func(key string, into *string) bool { return m[key] != nil && json.Unmarshal(m[key], into) == nil }
		hasRole := isText("role", &role)
		switch {
		case len(m) == 2 && hasRole && isText("content", &content):
			lines = section(lines, role, content)
		case len(m) == 2 && string(m["type"]) == `"placeholder"` && isText("name", &name):
			lines = append(lines, textutil.Line("placeholder "+name), "")
		default:
			whole, _ := json.Marshal(m) // it was read as JSON
			lines = section(lines, cmp.Or(role, "message"), canonicalJSON(whole))
		}
	}
	return lines
}

func section(lines []string, title, body string) []string {
	lines = append(lines, textutil.Line(title)) // which does not look like content
	for line := range strings.SplitSeq(body, "\n") {
		lines = append(lines, "  "+line)
	}
	return append(lines, "")
}

// canonicalJSON writes JSON with its keys in order, and anything else as it is.
func canonicalJSON(raw json.RawMessage) string {
	canonical, err := dataset.Canonical(raw)
	if err != nil {
		return string(raw)
	}
	return report.Indented(canonical)
}

// findPrompt fetches the prompt that is asked for, of that name unless it has one, or
// pushes the file if check finds that it can be used.
func (o Opener) findPrompt(ctx context.Context, cfg Config, name string, check func(pipeline.Template) error) (pipeline.Template, outcome.Prompt, error) {
	ref := cfg.Prompt
	ref.Name = cmp.Or(ref.Name, name)
	if cfg.PromptFile == "" {
		return o.FetchPrompt(ctx, ref, promptFromFile)
	}
	template, err := readPrompt(ctx, cfg.PromptFile, check)
	if err != nil || cfg.Estimator != nil {
		return template, outcome.Prompt{}, err
	}
	return tracking.PushPrompt(ctx, o.Langfuse.Client, ref.Name, template)
}

// promptFromFile is how else a run comes to a prompt.
const promptFromFile = "--prompt-file FILE creates one"

// FetchPrompt finds a prompt in Langfuse; without label and version, that of
// production. otherwise tells a person what to do where there is none.
func (o Opener) FetchPrompt(ctx context.Context, ref langfuse.PromptRef, otherwise string) (pipeline.Template, outcome.Prompt, error) {
	if ref.Label == "" && ref.Version == 0 {
		ref.Label = "production"
	}
	template, pin, err := tracking.FindPrompt(ctx, o.Langfuse.Client, ref)
	if errors.Is(err, langfuse.ErrNotFound) {
		return template, pin, fmt.Errorf("%w; %s", missingPrompt(ctx, o.Langfuse.Client, ref), otherwise)
	}
	return template, pin, err
}

// readPrompt reads a prompt from a file: messages where it ends in .json, else
// a text. check says whether it can be used.
func readPrompt(ctx context.Context, path string, check func(pipeline.Template) error) (pipeline.Template, error) {
	raw, err := files.Read(ctx, path, files.MaxText)
	if err != nil {
		return pipeline.Template{}, cli.Usage("reading the prompt: %w", err)
	}
	template := pipeline.ParseText(string(raw))
	if strings.EqualFold(filepath.Ext(path), ".json") {
		if template, err = pipeline.ParseChat(raw); err != nil {
			return template, cli.Usage("reading %s: %w", path, err)
		}
	}
	if err := check(template); err != nil {
		return template, cli.Usage("%s: %w", path, err)
	}
	return template, nil
}
