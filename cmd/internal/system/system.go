// Package system opens the system that an experiment measures: a team's pipeline, an
// extractor, or a model with its prompt, limits, budget and cache. It also opens the
// evaluators that judge the system and the workers that do a run's tasks on other machines.
package system

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	benches "extraction-experiment/bench"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/scoring"
	"extraction-experiment/tracking"
)

// Opener opens systems. Langfuse is needed for prompts. Stderr of the environment receives the standard error
// of programs.
type Opener struct {
	cli.Env
	Langfuse *settings.Langfuse
}

// System is an opened system: an extractor with its description for the run's header.
type System struct {
	Extractor pipeline.Extractor
	Header    outcome.System
	Close     func() error
	Model     Model
	Notes     []string // for the user, before the run begins
	// Workers describes the machines that work on the run; nil if only this process does.
	Workers func() string
	// Definition describes the system to workers on other machines.
	Definition Definition
	// Capabilities are those of Model.
	Capabilities pipeline.Capabilities
	// reached reports whether a team's own system ever answered; nil if that is unknown.
	reached func() bool
}

// Push stores the prompt of cfg.PromptFile as a new version if no version has its text. Call it
// before Measured, when nothing can be refused any more.
func (o Opener) Push(ctx context.Context, cfg Config, s *System) (err error) {
	if pin := s.Header.Prompt; cfg.PromptFile != "" && cfg.Began == nil && pin.Version == 0 {
		template := pipeline.Template{Messages: s.Definition.Prompt}
		s.Header.Prompt, err = tracking.PushPrompt(ctx, o.Langfuse.Client, pin.Name, template)
	}
	return err
}

// Measured returns the system for the engine, with its task and scorer.
func (s *System) Measured(task experiment.Task, judge experiment.Scorer) experiment.System {
	reached := s.reached
	if reached == nil && s.Model.remote != nil {
		reached = func() bool { return pipeline.Reached(s.Model.remote) }
	}
	return experiment.System{
		Task: task, Scorer: judge, Header: s.Header, Notes: s.Notes, Spent: s.Model.restoreSpent(), Reached: reached,
		Close: s.Close,
	}
}

// Open opens the extractor that a Config names.
func (o Opener) Open(ctx context.Context, cfg Config) (System, error) {
	if cfg.Pipeline != "" {
		return o.openPipeline(cfg)
	}
	var err error
	var template pipeline.Template
	var pin outcome.Prompt
	var notes []string
	if cfg.HasPrompt() || cfg.ModelGiven && !IsBaseline(cfg.Model) {
		if template, pin, err = o.findPrompt(ctx, cfg, pipeline.DefaultPromptName); err != nil {
			return System{}, err
		}
		if notes, err = cfg.fillFrom(template); err != nil {
			return System{}, err
		}
	}
	s, err := o.openExtractor(cfg, template, pin)
	if err == nil && s.Model.Model == nil && cfg.needsModel() {
		return System{}, errNeedsModel
	}
	s.Notes, s.Definition = notes, cfg.definition(template)
	return s, err
}

// openExtractor opens an extractor that needs no model, or one that asks the model with a prompt, within limits,
// and records the answers if cfg.Record is set.
func (o Opener) openExtractor(cfg Config, template pipeline.Template, pin outcome.Prompt) (System, error) {
	s, err := o.openLimited(cfg)
	if s.Header.Prompt = pin; err != nil || s.Extractor != nil {
		return s, err
	}
	s.Header.Pipeline, s.Close = pipelineName(s.Header.Pipeline, cfg), s.Model.saveWindow
	config := pipeline.Config{
		Model: s.Model.Model, Name: s.Header.Model, Provider: s.Header.Provider,
		Prompt: template, Vars: cfg.Vars, Parameters: cfg.Parameters, Capabilities: s.Capabilities,
		TwoStages: cfg.TwoStages, Schema: cfg.Schema, Placeholders: cfg.Placeholders,
		Vocabulary: scoring.SpecificationVocabulary(),
	}
	if s.Extractor, err = pipeline.New(config); err != nil {
		return System{}, cli.Usage("model %s: %w%s", s.Header.Model, err, cfg.promptSets)
	}
	if cfg.Record == "" || cfg.Estimator != nil {
		return s, nil
	}
	openTape := provider.CreateTape
	if cfg.Resume {
		openTape = provider.ContinueTape
	}
	tape, err := openTape(cfg.Record, provider.Recording{Provider: s.Header.Provider, Model: s.Header.Model})
	if err != nil {
		return System{}, err
	}
	s.Close = func() error { return errors.Join(tape.Close(), s.Model.saveWindow()) }
	config.Model = provider.Record(config.Model, tape)
	s.Extractor, err = pipeline.New(config)
	return s, err
}

