package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

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
func answersSystemTable() []setting {
	table := []setting{
		{flag: "model", alias: "m", env: "EXPERIMENT_MODEL", fallback: "baseline", usage: "`MODEL` that answers from the best passages; baseline answers with the best sentence, without a model"},
		{flag: "prompt", env: "EXPERIMENT_ANSWERS_PROMPT", usage: "`NAME` of a prompt in Langfuse with {{question}} and {{passages}} (default: a built-in one)"},
		{flag: "prompt-label", usage: "`LABEL` of the prompt (default: production)"},
		{flag: "prompt-version", usage: "`N` is the version of the prompt"},
		{flag: "prompt-file", usage: "push the prompt in `FILE` where it differs from the newest, and use that"},
		{flag: "passages", fallback: "6", usage: "`N` passages are given to the model"},
		{flag: "command", env: "EXPERIMENT_ANSWERS_COMMAND", usage: "`PROGRAM` of a team's own that answers (docs/answers.md)"},
		{flag: "url", env: "EXPERIMENT_ANSWERS_URL", usage: "`URL` of a team's own service that answers"},
	}
	for _, s := range runTable() {
		for _, name := range sharedSettings {
			if s.flag == name {
				table = append(table, s)
			}
		}
	}
	return table
}

// answersRunTable lists the settings of "answers run".
func answersRunTable() []setting {
	return append([]setting{
		{flag: "pdf", usage: "`FILE` that the questions are about; EXPERIMENT_PDF_PASSWORD opens an encrypted one"},
		{flag: "questions", usage: "`FILE` of questions in JSONL, or the name of a dataset in Langfuse"},
		{flag: "out", alias: "o", usage: "`RUN|FILE` is the name of the run, or a file: its report as FILE.json, the run as FILE.jsonl (default: a name with the time)"},
		{flag: "name", alias: "n", usage: "`NAME` of the run, where --out is a file"},
		{flag: "overwrite", toggle: true, usage: "replace the run of that name, unless it is published to Langfuse"},
		{flag: "verify", toggle: true, usage: "read the run back from Langfuse at the end and compare it with the run file"},
	}, answersSystemTable()...)
}

// answersConfig is what the settings of a run of answers mean.
type answersConfig struct {
	runConfig
	pdf, command, url string
	passages          int
}

// answersConfig reads the settings and returns every problem of them at once.
func (s settings) answersConfig() (answersConfig, error) {
	c, p := s.answersSystem()
	c.pdf, c.dataset = s.text("pdf"), s.text("questions")
	if c.pdf == "" {
		p.add("--pdf is missing: name the document that the questions are about")
	}
	if c.dataset == "" {
		p.add("--questions is missing: name a file of questions in JSONL, or a dataset in Langfuse")
	}
	c.name, c.output = runAndFile(s.text("out"), s.text("name"))
	c.report, c.overwrite = filepath.Ext(c.output) == ".json", s.on("overwrite")
	if c.overwrite && c.resume {
		p.add("--overwrite begins anew, and --resume goes on: choose one")
	}
	if c.name == "" {
		c.name = madeName("answers")
		c.nameMade = c.name
	}
	p.runName(c.name)
	if c.output != "" {
		p.err(os.MkdirAll(filepath.Dir(c.output), 0o755))
		p.err(cli.CanWrite(c.output))
	}
	if c.resume && c.nameMade != "" {
		p.add("--resume: say which run, with --out or --name")
	}
	return c, errors.Join(p.found...)
}

// answersSystem reads what all runs of answers have.
func (s settings) answersSystem() (answersConfig, *problems) {
	p := &problems{}
	c := answersConfig{runConfig: s.runConfigOf(p, append(answers.ScoreOrder(), outcome.ErrorScore)), command: s.text("command"), url: s.text("url")}
	c.publication.Scores = []string{outcome.AllScores} // there are few, and no others
	c.passages = p.count("passages", s.text("passages"), 1, 100)
	switch own := c.command != "" || c.url != ""; {
	case c.command != "" && c.url != "":
		p.add("--command and --url cannot both be measured in one run")
	case own && (c.system.AsksPrompt() || c.system.Limits.Limited() || c.system.ModelGiven):
		p.add("--command and --url answer in their own way: leave --model, --prompt, limits and --cache out")
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
