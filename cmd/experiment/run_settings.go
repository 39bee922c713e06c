package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/compare"
	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/tracking"
)

// runTable returns the settings of a run.
func runTable() []settings.Setting {
	return slices.Concat(
		[]settings.Setting{
			{Flag: "dataset", Alias: "d", Env: "EXPERIMENT_DATASET", Usage: "the dataset: its `NAME` in Langfuse, or an existing file of items (docs/items.md)"},
			{Flag: "name", Alias: "n", Env: "EXPERIMENT_NAME", Usage: "`NAME` of the run; each name can be used once"},
			{Flag: "config", Env: "EXPERIMENT_CONFIG", Usage: "read settings from the YAML file `FILE`"},
			{Flag: "resume", Switch: true, Usage: "resume the run of this name"},
			{Flag: "retry-failed", Bare: true, Usage: "resume the run of this name, and give failed items a new attempt; `[=CLASS,…]` only those of these classes"},
			{Flag: "estimate", Switch: true, Usage: "print how many items, tokens and dollars the run would take, and run nothing"},
			{Flag: "dry-run", Switch: true, Usage: "print every setting and where it comes from, and run nothing"},
		},
		settings.WithCategory("Items", []settings.Setting{
			{Flag: "limit", Env: "EXPERIMENT_LIMIT", Usage: "run at most `N` items"},
			{Flag: "item", Many: true, Usage: "run only the item `ID`; may be repeated"},
			{Flag: "filter", Env: "EXPERIMENT_FILTER", Many: true, Usage: "run only items with `metadata.K=V`; if repeated, all must hold"},
			{Flag: "trials", Env: "EXPERIMENT_TRIALS", Default: "1", Usage: "run every item `N` times: one run file, one run in Langfuse per trial"},
		}),
		settings.WithCategory("Langfuse", []settings.Setting{
			{Flag: "description", Env: "EXPERIMENT_DESCRIPTION", Usage: "describe the run in Langfuse with `TEXT`"},
			{Flag: "metadata", Many: true, Usage: "record `K=V` with the run; may be repeated"},
			{Flag: "environment", Env: "LANGFUSE_TRACING_ENVIRONMENT", Default: outcome.SpanEnvironment, Usage: "send traces and scores to the Langfuse environment `NAME`; without the flag scores go to " + outcome.ScoreEnvironment},
			{Flag: "publish-scores", Env: "EXPERIMENT_PUBLISH_SCORES", Usage: "send `all|NAME,…` scores to Langfuse besides the usual few; scores of evaluators are always sent (docs/langfuse.md)"},
			{Flag: "publish-mentions", Env: "EXPERIMENT_PUBLISH_MENTIONS", Switch: true, Usage: "also send to Langfuse, as mentions, the positions that were found by searching the text, not only those that the model gave"},
			{Flag: "verify", Env: "EXPERIMENT_VERIFY", Switch: true, Usage: "at the end, read the run back from Langfuse and compare it with the run file"},
			{Flag: "langfuse-mode", Env: settings.EnvMode, Usage: settings.ModeUsage},
		}),
		settings.WithCategory("Limits", []settings.Setting{
			{Flag: "concurrency", Alias: "c", Env: "EXPERIMENT_CONCURRENCY", Default: "4", Usage: "work on `N` items at once"},
			{Flag: "timeout", Env: "EXPERIMENT_TIMEOUT", Default: "5m", Usage: "allow each item `TIME`, such as 90s or 2m, and each request to a model half of it"},
			{Flag: "rpm", Env: "EXPERIMENT_RPM", Usage: "send at most `N` requests a minute (default: find out what the provider allows)"},
			{Flag: "tpm", Env: "EXPERIMENT_TPM", Usage: "use at most `N` tokens a minute (default: find out what the provider allows)"},
			{Flag: "retries", Env: "EXPERIMENT_RETRIES", Default: "5", Usage: "retry a failed request up to `N` times"},
			{Flag: "cache", Env: "EXPERIMENT_CACHE", Usage: "cache answers in the folder `DIR`; a cached answer costs nothing"},
			{Flag: "budget-usd", Env: "EXPERIMENT_BUDGET_USD", Usage: "stop before the run has cost more than `USD`; it can be resumed; prices: docs/models.md"},
			{Flag: "budget-tokens", Env: "EXPERIMENT_BUDGET_TOKENS", Usage: "stop before the run has used more than `N` tokens; it can be resumed"},
			{Flag: "max-failures", Env: "EXPERIMENT_MAX_FAILURES", Default: "0", Usage: "allow `N|P%` of the items to fail; exit code 4 if more do"},
			{Flag: "gate", Many: true, Usage: "check the run against `RULE|FILE`: a rule such as 'entity_f1 >= 0.7', or a YAML file of rules (docs/comparing.md); exit code 1 if one fails; may be repeated"},
			{Flag: "inconclusive", Usage: runs.InconclusiveUsage},
			{Flag: "workers", Env: "EXPERIMENT_WORKERS", Usage: "hand the items to experiment worker on other machines, through the NATS server at `ADDRESS`, such as nats://127.0.0.1:4222 (docs/workers.md)"},
			{Flag: "insecure", Switch: true, Usage: "with --workers: allow a server on another machine without TLS"},
		}),
		settings.WithCategory("Model", []settings.Setting{
			{Flag: "model", Alias: "m", Env: "EXPERIMENT_MODEL", Default: "baseline", Usage: "extract with `MODEL`; a,b makes a sweep (docs/sweeps.md), as with the other model and prompt settings"},
			{Flag: "pipeline", Env: "EXPERIMENT_PIPELINE", Usage: "extract with your own pipeline, a `PROGRAM|URL` (docs/pipeline-protocol.md)"},
			{Flag: "record", Env: "EXPERIMENT_RECORD", Usage: "record every exchange with the model in `FILE`; --model recorded/FILE replays it"},
			{Flag: "prompt", Env: "EXPERIMENT_PROMPT", Usage: "use the Langfuse prompt `NAME` (default for a model: extraction)"},
			{Flag: "prompt-label", Env: "EXPERIMENT_PROMPT_LABEL", Usage: "use the version of the prompt that has `LABEL` (default: production)"},
			{Flag: "prompt-version", Env: "EXPERIMENT_PROMPT_VERSION", Usage: "use version `N` of the prompt"},
			{Flag: "prompt-file", Env: "EXPERIMENT_PROMPT_FILE", Usage: "use the prompt in `FILE` (text, or JSON messages); it is pushed as a new version if no version has this text"},
			{Flag: "var", Many: true, Usage: "fill {{NAME}} in the prompt from the item: `NAME=PATH`, such as title=input.title; may be repeated"},
			{Flag: "two-stages", Env: "EXPERIMENT_TWO_STAGES", Switch: true, Usage: "ask the model first for entities, then for the relationships between them"},
			{Flag: "temperature", Env: "EXPERIMENT_TEMPERATURE", Usage: "sampling temperature `T`; 0 is sent as 0"},
			{Flag: "top-p", Env: "EXPERIMENT_TOP_P", Usage: "nucleus sampling with probability `P`"},
			{Flag: "max-tokens", Env: "EXPERIMENT_MAX_TOKENS", Usage: "allow at most `N` tokens in an answer"},
			{Flag: "seed", Env: "EXPERIMENT_SEED", Usage: "seed `N` of the model's sampling"},
		}),
		settings.WithCategory("Output", []settings.Setting{
			{Flag: "output", Alias: "o", Env: "EXPERIMENT_OUTPUT", Usage: "also write the run as JSONL to `FILE`"},
			{Flag: "html", Usage: "for a sweep: also write the leaderboard to `FILE`, as a web page"},
			{Flag: "json", Switch: true, Usage: "print the summary as one JSON object on standard output"},
			{Flag: "quiet", Alias: "q", Env: "EXPERIMENT_QUIET", Switch: true, Usage: "print no progress and no summary"},
			{Flag: "log-level", Env: "EXPERIMENT_LOG_LEVEL", Default: "warn", Usage: "log at `LEVEL`: debug, info, warn or error"},
			{Flag: "log-format", Env: "EXPERIMENT_LOG_FORMAT", Default: "text", Usage: "log in `FORMAT`: text or json"},
		}),
	)
}

