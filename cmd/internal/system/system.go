// Package system opens what an experiment measures: a team's pipeline, an extractor,
// or a model with its prompt, within limits, budget and cache; the evaluators that judge
// it; and the workers that carry a run out on other machines.
package system

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/scoring"
)

// Opener opens systems. All fields are needed.
type Opener struct {
	Langfuse *experiment.Langfuse
	Getenv   func(string) string
	Stderr   io.Writer // what programs write to their standard error
}

// System is what is measured: an extractor, described for the run's header.
type System struct {
	Extractor pipeline.Extractor
	Header    outcome.System
	Close     func() error
	Asks      Model
	Notes     []string // what a person should know before it begins
	// Workers says in words who carries out its task on other machines; nil: this one does.
	Workers func() string
	// Definition is what a worker on another machine is told of it.
	Definition Definition
	// reached reports whether a team's own system ever answered; nil where that
	// is not known.
	reached func() bool
}

// Measured is the system as the engine takes it.
func (s *System) Measured(task experiment.Task, judge experiment.Scorer) experiment.System {
	reached := s.reached
	if reached == nil && s.Asks.remote != nil {
		reached = func() bool { return pipeline.Reached(s.Asks.remote) }
	}
	return experiment.System{
		Task: task, Scorer: judge, Header: s.Header, Notes: s.Notes, Spent: s.Asks.spent(), Reached: reached, Close: s.Close,
	}
}

// Open opens the extractor that a Config names.
func (o Opener) Open(ctx context.Context, cfg Config) (System, error) {
	if cfg.Pipeline != "" {
		return o.openPipeline(cfg)
	}
	if cfg.ModelGiven { // a mistake in the model is found before a prompt is pushed
		if _, _, err := o.openModel(cfg.Model); err != nil {
			return System{}, err
		}
	}
	var err error
	var template pipeline.Template
	var pin outcome.Prompt
	var notes []string
	if cfg.AsksPrompt() || cfg.ModelGiven && !IsBaseline(cfg.Model) {
		check := func(t pipeline.Template) error { return t.Check(cfg.Vars, nil) }
		if template, pin, err = o.findPrompt(ctx, cfg, pipeline.DefaultPromptName, check); err != nil {
			return System{}, err
		}
		if notes, err = cfg.fillFrom(template); err != nil {
			return System{}, err
		}
	}
	opened, known, err := o.openModel(cfg.Model)
	if err != nil {
		return System{}, err
	}
	if opened.Extractor != nil {
		if cfg.AsksPrompt() || cfg.Parameters != (pipeline.Parameters{}) || cfg.Record != "" || cfg.TwoStages || len(cfg.Vars) > 0 || cfg.Limits.Limited() {
			return System{}, cli.Usage("the %s reads no prompt, has no temperature and the like, and nothing to record: name a model with --model", opened.Info.Model)
		}
		return System{Extractor: opened.Extractor, Header: describe(opened, cfg, pin), Close: nothing, Notes: notes, Definition: cfg.definition(template)}, nil
	}
	made, err := o.overModel(opened, known, template, pin, cfg)
	made.Notes, made.Definition = notes, cfg.definition(template)
	return made, err
}

// overModel puts the pipeline over a model that is priced, and recorded where
// that is asked for.
func (o Opener) overModel(opened provider.Opened, known Catalogue, template pipeline.Template, pin outcome.Prompt, cfg Config) (System, error) {
	var asks Model
	var err error
	if cfg.Estimator != nil { // no folder of answers is made, no recording begun
		asks, cfg.Record = Model{Model: cfg.Estimator}, ""
	} else if asks, err = o.within(opened, known, cfg.Limits); err != nil {
		return System{}, refused(err)
	}
	config := pipeline.Config{
		Model: asks.Model, Name: opened.Info.Model, Provider: opened.Provider,
		Prompt: template, Vars: cfg.Vars, Parameters: cfg.Parameters, Capabilities: opened.Capabilities,
		TwoStages: cfg.TwoStages, Schema: cfg.Schema, Placeholders: cfg.Placeholders,
		Vocabulary: pipeline.Vocabulary(scoring.SpecificationVocabulary()),
	}
	opened.Pipeline = pipelineName(opened.Info, cfg)
	s := System{Header: describe(opened, cfg, pin), Close: asks.closing, Asks: asks}
	if s.Extractor, err = pipeline.New(config); err != nil {
		return System{}, cli.Errorf(cli.ExitUsage, "model %s: %w", opened.Info.Model, err)
	}
	if cfg.Record == "" {
		return s, nil
	}
	begin := provider.CreateTape
	if cfg.Resume {
		begin = provider.ContinueTape
	}
	tape, err := begin(cfg.Record, provider.Recording{Provider: opened.Provider, Model: opened.Info.Model})
	if err != nil {
		return System{}, err
	}
	s.Close = func() error { return errors.Join(tape.Close(), asks.closing()) }
	config.Model = provider.Record(config.Model, tape)
	s.Extractor, err = pipeline.New(config) // which was found right above
	return s, err
}

