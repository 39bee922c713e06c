package system

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// The functions of this file escape the text of prompts, so that it cannot steer a terminal.

// ListPrompts returns the prompts of Langfuse, sorted by name, each with sorted labels.
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

// WithLabelVersions returns the list with the version of each label, as in "production 3". It
// sends a request for each different label.
func WithLabelVersions(ctx context.Context, client *langfuse.Client, list []langfuse.PromptSummary) (
	[]langfuse.PromptSummary, error) {
	labels := slices.Concat(cli.Each(list, func(p langfuse.PromptSummary) []string { return p.Labels })...)
	labelled := map[string][]string{} // by prompt
	for _, label := range slices.Compact(slices.Sorted(slices.Values(labels))) {
		for p, err := range client.ListPrompts(ctx, "", label) {
			if err != nil {
				return nil, err
			}
			labelled[p.Name] = append(labelled[p.Name], label+" "+ranges(p.Versions))
		}
	}
	return cli.Each(list, func(p langfuse.PromptSummary) langfuse.PromptSummary {
		p.Labels = labelled[p.Name]
		return p
	}), nil
}

// PromptTable returns a table with a line for each prompt. It does not shorten names, so
// that they can be copied.
func PromptTable(list []langfuse.PromptSummary, zone *time.Location) string {
	if len(list) == 0 {
		return "no prompts\n"
	}
	t := report.Table{Columns: []report.Column{{Title: "name"}, {Title: "type"}, {Title: "versions"}, {Title: "labels"}, {Title: "updated"}}}
	for _, p := range list {
		t.Rows = append(t.Rows, report.Row{Cells: []string{textutil.Line(p.Name), textutil.Line(p.Type), ranges(p.Versions),
			textutil.Line(strings.Join(p.Labels, ", ")), p.LastUpdatedAt.In(zone).Format("2006-01-02 15:04")}})
	}
	return t.Text()
}

// ranges formats numbers in ascending order, with consecutive ones as ranges: 1-4, 6-7, 9.
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

// labelList formats labels in alphabetical order.
func labelList(labels []string) string {
	return cmp.Or(strings.Join(slices.Sorted(slices.Values(labels)), ", "), "none")
}

// GetPrompt returns one version of a prompt, with references to other prompts replaced by
// their text. If there is none, the error (exit code 64) lists the existing versions and
// labels.
func GetPrompt(ctx context.Context, client *langfuse.Client, ref langfuse.PromptRef) (langfuse.Prompt, error) {
	found, err := client.GetPrompt(ctx, ref)
	if errors.Is(err, langfuse.ErrNotFound) {
		err = missingPrompt(ctx, client, ref)
	}
	return found, err
}

// missingPrompt returns the error for a prompt that Langfuse does not have. It lists the
// prompts, or the versions and labels, that exist.
func missingPrompt(ctx context.Context, client *langfuse.Client, ref langfuse.PromptRef) error {
	list, err := ListPrompts(ctx, client)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(p langfuse.PromptSummary) bool { return p.Name == ref.Name })
	if i < 0 {
		names := cli.Each(list, func(p langfuse.PromptSummary) string { return p.Name })
		return cli.Usage("there is no prompt %q; there are: %s", ref.Name, textutil.Listed(ref.Name, names))
	}
	choices := fmt.Sprintf("its versions: %s; its labels: %s", ranges(list[i].Versions), labelList(list[i].Labels))
	if ref.Label == "" && ref.Version > 0 {
		return cli.Usage("the prompt %q has no version %d; %s", ref.Name, ref.Version, choices)
	}
	label := cmp.Or(ref.Label, "production")
	return cli.Usage("the prompt %q has no label %q; %s; experiment prompts label %s VERSION %s sets it",
		ref.Name, label, choices, cli.Quote(ref.Name), label)
}

// ComparePrompts returns the difference between two versions of a prompt, each named by its
// number or a label.
func ComparePrompts(ctx context.Context, client *langfuse.Client, name, a, b string) (string, error) {
	var versions []langfuse.Prompt
	for _, selector := range []string{a, b} {
		ref := langfuse.PromptRef{Name: name, Version: versionOf(selector)}
		if ref.Version == 0 {
			ref.Label = selector
		}
		found, err := GetPrompt(ctx, client, ref)
		if err != nil {
			return "", err
		}
		versions = append(versions, found)
	}
	return promptDiff(versions[0], versions[1]), nil
}

// versionOf returns the number of a version; 0 if word is not one.
func versionOf(word string) int {
	if version, err := strconv.ParseUint(word, 10, 31); err == nil {
		return int(version)
	}
	return 0
}