// maxTrials is the largest value of --trials: each trial is a run of its own in Langfuse.
const maxTrials = 100

// runConfig holds the parsed settings of a run.
type runConfig struct {
	experiment.Config          // for the engine; session.engine completes it
	generatedName       string // the generated --name, if the user gave none
	system              system.Config
	workers             system.WorkersServer // without an address this process runs the items
	concurrencyGiven    bool                 // by the flag
	allowance           experiment.FailureLimit
	gate                compare.Gate
	langfuseMode        string
	logLevel, logFormat string
	sweepRun            bool // a run of a sweep; the sweep prints the report
	output              string
	report              bool   // output is a report of answers instead of JSONL
	html                string // path of the page with the leaderboard of the sweep

	json, quiet, estimate bool
}

// readRun parses the settings of a run. scores holds the names of the scores that the run will
// have.
func readRun(p *settings.Problems, s settings.Values, scores []string) runConfig {
	cfg := readCommon(p, s, harness.Name, scores)
	p.Add(cfg.estimate && cfg.Resume, "--estimate is about a whole run, not about the rest of one: leave out --resume")
	p.Add(cfg.Dataset == "",
		"--dataset is missing: name a dataset in Langfuse or a file of items; extraction-eval is the built-in one")
	p.Add(cfg.Header.Name == "" && !cfg.estimate, "--name is missing: give the run a name, such as baseline-v1")
	settings.CheckRunName(p, "name", cfg.Header.Name)
	return cfg
}

