package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"extraction-experiment/cmd/internal/output"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
)

// listPrompts writes the prompts by name.
func listPrompts(call promptCall) error {
	list := []langfuse.PromptSummary{}
	for summary, err := range call.client.ListPrompts(call.ctx, langfuse.PromptsQuery{}) {
		if err != nil {
			return err
		}
		slices.Sort(summary.Labels)
		list = append(list, summary)
	}
	slices.SortStableFunc(list, func(a, b langfuse.PromptSummary) int { return cmp.Compare(a.Name, b.Name) })
	if call.c.Bool("json") {
		return output.JSON(call.env, list)
	}
	return cli.Written(promptTable(call.env.Stdout, list, time.Local))
}

// promptTable writes one line for each prompt. Names stay whole, to be copied.
func promptTable(w io.Writer, list []langfuse.PromptSummary, zone *time.Location) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no prompts")
		return err
	}
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Options.SeparateHeader = true
	style.Format = table.FormatOptions{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "  ", ""
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(table.Row{"name", "type", "versions", "labels", "updated"})
	for _, p := range list {
		updated := "–"
		if !p.LastUpdatedAt.IsZero() {
			updated = p.LastUpdatedAt.In(zone).Format("2006-01-02 15:04")
		}
		t.AppendRow(table.Row{printable.Line(p.Name), printable.Line(p.Type), ranges(p.Versions),
			printable.Line(strings.Join(p.Labels, ", ")), updated})
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

// ranges writes numbers in order, runs of three and more shortened: 1-4, 6, 7.
func ranges(numbers []int) string {
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1]-numbers[end] == 1 {
			end++
		}
		if end-i < 2 {
			end = i
			parts = append(parts, fmt.Sprint(numbers[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[i], numbers[end]))
		}
		i = end + 1
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