// LabelPrompt adds labels to a version and returns a text that says where each label was
// before. Langfuse refuses invalid labels.
func LabelPrompt(ctx context.Context, client *langfuse.Client, name, version string, labels []string) (string, error) {
	labels = slices.Compact(slices.Sorted(slices.Values(labels)))
	n := versionOf(version)
	if n == 0 {
		return "", cli.Usage("%q is not a version: versions are numbers from 1", version)
	}
	target, err := GetPrompt(ctx, client, langfuse.PromptRef{Name: name, Version: n})
	if err != nil {
		return "", err
	}
	message, err := labelMoves(ctx, client, name, n, labels)
	if err != nil {
		return "", err
	}
	// Langfuse itself sets latest on the newest version and does not accept it from clients.
	otherLabels := slices.DeleteFunc(target.Labels, func(label string) bool {
		return label == "latest" || slices.Contains(labels, label)
	})
	if target, err = client.SetPromptLabels(ctx, name, n, slices.Concat(labels, otherLabels)); err != nil {
		return "", err
	}
	return message + fmt.Sprintf("%s, version %d: labels %s\n",
		textutil.Line(target.Name), target.Version, textutil.Line(labelList(target.Labels))), nil
}

// labelMoves says on which version each label was before it is set on this one.
func labelMoves(ctx context.Context, client *langfuse.Client, name string, version int, labels []string) (message string, err error) {
	for _, label := range labels {
		found, err := tracking.NamedPrompt(ctx, client, name, label)
		switch {
		case err != nil:
			return "", err
		case len(found.Versions) == 0:
			message += fmt.Sprintf("%s: new, on version %d\n", label, version)
		case slices.Max(found.Versions) == version:
			message += fmt.Sprintf("%s: stays on version %d\n", label, version)
		default:
			message += fmt.Sprintf("%s: moved from version %d to version %d\n", label, slices.Max(found.Versions), version)
		}
	}
	return message, nil
}

// PromptPage formats one version of a prompt as text: its name, labels, tags and commit
// message, its messages and its configuration.
func PromptPage(p langfuse.Prompt) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, version %d, %s\n", textutil.Line(p.Name), p.Version, textutil.Line(p.Type))
	for _, row := range []struct{ title, text string }{
		{"labels", labelList(p.Labels)},
		{"tags", strings.Join(p.Tags, ", ")},
		{"commit", p.CommitMessage},
	} {
		if text := textutil.Line(row.text); text != "" {
			fmt.Fprintf(&b, "%-8s%s\n", row.title, text)
		}
	}
	b.WriteByte('\n')
	for line := range strings.SplitSeq(strings.TrimSuffix(promptText(p), "\n"), "\n") {
		b.WriteString(promptLine("", line))
	}
	return b.String()
}

// promptDiff returns a unified diff of the lines of two versions. Its anchors are the lines
// that occur once in each version, so that any content takes at most n log n steps.
func promptDiff(a, b langfuse.Prompt) string {
	raw := diff.Diff("a", []byte(promptText(a)), "b", []byte(promptText(b)))
	if raw == nil {
		what := fmt.Sprintf("versions %d and %d", a.Version, b.Version)
		if a.Version == b.Version {
			what = fmt.Sprintf("both are version %d", a.Version)
		}
		return fmt.Sprintf("%s: no difference (%s)\n", textutil.Line(a.Name), what)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", versionTitle(a), versionTitle(b))
	// Without the titles of package diff.
	for _, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")[3:] {
		if strings.HasPrefix(line, "@@") {
			out.WriteString(line + "\n")
		} else {
			out.WriteString(promptLine(line[:1], line[1:]))
		}
	}
	return out.String()
}

func versionTitle(p langfuse.Prompt) string {
	return fmt.Sprintf("%s, version %d (%s)", textutil.Line(p.Name), p.Version, textutil.Line(labelList(p.Labels)))
}

// promptLine escapes a line and puts the mark before it. Where a terminal would break the line it has a space,
// so that no part of it looks like a heading. A blank line becomes empty.
func promptLine(mark, line string) string {
	if strings.TrimSpace(line) == "" {
		return strings.TrimSpace(mark) + "\n"
	}
	return mark + strings.ReplaceAll(textutil.Block(line), "\n", " ") + "\n"
}

// promptText returns the messages and the configuration of a prompt: headings at the margin,
// content indented by two spaces. The content is not escaped.
func promptText(p langfuse.Prompt) string {
	text, err := p.Text()
	if text = section("text", text); err != nil {
		text = messagesText(p.Prompt)
	}
	config := bytes.TrimSpace(p.Config)
	if len(config) == 0 || string(config) == "null" {
		config = []byte("{}")
	}
	return text + section("config", canonicalJSON(config))
}