// readCommon parses the settings that runs of all harnesses have.
func readCommon(p *settings.Problems, s settings.Values, harness string, scores []string) runConfig {
	cfg := runConfig{system: system.Read(p, s), output: s.Text("output"), html: s.Text("html"),
		langfuseMode: s.Text("langfuse-mode"), logLevel: s.Text("log-level"), logFormat: s.Text("log-format")}
	cfg.Dataset, cfg.Concurrency = s.Text("dataset"), p.Count("concurrency", s.Text("concurrency"), 1, 1000)
	cfg.Header = outcome.Header{
		Name: s.Text("name"), Harness: harness, Trials: p.Count("trials", s.Text("trials"), 1, maxTrials),
		Description: s.Text("description"), Environment: s.Text("environment"),
	}
	cfg.Timeout = p.Duration("timeout", s.Text("timeout"))
	cfg.Header.Metadata = p.Pairs("metadata", s.All("metadata"))
	cfg.Resume, cfg.Verify = p.Switch(s, "resume"), p.Switch(s, "verify")
	cfg.json, cfg.quiet, cfg.estimate = p.Switch(s, "json"), p.Switch(s, "quiet"), p.Switch(s, "estimate")
	if text := s.Text("retry-failed"); text != "" && text != "false" {
		cfg.Retry, cfg.Resume, cfg.system.Resume = true, true, true
		cfg.RetryClasses = readClasses(p, text)
	}
	cfg.system.Limits.Timeout, cfg.system.Limits.Concurrency = cfg.Timeout, cfg.Concurrency
	cfg.concurrencyGiven = s["concurrency"].From == settings.FromFlag
	cfg.workers = system.WorkersServer{Address: s.Text("workers"), Insecure: p.Switch(s, "insecure")}
	if cfg.workers.Address != "" {
		cfg.system.Limits.Concurrency, cfg.system.NoKey = system.MostCalls, true
		p.Add(cfg.system.Record != "" || cfg.system.Limits.Cache != "",
			"--workers: the workers ask the model: leave --record out, and give --cache to them")
	}
	_, err := settings.NewLog(io.Discard, cfg.logLevel, cfg.logFormat)
	p.Join(err)
	_, err = langfuse.ParseMode(cfg.langfuseMode)
	p.Add(err != nil, "--langfuse-mode: %v", err)
	readPublication(p, s, &cfg, scores)
	cfg.checkOutput(p, "output", cfg.Dataset)
	filter, err := dataset.ParseFilter(s.All("filter")...)
	p.Add(err != nil, "--%w", err) // it begins with filter
	cfg.Filter = filter.WithIDs(s.All("item")...)
	cfg.Filter.Limit = p.Optional("limit", s.Text("limit"), 1, 1<<31-1)
	cfg.allowance, err = experiment.ParseFailureLimit(s.Text("max-failures"))
	p.Add(err != nil, "--max-failures: %v", err)
	// A run does not use the metric of its files.
	if cfg.gate, _, err = runs.ReadGate(s.All("gate"), outcome.ErrorScore, s.Text("inconclusive")); err == nil {
		err = cfg.gate.CheckRun(scores) // checked before the run costs anything
	}
	for _, err := range cli.Unjoin(err) {
		format := "--gate: %w"
		if s.Text("inconclusive") != "" && strings.HasPrefix(err.Error(), "inconclusive: ") {
			format = "--%w"
		}
		p.Add(true, format, err)
	}
	return cfg
}

