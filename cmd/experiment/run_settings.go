package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/compare"
	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/nearest"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/tracking"
)

// runTable lists the settings of a run.
func runTable() []setting {
	return []setting{
		{flag: "dataset", alias: "d", env: "EXPERIMENT_DATASET", usage: "`NAME` of a dataset in Langfuse, or a file of items that exists"},
		{flag: "name", alias: "n", env: "EXPERIMENT_NAME", usage: "`NAME` of the run; used once"},
		{flag: "model", alias: "m", env: "EXPERIMENT_MODEL", fallback: "baseline", usage: "`MODEL` that extracts; a,b makes a sweep (docs/sweeps.md), as with the other settings of model and prompt"},
		{flag: "pipeline", env: "EXPERIMENT_PIPELINE", usage: "`PROGRAM|URL` of a team's own pipeline (docs/pipeline-protocol.md)"},
		{flag: "record", env: "EXPERIMENT_RECORD", usage: "write every exchange with the model to `FILE`; --model recorded/FILE answers from it"},
		{flag: "prompt", env: "EXPERIMENT_PROMPT", usage: "`NAME` of the prompt in Langfuse (default for a model: extraction)"},
		{flag: "prompt-label", env: "EXPERIMENT_PROMPT_LABEL", usage: "`LABEL` of the prompt (default: production)"},
		{flag: "prompt-version", env: "EXPERIMENT_PROMPT_VERSION", usage: "`N` is the version of the prompt"},
		{flag: "prompt-file", env: "EXPERIMENT_PROMPT_FILE", usage: "push the prompt in `FILE` (text, or JSON messages) where it differs from the newest, and run that"},
		{flag: "var", many: true, usage: "`NAME=PATH` fills {{NAME}} from the item, as title=input.title; may be repeated"},
		{flag: "two-stages", env: "EXPERIMENT_TWO_STAGES", toggle: true, usage: "ask the model for entities first, then for relationships between them"},
		{flag: "temperature", env: "EXPERIMENT_TEMPERATURE", usage: "`T` of the model; 0 is really sent"},
		{flag: "top-p", env: "EXPERIMENT_TOP_P", usage: "`P` of the model"},
		{flag: "max-tokens", env: "EXPERIMENT_MAX_TOKENS", usage: "`N` tokens an answer may have"},
		{flag: "seed", env: "EXPERIMENT_SEED", usage: "`N` seeds the model's sampling"},
		{flag: "trials", env: "EXPERIMENT_TRIALS", fallback: "1", usage: "run every item `N` times: one run file, one run in Langfuse per trial"},
		{flag: "concurrency", alias: "c", env: "EXPERIMENT_CONCURRENCY", fallback: "4", usage: "`N` items are worked on at once"},
		{flag: "timeout", env: "EXPERIMENT_TIMEOUT", fallback: "5m", usage: "`TIME` that one item may take, as 90s or 2m"},
		{flag: "rpm", env: "EXPERIMENT_RPM", usage: "`N` requests a minute that the provider allows (default: found out)"},
		{flag: "tpm", env: "EXPERIMENT_TPM", usage: "`N` tokens a minute that the provider allows (default: found out)"},
		{flag: "retries", env: "EXPERIMENT_RETRIES", fallback: "5", usage: "`N` times a request that failed is sent again"},
		{flag: "cache", env: "EXPERIMENT_CACHE", usage: "keep answers in the folder `DIR`, and do not pay for them again"},
		{flag: "budget-usd", env: "EXPERIMENT_BUDGET_USD", usage: "stop, to be resumed, before the run has cost more than `USD`"},
		{flag: "budget-tokens", env: "EXPERIMENT_BUDGET_TOKENS", usage: "stop, to be resumed, before the run has used more than `N` tokens"},
		{flag: "limit", env: "EXPERIMENT_LIMIT", usage: "`N` items are run at most"},
		{flag: "item", many: true, usage: "run only the item with this `ID`; may be repeated"},
		{flag: "filter", env: "EXPERIMENT_FILTER", many: true, usage: "run only items with `metadata.K=V`; may be repeated, all must hold"},
		{flag: "max-failures", env: "EXPERIMENT_MAX_FAILURES", fallback: "0", usage: "`N|P%` of the items may fail; more make exit code 4"},
		{flag: "gate", many: true, usage: "`RULE|FILE` that the run must keep, such as 'entity_f1 >= 0.7', or a YAML file of rules; may be repeated; exit code 1"},
		{flag: "inconclusive", usage: "what an inconclusive rule counts as: fail, pass, or `6`, which is an exit code of its own (default: fail)"},
		{flag: "description", env: "EXPERIMENT_DESCRIPTION", usage: "`TEXT` shown beside the run in Langfuse"},
		{flag: "metadata", many: true, usage: "record `K=V` with the run; may be repeated"},
		{flag: "environment", env: "LANGFUSE_TRACING_ENVIRONMENT", fallback: outcome.SpanEnvironment, usage: "`NAME` of the Langfuse environment of traces and scores; without it that of scores is " + outcome.ScoreEnvironment},
		{flag: "publish-mentions", env: "EXPERIMENT_PUBLISH_MENTIONS", toggle: true, usage: "also send the places in the text that were looked up, not only those that the model gave, as mentions of entities to Langfuse"},
		{flag: "publish-scores", env: "EXPERIMENT_PUBLISH_SCORES", usage: "`all|NAME,…` are the scores to send to Langfuse besides the usual few; those of evaluators always are (docs/langfuse.md)"},
		{flag: "langfuse-mode", env: connect.EnvMode, usage: modeUsage},
		{flag: "resume", toggle: true, usage: "go on with the run of this name"},
		{flag: "retry-failed", bare: true, usage: "go on with the run of this name, and give failed items a new attempt; `[=CLASS,…]` those of these classes only"},
		{flag: "config", env: "EXPERIMENT_CONFIG", usage: "read settings from the YAML `FILE`"},
		{flag: "output", alias: "o", env: "EXPERIMENT_OUTPUT", usage: "also write the run as JSONL to `FILE`"},
		{flag: "html", usage: "of a sweep: also write the leaderboard to `FILE`, a page to look at"},
		{flag: "verify", env: "EXPERIMENT_VERIFY", toggle: true, usage: "read the run back from Langfuse at the end and compare it with the run file"},
		{flag: "json", toggle: true, usage: "print the summary as one JSON object on standard output"},
		{flag: "quiet", alias: "q", env: "EXPERIMENT_QUIET", toggle: true, usage: "no progress and no summary"},
		{flag: "log-level", env: "EXPERIMENT_LOG_LEVEL", fallback: "warn", usage: "log at `LEVEL`: debug, info, warn or error"},
		{flag: "log-format", env: "EXPERIMENT_LOG_FORMAT", fallback: "text", usage: "log as `FORM`: text or json"},
		{flag: "estimate", toggle: true, usage: "print how many items, tokens and dollars the run would take, and run nothing"},
		{flag: "dry-run", toggle: true, usage: "print every setting and where it came from, and run nothing"},
	}
}