// messagesText returns the messages, each under its role, and placeholders by name. A prompt with
// anything else in it is JSON as a whole.
func messagesText(raw json.RawMessage) string {
	var messages []struct{ Type, Role, Content, Name string }
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&messages) != nil {
		return section("prompt", canonicalJSON(raw))
	}
	var text strings.Builder
	for _, m := range messages {
		switch {
		case m.Type == "placeholder" && m.Role+m.Content == "":
			text.WriteString(textutil.Line("placeholder "+m.Name) + "\n\n")
		case m.Role != "" && m.Name == "":
			text.WriteString(section(m.Role, m.Content))
		default:
			return section("prompt", canonicalJSON(raw))
		}
	}
	return text.String()
}

// section returns a heading with the indented lines of its body, and an empty line.
// Line removes spaces before the heading.
func section(title, body string) string {
	return textutil.Line(title) + "\n  " + strings.ReplaceAll(body, "\n", "\n  ") + "\n\n"
}

// canonicalJSON formats JSON with sorted keys. It returns invalid JSON unchanged.
func canonicalJSON(raw json.RawMessage) string {
	canonical, err := dataset.Canonical(raw)
	if err != nil {
		return string(raw)
	}
	return report.Indented(canonical)
}

// findPrompt fetches the prompt of the settings, with name as its default name. If they name
// a file, it is the version with that text: that of the run that is resumed, else the newest.
// Without one, the pin has no version. An estimate only reads the file. A label is on the version
// that the run that is resumed began with, wherever it is now. Langfuse need not have it any more.
func (o Opener) findPrompt(ctx context.Context, cfg Config, name string) (pipeline.Template, outcome.Prompt, error) {
	ref := cfg.Prompt
	ref.Name = cmp.Or(ref.Name, name)
	if cfg.PromptFile == "" {
		b := cfg.Began
		if b != nil && b.Name == ref.Name &&
			(ref.Version == b.Version || ref.Version == 0 && cmp.Or(ref.Label, "production") == b.Label) {
			return o.beganWith(ctx, *b)
		}
		return o.FetchPrompt(ctx, ref, "--prompt-file FILE creates one")
	}
	template, err := readPrompt(ctx, cfg.PromptFile)
	if err != nil || cfg.Estimator != nil {
		return template, outcome.Prompt{}, err
	}
	switch began, sha := cfg.Began, template.SHA256(); {
	case began == nil:
		return tracking.MatchPrompt(ctx, o.Langfuse.Client, ref.Name, template)
	case began.Name == ref.Name && began.SHA256 == sha:
		return o.beganWith(ctx, *began)
	default: // another experiment, which is refused
		return template, outcome.Prompt{Name: ref.Name + " (" + cfg.PromptFile + ")", SHA256: sha}, nil
	}
}

// beganWith returns the prompt that a run began with: the one in the run file or, for a run of an
// earlier version, that version in Langfuse.
func (o Opener) beganWith(ctx context.Context, began outcome.Prompt) (
	template pipeline.Template, pin outcome.Prompt, err error) {
	if began.Template == nil {
		ref := langfuse.PromptRef{Name: began.Name, Version: began.Version}
		template, pin, err = o.FetchPrompt(ctx, ref, "the run began with it")
	} else {
		pin, err = began, json.Unmarshal(began.Template, &template)
		template.Name, template.Version = began.Name, began.Version
	}
	template.Label, pin.Label = began.Label, began.Label
	return template, pin, err
}

// FetchPrompt fetches a prompt from Langfuse; without label and version, the one labelled
// production. If there is none, the error ends in hint.
func (o Opener) FetchPrompt(ctx context.Context, ref langfuse.PromptRef,
	hint string) (pipeline.Template, outcome.Prompt, error) {
	if ref.Label == "" && ref.Version == 0 {
		ref.Label = "production"
	}
	template, pin, err := tracking.FindPrompt(ctx, o.Langfuse.Client, ref)
	if errors.Is(err, langfuse.ErrNotFound) {
		return template, pin, fmt.Errorf("%w; %s", missingPrompt(ctx, o.Langfuse.Client, ref), hint)
	}
	return template, pin, err
}

// readPrompt reads a prompt from a file: messages if its name ends in .json, else a text.
func readPrompt(ctx context.Context, path string) (pipeline.Template, error) {
	raw, err := files.Read(ctx, path, files.MaxText)
	if errors.Is(err, fs.ErrNotExist) && strings.Contains(path, ",") {
		err = fmt.Errorf("%w; prompt files cannot be swept: give each to a run of its own, "+
			"then sweep the versions that these name, such as --prompt-version 2,3", err)
	}
	if err != nil {
		return pipeline.Template{}, cli.Usage("reading the prompt: %w", err)
	}
	if !strings.EqualFold(filepath.Ext(path), ".json") {
		return pipeline.ParseText(string(raw)), nil
	}
	template, err := pipeline.ParseChat(raw)
	if err != nil {
		return template, cli.Usage("reading %s: %w", path, err)
	}
	return template, nil
}
