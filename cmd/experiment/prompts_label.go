package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
)

// latestLabel is the one that Langfuse keeps on the newest version itself.
const latestLabel = "latest"

// labelPrompt sets labels on a version beside those that it has, and says where
// each was before.
func labelPrompt(call promptCall) error {
	name, labels := call.words[0], slices.Compact(slices.Sorted(slices.Values(call.words[2:])))
	if err := checkLabels(labels); err != nil {
		return err
	}
	summary, err := call.findPromptName(name)
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(call.words[1], 10, 31)
	if err != nil || version == 0 {
		return cli.Usage("%q is no version of the prompt %q: versions are numbers from 1; %s", call.words[1], name, choices(summary))
	}
	target, err := call.fetch(summary, langfuse.PromptRef{Name: name, Version: int(version)})
	if err != nil {
		return err
	}
	if add := missing(labels, target.Labels); len(add) == 0 {
		return labelsStay(call.env.Stdout, target, labels)
	}
	before := map[string]int{}
	for _, label := range labels {
		if before[label], err = call.labelled(name, label); err != nil {
			return err
		}
	}
	keep := slices.DeleteFunc(slices.Clone(target.Labels), func(l string) bool { return l == latestLabel })
	all := slices.Compact(slices.Sorted(slices.Values(append(keep, labels...))))
	stored, err := call.client.SetPromptLabels(call.ctx, name, target.Version, all)
	if err != nil {
		return err
	}
	return labelsMoved(call.env.Stdout, stored, labels, before)
}

// checkLabels refuses what Langfuse would.
func checkLabels(labels []string) error {
	valid := regexp.MustCompile(`^[a-z0-9_.-]{1,36}$`)
	for _, label := range labels {
		if label == latestLabel {
			return cli.Usage("the label latest cannot be set: Langfuse keeps it on the newest version")
		}
		if !valid.MatchString(label) {
			return cli.Usage("%q cannot be a label: those have 1 to 36 of a-z, 0-9, _, - and .", label)
		}
	}
	return nil
}

func missing(wanted, has []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(l string) bool { return slices.Contains(has, l) })
}

// labelled returns the version that carries a label, 0 for none.
func (call promptCall) labelled(name, label string) (int, error) {
	for summary, err := range call.client.ListPrompts(call.ctx, langfuse.PromptsQuery{Name: name, Label: label}) {
		if err != nil {
			return 0, err
		}
		if summary.Name == name && len(summary.Versions) > 0 {
			return slices.Max(summary.Versions), nil
		}
	}
	return 0, nil
}

func labelsStay(w io.Writer, p langfuse.Prompt, labels []string) error {
	_, err := fmt.Fprintf(w, "nothing moved: %s\n%s", alreadyOn(labels, p.Version), labelledLine(p))
	return cli.Written(err)
}

func alreadyOn(labels []string, version int) string {
	return fmt.Sprintf("version %d has %s already", version, strings.Join(labels, ", "))
}

// labelsMoved says where each label was before.
func labelsMoved(w io.Writer, p langfuse.Prompt, labels []string, before map[string]int) error {
	var b strings.Builder
	for _, label := range labels {
		switch from := before[label]; from {
		case 0:
			fmt.Fprintf(&b, "%s: new, on version %d\n", label, p.Version)
		case p.Version:
			fmt.Fprintf(&b, "%s: stays on version %d\n", label, p.Version)
		default:
			fmt.Fprintf(&b, "%s: moved from version %d to version %d\n", label, from, p.Version)
		}
	}
	b.WriteString(labelledLine(p))
	_, err := io.WriteString(w, b.String())
	return cli.Written(err)
}

func labelledLine(p langfuse.Prompt) string {
	return fmt.Sprintf("%s, version %d: labels %s\n", printable.Line(p.Name), p.Version, printable.Line(labelWords(p.Labels)))
}