// openLimited opens the model or extractor of a Config, a model within its limits. An Estimator needs none, and
// writes no cache.
func (o Opener) openLimited(cfg Config) (System, error) {
	opened, known, err := o.openModel(cfg)
	if err != nil {
		return System{}, err
	}
	s := System{Extractor: opened.Extractor, Capabilities: opened.Capabilities, Close: noClose, Header: outcome.System{
		Model: opened.Info.Model, Provider: opened.Provider, Pipeline: opened.Pipeline,
		Parameters: cfg.Parameters, Endpoint: endpointOf(opened),
	}}
	switch {
	case opened.Model == nil:
	case cfg.Estimator != nil:
		s.Model.Model = cfg.Estimator
	default:
		s.Model, err = o.withLimits(opened, known, cfg.Limits)
	}
	return s, usageError(err)
}

// openModel opens the model or extractor of a Config.
func (o Opener) openModel(cfg Config) (opened provider.Opened, known Catalogue, err error) {
	if known, err = ReadCatalogue(o.Getenv); err == nil {
		config := known.ProviderConfig(o.Getenv)
		config.NoKey = cfg.NoKey
		opened, err = provider.Open(cfg.Model, config)
	}
	return opened, known, usageError(err)
}

// openExternal opens a team's own program or address, which receives the name of a model.
// maxAnswer bounds its answers in bytes; 0 is the default bound.
func (o Opener) openExternal(target, model string, cfg Config, maxAnswer int) (*provider.External, System, error) {
	messages := &lineWriter{out: o.Stderr}
	external, err := provider.NewExternal(provider.ExternalConfig{
		Target: target, Concurrency: cfg.Limits.Concurrency, Stderr: messages,
		Token:     o.Getenv(EnvPipelineToken),
		MaxAnswer: maxAnswer, Model: model, Parameters: cfg.Parameters,
	})
	if err != nil {
		return nil, System{}, err
	}
	header := outcome.System{Model: cmp.Or(model, provider.ExternalName), Provider: provider.ExternalName,
		Pipeline: external.Target(), Parameters: cfg.Parameters}
	closeAll := func() error {
		defer messages.end()
		return external.Close()
	}
	return external, System{Header: header, Close: closeAll, reached: external.Reached}, nil
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

// EnvPipelineToken names the variable of the bearer token for a pipeline's address.
const EnvPipelineToken = "EXPERIMENT_PIPELINE_TOKEN"

// pipelineName describes how the model is asked; recording is the name of a recording, or empty. A run that asks
// in another way has another name, and does not resume this one.
func pipelineName(recording string, cfg Config) string {
	parts := []string{cmp.Or(recording, "ask@2")}
	if cfg.TwoStages {
		parts = append(parts, "two-stages")
	}
	for _, v := range cfg.Vars {
		parts = append(parts, "var:"+v.Name+"="+v.Path)
	}
	return strings.Join(parts, " ")
}

// usageError gives an error without an exit code the exit code 64.
func usageError(err error) error { return cli.WithCode(cli.ExitUsage, err) }

// lineWriter writes the standard error of a team's program in whole, escaped lines, so that
// it cannot steer a terminal. Of a line that the program overwrites, as a progress bar does,
// it writes the last state. It is not safe for concurrent use.
type lineWriter struct {
	out     io.Writer
	pending []byte // a line that has not ended
}

// maxPending is the length in bytes from which an unfinished line is written.
const maxPending = 4 << 10

// overwritten matches what a carriage return overwrites, and the first character of what follows.
var overwritten = textutil.Pattern(`[^\n]*\r([^\r\n])`)

func (h *lineWriter) Write(text []byte) (int, error) {
	h.pending = overwritten().ReplaceAll(append(h.pending, text...), []byte("$1"))
	end := bytes.LastIndexByte(h.pending, '\n') + 1
	if end == 0 && len(h.pending) > maxPending {
		h.pending = append(h.pending, '\n')
		end = len(h.pending)
	}
	whole := strings.ReplaceAll(string(h.pending[:end]), "\r\n", "\n")
	h.pending = bytes.Clone(h.pending[end:])
	_, err := io.WriteString(h.out, textutil.Block(whole))
	return len(text), err
}

// end writes a line that has not ended. Call it when the program has ended.
func (h *lineWriter) end() {
	if len(h.pending) > 0 {
		_, _ = h.Write([]byte("\n")) // a message that cannot be shown stops nothing
	}
}

// OpenModel opens a model with its limits and without a prompt. Model.Model is nil for an
// extractor that needs no model. It refuses parameters that the model does not accept.
func (o Opener) OpenModel(cfg Config) (System, error) {
	s, err := o.openLimited(cfg)
	if err == nil && s.Model.Model != nil {
		probe := pipeline.Request{Messages: []pipeline.Message{{Role: pipeline.RoleUser}}, Parameters: cfg.Parameters}
		if err = s.Capabilities.Check(probe); err != nil {
			err = cli.Usage("model %s: %w%s", s.Header.Model, err, cfg.promptSets)
		}
	}
	return s, err
}

// maxExternalAnswer bounds the reply of a team's own system, in bytes. A reply has the
// answer and a report of the calls to models.
const maxExternalAnswer = 4 << 20

// AnswersConfig names the system that answers questions about a document.
type AnswersConfig struct {
	Config
	Command, URL string // a team's own program or service
	Passages     int    // the number of passages that the model receives
}

// OpenAnswerer opens the system under test and describes it.
func (o Opener) OpenAnswerer(ctx context.Context, cfg AnswersConfig, doc *answers.Document) (answers.Answerer, System, error) {
	switch {
	case cfg.Command != "" || cfg.URL != "":
		return o.openExternalAnswerer(cfg, doc)
	case IsBaseline(cfg.Model) && (cfg.ModelGiven || !cfg.HasPrompt()):
		header := outcome.System{Model: "baseline", Provider: "baseline", Pipeline: answers.ExtractiveName}
		return answers.Extractive{Document: doc}, System{Header: header, Close: noClose}, nil
	}
	return o.openModelAnswerer(ctx, cfg, doc)
}

func (o Opener) openExternalAnswerer(cfg AnswersConfig, doc *answers.Document) (answers.Answerer, System, error) {
	if cfg.URL != "" && !strings.Contains(cfg.URL, "://") {
		return nil, System{}, cli.Usage("--url %q is not an address such as http://localhost:8080/answer", cfg.URL)
	}
	service, s, err := o.openExternal(cmp.Or(cfg.URL, cfg.Command), "", cfg.Config, maxExternalAnswer)
	absolute := *doc
	if path, err := filepath.Abs(doc.Path); err == nil {
		absolute.Path = path
	}
	return answers.External{Asker: service, Document: &absolute}, s, err
}

func (o Opener) openModelAnswerer(ctx context.Context, cfg AnswersConfig, doc *answers.Document) (answers.Answerer, System, error) {
	template, pin, err := o.answersPrompt(ctx, cfg.Config)
	if err != nil {
		return nil, System{}, err
	}
	notes, err := cfg.fillFrom(template)
	if err == nil && IsBaseline(cfg.Model) { // no model was given, and the config names none
		err = errNeedsModel
	}
	if err != nil {
		return nil, System{}, err
	}
	s, err := o.OpenModel(cfg.Config)
	if err != nil {
		return nil, s, err
	}
	if s.Model.Model == nil {
		return nil, s, cli.Usage("%s extracts, it does not answer questions: name a model", s.Header.Model)
	}
	s.Notes, s.Close, s.Header.Prompt, s.Definition = notes, s.Model.saveWindow, pin, cfg.definition(template)
	s.Header.Pipeline = strings.TrimSpace(s.Header.Pipeline + " retrieve@2 passages:" + strconv.Itoa(cfg.Passages))
	return answers.ModelAnswerer{
		Document: doc, Model: s.Model.Model, Name: s.Header.Model, Provider: s.Header.Provider,
		Prompt: template, Parameters: cfg.Parameters, Passages: cfg.Passages,
	}, s, nil
}

// answersPrompt returns the prompt that the settings name, or the built-in one.
func (o Opener) answersPrompt(ctx context.Context, cfg Config) (pipeline.Template, outcome.Prompt, error) {
	if !cfg.HasPrompt() {
		template := answers.DefaultPrompt()
		return template, outcome.Prompt{Name: template.Name + " (built in)", SHA256: template.SHA256()}, nil
	}
	template, pin, err := o.findPrompt(ctx, cfg, answers.PromptName)
	if err != nil {
		return template, pin, err
	}
	if err = answers.CheckPrompt(template); err != nil {
		err = cli.Usage("prompt %s: %w", cmp.Or(cfg.Prompt.Name, answers.PromptName), err)
	}
	return template, pin, err
}

// OpenBench opens the system that answers the cases of the bench: a team's own pipeline, a
// model, or an extractor that needs no model. The Answerer is nil if the Config names none;
// stored answers are then scored.
func (o Opener) OpenBench(cfg Config) (benches.Answerer, System, error) {
	switch {
	case cfg.Pipeline != "":
		external, s, err := o.openExternal(cfg.Pipeline, "", cfg, 0)
		return benches.PipelineAnswerer{Asker: external}, s, err
	case cfg.Model == "":
		return nil, System{Close: noClose}, nil
	}
	cfg.Limits.Retries = pipeline.DefaultTries - 1
	s, err := o.OpenModel(cfg)
	if err != nil {
		return nil, System{}, err
	}
	if s.Model.Model == nil {
		return benches.ExtractorAnswerer{Extractor: s.Extractor}, s, nil
	}
	prompt := benches.Prompt()
	s.Header.Prompt = outcome.Prompt{Name: prompt.Name + " (built in)", SHA256: prompt.SHA256()}
	return benches.ModelAnswerer{Model: s.Model.Model, Name: s.Header.Model, Provider: s.Header.Provider}, s, nil
}
