package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/wholefile"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/chunk"
	"extraction-experiment/pipeline/prompt"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/pipeline/provider/external"
	"extraction-experiment/pipeline/provider/recorded"
	"extraction-experiment/scoring"
	"extraction-experiment/tracking"
)

// system is what is measured: an extractor, described for the run's header.
type system struct {
	extractor pipeline.Extractor
	header    outcome.System
	close     func() error
	asks      asker
	// reached reports whether a team's own system ever answered; nil where that
	// is not known.
	reached func() bool
	notes   []string // what a person should know before it begins
}

// measured is the system as the engine takes it.
func (s *system) measured(task experiment.Task, judge experiment.Scorer) experiment.System {
	reached := s.reached
	if reached == nil && s.asks.remote != nil {
		reached = func() bool { return pipeline.Reached(s.asks.remote) }
	}
	return experiment.System{
		Task: task, Scorer: judge, Header: s.header, Notes: s.notes, Spent: s.asks.spent(), Reached: reached, Close: s.close,
	}
}

// asked says in words who is.
func (s system) asked() string {
	if s.reached != nil {
		return "the service"
	}
	return "the model"
}

// openSystem opens the extractor that the settings name: a team's own
// pipeline, one that needs no model, or a model with its prompt.
func openSystem(ctx context.Context, lf *connect.Langfuse, cfg systemConfig, concurrency int, getenv func(string) string) (system, error) {
	cfg.limits.concurrency, cfg.limits.getenv = concurrency, getenv
	if cfg.pipeline != "" {
		return openPipeline(cfg, concurrency, getenv)
	}
	known, err := readCatalogue(getenv)
	if err != nil {
		return system{}, err
	}
	if cfg.modelGiven { // a mistake in the model is found before a prompt is pushed
		opened, err := provider.Open(cfg.model, known.providerConfig(getenv))
		if err != nil {
			return system{}, withCode(err)
		}
		if err := opened.Close(); err != nil {
			return system{}, err
		}
	}
	var template prompt.Template
	var pin outcome.Prompt
	var notes []string
	if cfg.asksPrompt() || cfg.modelGiven && !isBaseline(cfg.model) {
		if template, pin, err = findPrompt(ctx, lf, cfg); err != nil {
			return system{}, err
		}
		if notes, err = cfg.fillFrom(template); err != nil {
			return system{}, err
		}
	}
	opened, err := provider.Open(cfg.model, known.providerConfig(getenv))
	if err != nil {
		return system{}, withCode(err)
	}
	if opened.Extractor != nil {
		if cfg.asksPrompt() || cfg.parameters != (pipeline.Parameters{}) || cfg.record != "" || cfg.twoStages || len(cfg.vars) > 0 || cfg.limits.limited() {
			refused := cli.Usage("the %s reads no prompt, has no temperature and the like, and nothing to record: name a model with --model", opened.Info.Model)
			return system{}, errors.Join(refused, opened.Close())
		}
		return system{extractor: opened.Extractor, header: describe(opened.Info, cfg, pin), close: opened.Close, notes: notes}, nil
	}
	made, err := overModel(opened, known, template, pin, cfg)
	made.notes = notes
	return made, err
}

// overModel puts the pipeline over a model that is priced, and recorded where
// that is asked for.
func overModel(opened provider.Opened, known catalogue, template prompt.Template, pin outcome.Prompt, cfg systemConfig) (system, error) {
	var asks asker
	var err error
	if cfg.estimator != nil { // no folder of answers is made, no recording begun
		asks, cfg.record = asker{Model: cfg.estimator}, ""
	} else if asks, err = within(opened, known, cfg.limits); err != nil {
		return system{}, errors.Join(withCode(err), opened.Close())
	}
	config := pipeline.Config{
		Model: asks, Name: opened.Info.Model, Provider: opened.Provider,
		Prompt: template, Vars: cfg.vars, Parameters: cfg.parameters, Capabilities: opened.Capabilities,
		TwoStages: cfg.twoStages, Schema: cfg.schema, Placeholders: cfg.placeholders,
		Vocabulary: chunk.Vocabulary(scoring.SpecificationVocabulary()),
	}
	extractor, err := pipeline.New(config)
	if err != nil {
		return system{}, errors.Join(cli.Errorf(cli.ExitUsage, "model %s: %w", opened.Info.Model, err), opened.Close())
	}
	opened.Pipeline = pipelineName(opened.Info, cfg)
	header := describe(opened.Info, cfg, pin)
	if cfg.record == "" {
		return system{extractor: extractor, header: header, close: opened.Close, asks: asks}, nil
	}
	begin := recorded.Create
	if cfg.resume {
		begin = recorded.Continue
	}
	tape, err := begin(cfg.record, recorded.Source{Provider: opened.Provider, Model: opened.Info.Model})
	if err != nil {
		return system{}, errors.Join(err, opened.Close())
	}
	end := func() error { return errors.Join(tape.Close(), opened.Close()) }
	config.Model = recorded.Record(config.Model, tape)
	if extractor, err = pipeline.New(config); err != nil {
		return system{}, errors.Join(err, end())
	}
	return system{extractor: extractor, header: header, close: end, asks: asks}, nil
}

