package main

import (
	"io"
	"regexp"
	"strings"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/pipeline/provider/external"
	"extraction-experiment/report"
)

// settled is one value of a dry run.
type settled struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	From    string `json:"from"`
}

// dryRun prints every value and where it came from: the settings, the scoring
// options, and the environment. Nothing is asked of any server, so what the
// config of a prompt would set is not among them. Keys are never shown.
func dryRun(env cli.Env, values settings.Values, order []settings.Setting, sweepRuns []experiment.SweepSettings, file configs.Experiment, path string) error {
	var rows []settled
	for _, o := range order {
		r := values[o.Flag]
		value := keyless(strings.Join(r.Words, " "))
		if namesProgram("--"+o.Flag) && len(r.Words) > 0 {
			value = external.Shown(value)
		}
		rows = append(rows, settled{o.Flag, value, r.From})
	}
	rows = append(rows, settled{"environment of scores", scoreEnvironment(values), values["environment"].From})
	scoring, err := file.ScoringJSON()
	if err != nil {
		return cli.Usage("%w", err)
	}
	from := "default"
	if len(file.Scoring) > 0 {
		from = path
	}
	rows = append(rows, settled{"scoring", string(scoring), from})
	for _, sweepRun := range sweepRuns {
		rows = append(rows, settled{"run", sweepRun.Name, "sweep"})
	}
	rows = append(rows, environment(env.Getenv)...)
	if values.On("json") {
		return runs.PrintJSON(env, rows)
	}
	t := report.Table{Columns: []report.Column{{Title: "setting"}, {Title: "value"}, {Title: "from"}}}
	for _, r := range rows {
		t.Rows = append(t.Rows, report.Row{Cells: []string{r.Setting, textutil.Line(r.Value), textutil.Line(r.From)}})
	}
	_, err = io.WriteString(env.Stdout, t.Text())
	return cli.Written(err)
}

// keyless is a value without the user and the password of an address in it.
func keyless(value string) string {
	return regexp.MustCompile(`(\w://)[^/?#\s]*@`).ReplaceAllString(value, "$1***@")
}

// environment returns what the environment says beside the settings. The value
// of what may be a secret is never shown.
func environment(getenv func(string) string) []settled {
	names := []string{langfuse.EnvBaseURL, langfuse.EnvHost, langfuse.EnvPublicKey, langfuse.EnvSecretKey, system.EnvModels, system.EnvPrices, system.EnvPipelineToken}
	var rows []settled
	for _, name := range append(names, provider.Variables()...) {
		row := settled{name, "", "not set"}
		if value := getenv(name); value != "" {
			row.Value, row.From = keyless(value), "environment"
			if secret.Named(name) {
				row.Value = "***"
			}
		}
		rows = append(rows, row)
	}
	return rows
}