// checkOutput adds a problem if the output, the value of flag, cannot be written or would replace a
// file of read.
func (c *runConfig) checkOutput(p *settings.Problems, flag string, read ...string) {
	p.Join(cmp.Or(cli.CanWrite(c.system.Record), runs.CheckOutputs(c.output, c.system.Record)))
	switch {
	case c.output == "-" && c.report:
		p.Add(true, "--%s - is not a file: --json prints the report on standard output", flag)
	case c.output == "-" && (c.json || !c.quiet):
		p.Add(true, "--%s -: standard output has the summary; add --quiet, or name a file", flag)
	case c.report:
		p.Join(runs.CanWrite(c.output, read...))
	case c.output != "-":
		p.Join(runs.CanExport(c.output, read...))
	}
}

// readPublication parses what is recorded in Langfuse and how. A resumed run keeps settings that
// are not given.
func readPublication(p *settings.Problems, s settings.Values, cfg *runConfig, scores []string) {
	h := &cfg.Header
	p.Add(h.Environment == "" || !langfuse.ValidEnvironment(h.Environment),
		"--environment: %q is not accepted by Langfuse: use up to 40 of a-z, 0-9, - and _, not beginning with langfuse",
		h.Environment)
	h.Publication = outcome.Publication{
		Form: outcome.PublicationForm, ScoreEnvironment: scoreEnvironment(s),
		Scores: readPublishScores(p, s.Text("publish-scores"), scores), Mentions: p.Switch(s, "publish-mentions"),
	}
	for _, key := range tracking.FixedKeys() {
		_, taken := h.Metadata[key]
		p.Add(taken, "--metadata: the key %q is recorded with every run and cannot be set", key)
	}
	cfg.Keep = experiment.Keep{Description: h.Description == "", Metadata: len(h.Metadata) == 0,
		Environment: s["environment"].From == settings.FromDefault}
}

// readClasses parses classes of failure. It returns nil for all classes, written "true" or
// "all".
func readClasses(p *settings.Problems, text string) []outcome.Class {
	if text == "true" || text == "all" {
		return nil
	}
	var classes []outcome.Class
	for _, word := range splitList([]string{text}) {
		class := outcome.Class(word)
		if !slices.Contains(outcome.Classes(), class) {
			p.Add(true, "--retry-failed: %q is not a class of failure; there are: %s",
				word, strings.Trim(fmt.Sprint(outcome.Classes()), "[]"))
			continue
		}
		classes = append(classes, class)
	}
	return classes
}

// readPublishScores parses the scores that are sent to Langfuse in addition to the default ones.
// known holds the scores that the run will have. Without text there are none: nil.
func readPublishScores(p *settings.Problems, text string, known []string) []string {
	if text == "" {
		return nil
	}
	names := slices.DeleteFunc(splitList([]string{text}), func(name string) bool { return name == "" })
	for _, name := range names {
		p.Add(name != outcome.AllScores && !slices.Contains(known, name),
			"--publish-scores: there is no score %q; there are: %s, and %s of them%s",
			name, strings.Join(known, ", "), outcome.AllScores, textutil.Hint(name, known))
	}
	slices.Sort(names)
	if slices.Contains(names, outcome.AllScores) {
		return []string{outcome.AllScores}
	}
	return slices.Compact(names)
}

// scoreEnvironment returns the environment for scores. An environment that is given is for
// traces and scores.
func scoreEnvironment(s settings.Values) string {
	if s["environment"].From == settings.FromDefault {
		return outcome.ScoreEnvironment
	}
	return s.Text("environment")
}