// openModel opens what a name of --model stands for.
func (o Opener) openModel(name string) (opened provider.Opened, known Catalogue, err error) {
	if known, err = ReadCatalogue(o.Getenv); err == nil {
		opened, err = provider.Open(name, known.ProviderConfig(o.Getenv))
	}
	return opened, known, refused(err)
}

// openExternal opens a team's own program or address, with the model that it is handed on;
// maxAnswer bounds its answers, 0 is the usual bound.
func (o Opener) openExternal(target, model string, cfg Config, maxAnswer int) (*provider.External, System, error) {
	asks, err := provider.NewExternal(provider.ExternalConfig{
		Target: target, Concurrency: cfg.Limits.Concurrency, Stderr: &harmless{to: o.Stderr}, Token: o.Getenv(EnvPipelineToken),
		MaxAnswer: maxAnswer, Model: model, Parameters: cfg.Parameters,
	})
	if err != nil {
		return nil, System{}, err
	}
	info := provider.Info{Provider: provider.ExternalName, Model: cmp.Or(model, provider.ExternalName), Pipeline: asks.Target()}
	header := describe(provider.Opened{Info: info}, cfg, outcome.Prompt{})
	return asks, System{Header: header, Close: asks.Close, reached: asks.Reached}, nil
}

func (o Opener) openPipeline(cfg Config) (System, error) {
	model := ""
	if cfg.ModelGiven {
		model = cfg.Model
	}
	extractor, s, err := o.openExternal(cfg.Pipeline, model, cfg, 0)
	if err != nil {
		return s, err
	}
	s.Extractor, s.Definition = extractor, cfg.definition(pipeline.Template{})
	s.Definition.Model = model
	return s, nil
}

// EnvPipelineToken is sent to a pipeline's address as a bearer token.
const EnvPipelineToken = "EXPERIMENT_PIPELINE_TOKEN"

// pipelineName describes how the model is asked, so that runs that ask in
// another way are told apart, and are not resumed as one.
func pipelineName(info provider.Info, cfg Config) string {
	parts := []string{cmp.Or(info.Pipeline, "ask@2")}
	if cfg.TwoStages {
		parts = append(parts, "two-stages")
	}
	for _, v := range cfg.Vars {
		parts = append(parts, "var:"+v.Name+"="+v.Path)
	}
	return strings.Join(parts, " ")
}

// describe is a system as the header of a run has it.
func describe(opened provider.Opened, cfg Config, pin outcome.Prompt) outcome.System {
	return outcome.System{
		Model: opened.Info.Model, Provider: opened.Provider, Pipeline: opened.Pipeline, Prompt: pin,
		Temperature: cfg.Parameters.Temperature, TopP: cfg.Parameters.TopP,
		MaxTokens: cfg.Parameters.MaxTokens, Seed: cfg.Parameters.Seed,
		Endpoint: endpointOf(opened),
	}
}

// refused gives a refused configuration exit code 64 where it has none.
func refused(err error) error { return cli.WithCode(cli.ExitUsage, err) }

// harmless passes on what a team's program writes to standard error in whole lines, so that it
// cannot steer a terminal; of a line that it wrote over, as progress bars do, the last state.
// One write at a time.
type harmless struct {
	to   io.Writer
	kept []byte // a line that has not ended
}

// mostKept is how long a line may be that has not ended.
const mostKept = 4 << 10

func (h *harmless) Write(text []byte) (int, error) {
	h.kept = append(h.kept, text...)
	end := bytes.LastIndexByte(h.kept, '\n') + 1
	var whole []byte
	for line := range bytes.Lines(h.kept[:end]) {
		whole = append(append(whole, lastState(bytes.TrimRight(line, "\r\n"))...), '\n')
	}
	if h.kept = bytes.Clone(lastState(h.kept[end:])); len(h.kept) > mostKept {
		whole, h.kept = append(append(whole, h.kept...), '\n'), nil
	}
	if len(whole) == 0 {
		return len(text), nil
	}
	_, err := io.WriteString(h.to, textutil.Block(string(whole)))
	return len(text), err
}

// lastState is what a terminal shows of a line.
func lastState(line []byte) []byte { return line[bytes.LastIndexByte(line, '\r')+1:] }

// OpenModel opens a model alone, within its limits; Asks.Model is nil of an extractor
// that needs none.
func (o Opener) OpenModel(cfg Config) (System, error) {
	opened, known, err := o.openModel(cfg.Model)
	if err != nil {
		return System{}, err
	}
	s := System{Extractor: opened.Extractor, Header: describe(opened, cfg, outcome.Prompt{}), Close: nothing}
	if opened.Model != nil {
		s.Asks, err = o.within(opened, known, cfg.Limits)
	}
	return s, refused(err)
}