// maxTrials bounds --trials: each is a run of its own in Langfuse.
const maxTrials = 100

// runConfig is what the settings of a run mean.
type runConfig struct {
	dataset, name            string
	nameMade                 string // the --name that the program made, where none was given
	system                   system.Config
	concurrency              int
	trials                   int
	pin                      *tracking.Dataset // if it is known
	cell                     bool              // a run of a sweep, which is reported as a whole
	timeout                  time.Duration
	filter                   dataset.Filter
	allowance                experiment.Allowance
	gate                     compare.Gate
	description, environment string
	metadata                 map[string]string
	output                   string
	report                   bool   // output is a report of answers, not JSONL
	overwrite                bool   // a run of the name is replaced, if it is not published
	html                     string // page of the sweep's leaderboard
	environmentGiven         bool
	publication              outcome.Publication
	resume, json, quiet      bool
	estimate                 bool
	langfuseMode             string
	verify                   bool
	retry                    bool
	retryClasses             []outcome.Class
}

// runConfig reads the settings and returns every problem of them at once; scores
// are the names of those that the run will have.
func (s settings) runConfig(scores []string) (runConfig, error) {
	p := &problems{}
	cfg := s.runConfigOf(p, scores)
	if cfg.estimate && cfg.resume {
		p.add("--estimate tells what a whole run would take, and not what is left of one: leave out --resume")
	}
	if cfg.dataset == "" {
		p.add("--dataset is missing: name a dataset in Langfuse or a file of items; extraction-eval is the built-in one")
	}
	if cfg.name == "" && !cfg.estimate {
		p.add("--name is missing: give the run a name, such as baseline-v1")
	}
	if cfg.output != "" && experiment.IsFile(cfg.dataset) && cli.SameFile(cfg.dataset, cfg.output) {
		p.add("--output %s would replace the dataset: name another file", cfg.output)
	}
	if cfg.name != "" || !cfg.estimate {
		p.runName(cfg.name)
	}
	return cfg, errors.Join(p.found...)
}

