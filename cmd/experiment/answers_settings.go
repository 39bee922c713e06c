package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// sharedSettings are those that mean the same for answers as for extraction.
var sharedSettings = []string{
	"temperature", "top-p", "max-tokens", "seed", "concurrency", "timeout", "rpm", "tpm", "retries", "cache", "budget-usd", "budget-tokens",
	"trials", "gate", "inconclusive", "max-failures", "description", "metadata", "environment", "langfuse-mode", "resume", "retry-failed", "json", "quiet", "log-level", "log-format",
}

// answersSystemTable lists the settings that say what answers, and how.
func answersSystemTable() []settings.Setting {
	table := []settings.Setting{
		{Flag: "model", Alias: "m", Env: "EXPERIMENT_MODEL", Default: "baseline", Usage: "`MODEL` that answers from the best passages; baseline answers with the best sentence, without a model"},
		{Flag: "prompt", Env: "EXPERIMENT_ANSWERS_PROMPT", Usage: "`NAME` of a prompt in Langfuse with {{question}} and {{passages}} (default: a built-in one)"},
		{Flag: "prompt-label", Usage: "`LABEL` of the prompt (default: production)"},
		{Flag: "prompt-version", Usage: "`N` is the version of the prompt"},
		{Flag: "prompt-file", Usage: "push the prompt in `FILE` where it differs from the newest, and use that"},
		{Flag: "passages", Default: "6", Usage: "`N` passages are given to the model"},
		{Flag: "command", Env: "EXPERIMENT_ANSWERS_COMMAND", Usage: "`PROGRAM` of a team's own that answers (docs/answers.md)"},
		{Flag: "url", Env: "EXPERIMENT_ANSWERS_URL", Usage: "`URL` of a team's own service that answers"},
	}
	for _, s := range runTable() {
		if slices.Contains(sharedSettings, s.Flag) {
			table = append(table, s)
		}
	}
	return table
}

// answersRunTable lists the settings of "answers run".
func answersRunTable() []settings.Setting {
	return append([]settings.Setting{
		{Flag: "pdf", Usage: "`FILE` that the questions are about; EXPERIMENT_PDF_PASSWORD opens an encrypted one"},
		{Flag: "questions", Usage: "`FILE` of questions in JSONL, or the name of a dataset in Langfuse"},
		{Flag: "out", Alias: "o", Usage: "`RUN|FILE` is the name of the run, or a file: its report as FILE.json, the run as FILE.jsonl (default: a name with the time)"},
		{Flag: "name", Alias: "n", Usage: "`NAME` of the run, where --out is a file"},
		{Flag: "overwrite", Switch: true, Usage: "replace the run of that name, unless it is published to Langfuse"},
		{Flag: "verify", Switch: true, Usage: "read the run back from Langfuse at the end and compare it with the run file"},
	}, answersSystemTable()...)
}

// answersConfig is what the settings of a run of answers mean.
type answersConfig struct {
	runConfig
	pdf, command, url string
	passages          int
}

// answersConfig reads the settings and returns every problem of them at once.
func readAnswers(s settings.Values) (answersConfig, error) {
	c, p := readAnswersSystem(s)
	c.pdf, c.dataset = s.Text("pdf"), s.Text("questions")
	if c.pdf == "" {
		p.Add("--pdf is missing: name the document that the questions are about")
	}
	if c.dataset == "" {
		p.Add("--questions is missing: name a file of questions in JSONL, or a dataset in Langfuse")
	}
	c.name, c.output = runAndFile(s.Text("out"), s.Text("name"))
	c.report, c.overwrite = filepath.Ext(c.output) == ".json", s.On("overwrite")
	if c.overwrite && c.resume {
		p.Add("--overwrite begins anew, and --resume goes on: choose one")
	}
	if c.name == "" {
		c.name = madeName("answers")
		c.nameMade = c.name
	}
	checkRunName(p, c.name)
	if c.output != "" {
		p.Join(os.MkdirAll(filepath.Dir(c.output), 0o755))
		p.Join(cli.CanWrite(c.output))
	}
	if c.resume && c.nameMade != "" {
		p.Add("--resume: say which run, with --out or --name")
	}
	return c, p.Err()
}

// answersSystem reads what all runs of answers have.
func readAnswersSystem(s settings.Values) (answersConfig, *settings.Problems) {
	p := &settings.Problems{}
	c := answersConfig{runConfig: readRunOf(p, s, append(answers.ScoreOrder(), outcome.ErrorScore)), command: s.Text("command"), url: s.Text("url")}
	c.publication.Scores = []string{outcome.AllScores} // there are few, and no others
	c.passages = p.Count("passages", s.Text("passages"), 1, 100)
	switch own := c.command != "" || c.url != ""; {
	case c.command != "" && c.url != "":
		p.Add("--command and --url cannot both be measured in one run")
	case own && (c.system.AsksPrompt() || c.system.Limits.Limited() || c.system.ModelGiven):
		p.Add("--command and --url answer in their own way: leave --model, --prompt, limits and --cache out")
	}
	return c, p
}

// runAndFile tells the name of a run from that of a file: a file has a folder
// or an ending.
func runAndFile(out, name string) (run, file string) {
	if out == "" {
		return name, ""
	}
	ext := filepath.Ext(out)
	if filepath.Base(out) == out && ext != ".json" && ext != ".jsonl" {
		if name != "" {
			return name, out
		}
		return out, ""
	}
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(out), ext)
	}
	return name, out
}