func openPipeline(cfg systemConfig, concurrency int, getenv func(string) string) (system, error) {
	if cfg.modelGiven && isBaseline(cfg.model) {
		return system{}, cli.Usage("--model baseline and --pipeline cannot both be measured in one run")
	}
	model := ""
	if cfg.modelGiven {
		model = cfg.model
	}
	extractor, err := external.New(external.Config{
		Target: cfg.pipeline, Concurrency: concurrency, Model: model, Parameters: cfg.parameters, Stderr: newPlain(os.Stderr),
		Token: getenv(envPipelineToken),
	})
	if err != nil {
		return system{}, err
	}
	header := describe(provider.Info{Provider: external.Name, Model: model, Pipeline: extractor.Target()}, cfg, outcome.Prompt{})
	if model == "" {
		header.Model = external.Name
	}
	return system{extractor: extractor, header: header, close: extractor.Close, reached: extractor.Reached}, nil
}

// envPipelineToken is sent to a pipeline's address as a bearer token.
const envPipelineToken = "EXPERIMENT_PIPELINE_TOKEN"

// pipelineName describes how the model is asked, so that runs that ask in
// another way are told apart, and are not resumed as one.
func pipelineName(info provider.Info, cfg systemConfig) string {
	parts := []string{"ask@1"}
	if info.Pipeline != "" {
		parts = []string{info.Pipeline}
	}
	if cfg.twoStages {
		parts = append(parts, "two-stages")
	}
	for _, v := range cfg.vars {
		parts = append(parts, "var:"+v.Name+"="+v.Path)
	}
	return strings.Join(parts, " ")
}

func describe(info provider.Info, cfg systemConfig, pin outcome.Prompt) outcome.System {
	return outcome.System{
		Model: info.Model, Provider: info.Provider, Pipeline: info.Pipeline, Prompt: pin,
		Temperature: cfg.parameters.Temperature, TopP: cfg.parameters.TopP,
		MaxTokens: cfg.parameters.MaxTokens, Seed: cfg.parameters.Seed,
	}
}

// findPrompt fetches the prompt that is asked for, or pushes the file.
func findPrompt(ctx context.Context, lf *connect.Langfuse, cfg systemConfig) (prompt.Template, outcome.Prompt, error) {
	ref := cfg.prompt
	if ref.Name == "" {
		ref.Name = prompt.DefaultName
	}
	if cfg.promptFile != "" {
		template, err := readPrompt(ctx, cfg.promptFile, func(t prompt.Template) error { return t.Check(cfg.vars, nil) })
		if err != nil {
			return prompt.Template{}, outcome.Prompt{}, err
		}
		if cfg.estimator != nil {
			return template, outcome.Prompt{}, nil
		}
		return tracking.PushPrompt(ctx, lf.Client, ref.Name, template)
	}
	return fetchPrompt(ctx, lf, ref, promptFromFile)
}

// promptFromFile is how else a run comes to a prompt.
const promptFromFile = "--prompt-file FILE makes one"

// fetchPrompt finds a prompt in Langfuse; without label and version, that of
// production. otherwise tells a person what to do where there is none.
func fetchPrompt(ctx context.Context, lf *connect.Langfuse, ref langfuse.PromptRef, otherwise string) (prompt.Template, outcome.Prompt, error) {
	if ref.Label == "" && ref.Version == 0 {
		ref.Label = "production"
	}
	template, pin, err := tracking.FindPrompt(ctx, lf.Client, ref)
	if errors.Is(err, langfuse.ErrNotFound) {
		there, missing := promptCall{ctx: ctx, client: lf.Client}.findPromptName(ref.Name)
		if missing == nil {
			missing = lacks(there, ref)
		}
		return template, pin, fmt.Errorf("%w; %s", missing, otherwise)
	}
	return template, pin, err
}

// readPrompt reads a prompt from a file: messages where it ends in .json, else
// a text. check says whether it can be used.
func readPrompt(ctx context.Context, path string, check func(prompt.Template) error) (prompt.Template, error) {
	raw, err := wholefile.Read(ctx, path, wholefile.MaxText)
	if err != nil {
		return prompt.Template{}, cli.Usage("reading the prompt: %w", err)
	}
	template := prompt.ParseText(string(raw))
	if strings.EqualFold(filepath.Ext(path), ".json") {
		if template, err = prompt.ParseChat(raw); err != nil {
			return template, cli.Usage("reading %s: %w", path, err)
		}
	}
	if err := check(template); err != nil {
		return template, cli.Usage("%s: %w", path, err)
	}
	return template, nil
}

func isBaseline(model string) bool { return strings.EqualFold(strings.TrimSpace(model), "baseline") }
