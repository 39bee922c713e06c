package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
	"extraction-experiment/report"
)

// settled is one value of a dry run.
type settled struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	From    string `json:"from"`
}

// dryRun prints every value and where it came from: the settings, the scoring
// options, and which Langfuse it would be. Keys are never shown.
func dryRun(env cli.Env, values settings, order []setting, file configs.Experiment, path string) error {
	var rows []settled
	for _, o := range order {
		r := values[o.flag]
		rows = append(rows, settled{o.flag, strings.Join(r.words, " "), r.from})
	}
	scoring, err := file.ScoringJSON()
	if err != nil {
		return cli.Usage("%w", err)
	}
	from := "default"
	if len(file.Scoring) > 0 {
		from = path
	}
	rows = append(rows, settled{"scoring", string(scoring), from})
	for _, name := range []string{langfuse.EnvBaseURL, langfuse.EnvHost, langfuse.EnvPublicKey, langfuse.EnvSecretKey} {
		row := settled{name, "", "not set"}
		if value := env.Getenv(name); value != "" {
			row.Value, row.From = value, "environment"
			if name == langfuse.EnvPublicKey || name == langfuse.EnvSecretKey {
				row.Value = "***"
			}
		}
		rows = append(rows, row)
	}
	if values.text("json") == "true" {
		return written(report.JSON(env.Stdout, rows, isTerminal(os.Stdout)))
	}
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.AppendHeader(table.Row{"setting", "value", "from"})
	for _, r := range rows {
		t.AppendRow(table.Row{r.Setting, printable.Line(r.Value), printable.Line(r.From)})
	}
	_, err = fmt.Fprintln(env.Stdout, t.Render())
	return written(err)
}