// runConfigOf reads what runs of every harness have.
func (s settings) runConfigOf(p *problems, scores []string) runConfig {
	cfg := runConfig{
		dataset:     s.text("dataset"),
		name:        s.text("name"),
		system:      p.system(s),
		concurrency: p.count("concurrency", s.text("concurrency"), 1, 1000),
		trials:      p.count("trials", s.text("trials"), 1, maxTrials),
		timeout:     p.duration("timeout", s.text("timeout")),
		description: s.text("description"),
		environment: p.environment(s.text("environment")),
		metadata:    p.pairs("metadata", s.all("metadata")),
		output:      s.text("output"),
		html:        s.text("html"),

		langfuseMode: s.text("langfuse-mode"),
		resume:       p.toggle(s, "resume"),
		verify:       p.toggle(s, "verify"),
		json:         p.toggle(s, "json"),
		quiet:        p.toggle(s, "quiet"),
		estimate:     p.toggle(s, "estimate"),
	}
	if text := s.text("retry-failed"); text != "" && text != "false" {
		cfg.retry, cfg.resume, cfg.system.Resume = true, true, true
		cfg.retryClasses = p.classes(text)
	}
	cfg.system.Limits.Timeout, cfg.system.Limits.Concurrency = cfg.timeout, cfg.concurrency
	if _, err := langfuse.ParseMode(cfg.langfuseMode); err != nil {
		p.add("--langfuse-mode: %v", err)
	}
	cfg.environmentGiven = s["environment"].from != "default"
	cfg.publication = outcome.Publication{
		Form: outcome.PublicationForm, ScoreEnvironment: s.scoreEnvironment(),
		Scores: p.publishScores(s.text("publish-scores"), scores), Mentions: p.toggle(s, "publish-mentions"),
	}
	for _, key := range tracking.FixedKeys() {
		if _, taken := cfg.metadata[key]; taken {
			p.add("--metadata: the key %q is recorded with every run and cannot be set", key)
		}
	}
	if cfg.output == "-" && !(cfg.quiet && !cfg.json) {
		p.add("--output -: standard output has the summary; add --quiet, or name a file")
	} else if cfg.output != "" && cfg.output != "-" {
		p.err(cli.CanWrite(cfg.output))
	}
	var err error
	if cfg.filter, err = dataset.ParseFilter(s.all("filter")...); err != nil {
		p.err(err)
	}
	cfg.filter = cfg.filter.WithIDs(s.all("item")...)
	if text := s.text("limit"); text != "" {
		cfg.filter.Limit = p.count("limit", text, 1, 1<<31-1)
	}
	if cfg.allowance, err = experiment.ParseAllowance(s.text("max-failures")); err != nil {
		p.add("--max-failures: %v", err)
	}
	p.gate(s, &cfg, scores)
	return cfg
}

// gate reads the rules; what one run cannot answer is found before it is paid
// for.
func (p *problems) gate(s settings, cfg *runConfig, scores []string) {
	var err error
	if cfg.gate, _, err = readGate(s.all("gate"), s.text("inconclusive")); err == nil {
		err = cfg.gate.CheckRun(scores)
	}
	if err != nil {
		p.add("--gate: %w", err)
	}
}

// classes reads classes of failure; "true" stands for all of them.
func (p *problems) classes(text string) []outcome.Class {
	if text == "true" || text == "all" {
		return nil
	}
	var classes []outcome.Class
	for word := range strings.SplitSeq(text, ",") {
		class := outcome.Class(strings.TrimSpace(word))
		if !slices.Contains(outcome.Classes(), class) {
			p.add("--retry-failed: %q is no class of failure; there are: %s", word, strings.Trim(fmt.Sprint(outcome.Classes()), "[]"))
			continue
		}
		classes = append(classes, class)
	}
	return classes
}

// environments is the form that Langfuse accepts; anything else it would
// silently turn into "default".
var environments = regexp.MustCompile(`^[a-z0-9_-]{1,40}$`)

func (p *problems) environment(name string) string {
	if !environments.MatchString(name) || strings.HasPrefix(name, "langfuse") {
		p.add("--environment: %q is not accepted by Langfuse: use up to 40 of a-z, 0-9, - and _, not beginning with langfuse", name)
	}
	return name
}

// publishScores reads which scores go to Langfuse besides the default ones; known are
// those that the run will have.
func (p *problems) publishScores(text string, known []string) []string {
	names := slices.DeleteFunc(listed([]string{text}), func(name string) bool { return name == "" })
	for _, name := range names {
		if name != outcome.AllScores && !slices.Contains(known, name) {
			p.add("--publish-scores: there is no score %q; there are: %s, and %s of them%s", name, strings.Join(known, ", "), outcome.AllScores, nearest.Hint(name, known))
		}
	}
	slices.Sort(names)
	if slices.Contains(names, outcome.AllScores) {
		return []string{outcome.AllScores}
	}
	return slices.Compact(names)
}

// scoreEnvironment is that of the scores: who names one means both.
func (s settings) scoreEnvironment() string {
	if s["environment"].from == "default" {
		return outcome.ScoreEnvironment
	}
	return s.text("environment")
}

// reserved names are made by the program: one for each trial of a run.
var reserved = regexp.MustCompile(`#[0-9]+$`)

func (p *problems) runName(name string) { p.runNameOf("name", name) }

// runNameOf does so for a name that another flag gives.
func (p *problems) runNameOf(flag, name string) {
	switch {
	case name == "." || name == "..":
		p.add("--%s: %q is no name that can be looked up", flag, name)
	case !utf8.ValidString(name):
		p.add("--%s: %q is not valid UTF-8", flag, name)
	case strings.ContainsAny(name, "/,"):
		p.add("--%s: %q contains a slash or comma, which Langfuse cannot look up; try %q", flag, name, strings.NewReplacer("/", "-", ",", "-").Replace(name))
	case reserved.MatchString(name):
		p.add("--%s: %q ends in # and digits, which is kept for trials", flag, name)
	case name != strings.TrimSpace(name):
		p.add("--%s: %q begins or ends with a space", flag, name)
	case len(name) > 200:
		p.add("--%s is longer than 200 bytes", flag)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		p.add("--%s: %q contains control characters", flag, name)
	}
}
