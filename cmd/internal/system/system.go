// Package system opens what an experiment measures: a team's pipeline, an extractor,
// or a model with its prompt, within limits, budget and cache; and the evaluators that
// judge it.
package system

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/pipeline/provider/external"
	"extraction-experiment/scoring"
)

// Opener opens systems. All fields are needed.
type Opener struct {
	Langfuse *experiment.Langfuse
	Getenv   func(string) string
	Stderr   io.Writer // what programs write to their standard error
}

// Config says what is to be measured: a team's own pipeline, an extractor that needs
// no model, or a model with its prompt.
type Config struct {
	Model string
	// ModelGiven says that the model was named, and is not the default.
	ModelGiven bool
	Pipeline   string // a program or an address
	Record     string // the file of a recording
	Limits     Limits
	Resume     bool // the recording goes on, too
	TwoStages  bool
	Prompt     langfuse.PromptRef // without a name where none was given
	PromptFile string
	Vars       []pipeline.Var
	Parameters pipeline.Parameters
	// Estimator, if set, is asked in place of the model.
	Estimator *pipeline.Estimator

	schema json.RawMessage // of the prompt's config
	// placeholders are messages that the prompt's config gives by name.
	placeholders map[string][]pipeline.Message
}

// AsksPrompt reports whether a prompt was asked for.
func (c Config) AsksPrompt() bool {
	return c.Prompt != (langfuse.PromptRef{}) || c.PromptFile != ""
}

// OnlyAsks reports whether opening the system leaves everything as it is: no
// prompt is pushed, no recording begun.
func (c Config) OnlyAsks() bool { return c.PromptFile == "" && c.Record == "" }

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

// Asked says in words who is.
func (s System) Asked() string {
	if s.reached != nil {
		return "the service"
	}
	return "the model"
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
		return System{Extractor: opened.Extractor, Header: describe(opened.Info, cfg, pin), Close: nothing, Notes: notes, Definition: cfg.definition(template)}, nil
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
		Model: asks, Name: opened.Info.Model, Provider: opened.Provider,
		Prompt: template, Vars: cfg.Vars, Parameters: cfg.Parameters, Capabilities: opened.Capabilities,
		TwoStages: cfg.TwoStages, Schema: cfg.schema, Placeholders: cfg.placeholders,
		Vocabulary: pipeline.Vocabulary(scoring.SpecificationVocabulary()),
	}
	extractor, err := pipeline.New(config)
	if err != nil {
		return System{}, cli.Errorf(cli.ExitUsage, "model %s: %w", opened.Info.Model, err)
	}
	opened.Pipeline = pipelineName(opened.Info, cfg)
	header := describe(opened.Info, cfg, pin)
	if cfg.Record == "" {
		return System{Extractor: extractor, Header: header, Close: asks.closing, Asks: asks}, nil
	}
	begin := provider.CreateTape
	if cfg.Resume {
		begin = provider.ContinueTape
	}
	tape, err := begin(cfg.Record, provider.Recording{Provider: opened.Provider, Model: opened.Info.Model})
	if err != nil {
		return System{}, err
	}
	end := func() error { return errors.Join(tape.Close(), asks.closing()) }
	config.Model = provider.Record(config.Model, tape)
	if extractor, err = pipeline.New(config); err != nil {
		return System{}, errors.Join(err, end())
	}
	return System{Extractor: extractor, Header: header, Close: end, Asks: asks}, nil
}

// openModel opens what a name of --model stands for.
func (o Opener) openModel(name string) (opened provider.Opened, known Catalogue, err error) {
	if known, err = ReadCatalogue(o.Getenv); err == nil {
		opened, err = provider.Open(name, known.ProviderConfig(o.Getenv))
	}
	return opened, known, refused(err)
}

// external configures a team's own program or address; most bounds its answers, 0 is
// the usual bound.
func (o Opener) external(target string, limits Limits, most int) external.Config {
	return external.Config{
		Target: target, Concurrency: limits.Concurrency, Stderr: harmless{o.Stderr}, Token: o.Getenv(EnvPipelineToken), MaxAnswer: most,
	}
}

func (o Opener) openPipeline(cfg Config) (System, error) {
	if cfg.ModelGiven && IsBaseline(cfg.Model) {
		return System{}, cli.Usage("--model baseline and --pipeline cannot both be measured in one run")
	}
	model := ""
	if cfg.ModelGiven {
		model = cfg.Model
	}
	asked := o.external(cfg.Pipeline, cfg.Limits, 0)
	asked.Model, asked.Parameters = model, cfg.Parameters
	extractor, err := external.New(asked)
	if err != nil {
		return System{}, err
	}
	header := describe(provider.Info{Provider: external.Name, Model: model, Pipeline: extractor.Target()}, cfg, outcome.Prompt{})
	if model == "" {
		header.Model = external.Name
	}
	definition := cfg.definition(pipeline.Template{})
	definition.Model = model
	return System{Extractor: extractor, Header: header, Close: extractor.Close, reached: extractor.Reached, Definition: definition}, nil
}

// EnvPipelineToken is sent to a pipeline's address as a bearer token.
const EnvPipelineToken = "EXPERIMENT_PIPELINE_TOKEN"

// pipelineName describes how the model is asked, so that runs that ask in
// another way are told apart, and are not resumed as one.
func pipelineName(info provider.Info, cfg Config) string {
	parts := []string{"ask@2"}
	if info.Pipeline != "" {
		parts = []string{info.Pipeline}
	}
	if cfg.TwoStages {
		parts = append(parts, "two-stages")
	}
	for _, v := range cfg.Vars {
		parts = append(parts, "var:"+v.Name+"="+v.Path)
	}
	return strings.Join(parts, " ")
}

func describe(info provider.Info, cfg Config, pin outcome.Prompt) outcome.System {
	return outcome.System{
		Model: info.Model, Provider: info.Provider, Pipeline: info.Pipeline, Prompt: pin,
		Temperature: cfg.Parameters.Temperature, TopP: cfg.Parameters.TopP,
		MaxTokens: cfg.Parameters.MaxTokens, Seed: cfg.Parameters.Seed,
	}
}

// IsBaseline reports whether a model is the extractor that needs none.
func IsBaseline(model string) bool { return strings.EqualFold(strings.TrimSpace(model), "baseline") }

// refused gives a refused configuration exit code 64 where it has none.
func refused(err error) error { return cli.WithCode(cli.ExitUsage, err) }

// harmless passes on what a team's program writes to standard error, so that it cannot
// steer a terminal.
type harmless struct{ to io.Writer }

func (h harmless) Write(text []byte) (int, error) {
	_, err := io.WriteString(h.to, textutil.Block(string(text)))
	return len(text), err
}

// Read reads what the settings say of the system under test, and notes what is wrong.
func Read(p *settings.Problems, s settings.Values) Config {
	c := Config{
		Model: s.Text("model"), ModelGiven: s["model"].From != settings.FromDefault, Pipeline: s.Text("pipeline"), Record: s.Text("record"), Limits: readLimits(p, s), Resume: p.Switch(s, "resume"), TwoStages: p.Switch(s, "two-stages"),
		Prompt:     langfuse.PromptRef{Name: s.Text("prompt"), Label: s.Text("prompt-label")},
		PromptFile: s.Text("prompt-file"),
		Parameters: pipeline.Parameters{
			Temperature: p.Number("temperature", s.Text("temperature"), 0, 10),
			TopP:        p.Number("top-p", s.Text("top-p"), 0, 1),
		},
	}
	for _, word := range s.All("var") {
		v, err := pipeline.ParseVar(word)
		if err != nil {
			p.Add("--var: %v", err)
		}
		c.Vars = append(c.Vars, v)
	}
	if text := s.Text("prompt-version"); text != "" {
		c.Prompt.Version = p.Count("prompt-version", text, 1, math.MaxInt32)
	}
	if text := s.Text("max-tokens"); text != "" {
		n := p.Count("max-tokens", text, 1, math.MaxInt32)
		c.Parameters.MaxTokens = &n
	}
	if text := s.Text("seed"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			p.Add("--seed: %q is not a whole number", text)
		}
		c.Parameters.Seed = &n
	}
	if c.Prompt.Label != "" && c.Prompt.Version != 0 {
		p.Add("--prompt-label and --prompt-version cannot both be given")
	}
	if c.PromptFile != "" && (c.Prompt.Label != "" || c.Prompt.Version != 0) {
		p.Add("--prompt-file is a version of its own: leave --prompt-label and --prompt-version out")
	}
	if c.Pipeline != "" && (c.Record != "" || c.TwoStages || len(c.Vars) > 0) {
		p.Add("--pipeline asks in its own way: leave --record, --two-stages and --var out")
	}
	if c.Pipeline != "" && c.Limits.Limited() {
		p.Add("--pipeline asks its model itself: leave --rpm, --tpm, --cache and --budget-… out")
	}
	if c.Pipeline != "" && c.AsksPrompt() {
		p.Add("--pipeline has prompts of its own: leave --prompt and its relatives out")
	}
	return c
}

func readLimits(p *settings.Problems, s settings.Values) Limits {
	c := Limits{Retries: p.Count("retries", s.Text("retries"), 0, 100), Cache: s.Text("cache")}
	bound := func(flag string) int {
		if text := s.Text(flag); text != "" {
			return p.Count(flag, text, 1, math.MaxInt32)
		}
		return 0
	}
	c.RPM, c.TPM, c.Tokens = bound("rpm"), bound("tpm"), bound("budget-tokens")
	if text := s.Text("budget-usd"); text != "" {
		usd, err := strconv.ParseFloat(text, 64)
		if err != nil || !(usd > 0) || math.IsInf(usd, 0) {
			p.Add("--budget-usd: %q is not a number above 0", text)
		}
		c.USD = usd
	}
	return c
}

// maxExternalAnswer bounds what a team's own system may reply, in bytes: an
// answer and what it reports of its calls.
const maxExternalAnswer = 4 << 20

// AnswersConfig says what answers questions about a document.
type AnswersConfig struct {
	Config
	Command, URL string // a team's own program or service
	Passages     int    // how many the model is given
}

// OpenAnswerer opens the system under test and describes it.
func (o Opener) OpenAnswerer(ctx context.Context, cfg AnswersConfig, doc *answers.Document, opened *System) (answers.Answerer, error) {
	switch {
	case cfg.Command != "" || cfg.URL != "":
		return o.openExternalAnswerer(cfg, doc, opened)
	case IsBaseline(cfg.Model):
		if cfg.AsksPrompt() || cfg.Limits.Limited() || cfg.Parameters != (pipeline.Parameters{}) {
			return nil, cli.Usage("the baseline reads no prompt and has no temperature and the like: name a model with --model")
		}
		info := provider.Info{Provider: "baseline", Model: "baseline", Pipeline: answers.ExtractiveName}
		*opened = System{Header: describe(info, cfg.Config, outcome.Prompt{}), Close: func() error { return nil }}
		return answers.Extractive{Document: doc}, nil
	}
	return o.openModelAnswerer(ctx, cfg, doc, opened)
}

func (o Opener) openExternalAnswerer(cfg AnswersConfig, doc *answers.Document, opened *System) (answers.Answerer, error) {
	target := cfg.Command
	if cfg.URL != "" {
		target = cfg.URL
		if !strings.Contains(target, "://") {
			return nil, cli.Usage("--url %q is no address such as http://localhost:8080/answer", target)
		}
	}
	service, err := external.New(o.external(target, cfg.Limits, maxExternalAnswer))
	if err != nil {
		return nil, err
	}
	info := provider.Info{Provider: external.Name, Model: external.Name, Pipeline: service.Target()}
	*opened = System{Header: describe(info, cfg.Config, outcome.Prompt{}), Close: service.Close, reached: service.Reached}
	absolute := *doc
	if path, err := filepath.Abs(doc.Path); err == nil {
		absolute.Path = path
	}
	return answers.External{Asker: service, Document: &absolute}, nil
}

func (o Opener) openModelAnswerer(ctx context.Context, cfg AnswersConfig, doc *answers.Document, made *System) (answers.Answerer, error) {
	opened, known, err := o.openModel(cfg.Model)
	if err != nil {
		return nil, err
	}
	if opened.Model == nil {
		return nil, cli.Usage("%s extracts, it does not answer questions: name a model", opened.Info.Model)
	}
	template, pin, err := o.answersPrompt(ctx, cfg.Config)
	if err != nil {
		return nil, err
	}
	asks, err := o.within(opened, known, cfg.Limits)
	if err != nil {
		return nil, err
	}
	asking, err := answers.NewAsking(answers.AskingConfig{
		Document: doc, Model: asks.Model, Name: opened.Info.Model, Provider: opened.Provider,
		Prompt: template, Parameters: cfg.Parameters, Passages: cfg.Passages,
	})
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	info := opened.Info
	info.Pipeline = strings.TrimSpace(info.Pipeline + " retrieve@1 passages:" + strconv.Itoa(cfg.Passages))
	*made = System{Header: describe(info, cfg.Config, pin), Close: asks.closing, Asks: asks}
	return asking, nil
}

// answersPrompt finds the prompt that is asked for, else the built-in one.
func (o Opener) answersPrompt(ctx context.Context, cfg Config) (pipeline.Template, outcome.Prompt, error) {
	if !cfg.AsksPrompt() {
		template := answers.DefaultPrompt()
		return template, outcome.Prompt{Name: template.Name + " (built in)", SHA256: template.SHA256()}, nil
	}
	template, pin, err := o.findPrompt(ctx, cfg, answers.PromptName, answers.CheckPrompt)
	if err != nil {
		return template, pin, err
	}
	if err = answers.CheckPrompt(template); err != nil {
		err = cli.Usage("prompt %s: %w", cmp.Or(cfg.Prompt.Name, answers.PromptName), err)
	}
	return template, pin, err
}

// OpenBench opens what a Config names and answers the cases of the bench: a team's own
// pipeline, a model, or an extractor that needs none. Without a name it is nil, and what
// is stored answers.
func (o Opener) OpenBench(cfg Config) (benches.Answerer, System, error) {
	switch {
	case cfg.Pipeline != "":
		asks, err := external.New(o.external(cfg.Pipeline, cfg.Limits, 0))
		if err != nil {
			return nil, System{}, err
		}
		info := provider.Info{Provider: external.Name, Model: external.Name, Pipeline: asks.Target()}
		return benches.External{Asker: asks}, System{Header: describe(info, Config{}, outcome.Prompt{}), Close: asks.Close}, nil
	case cfg.Model == "":
		return nil, System{Close: func() error { return nil }}, nil
	}
	cfg.Limits.Retries = pipeline.DefaultTries - 1
	s, err := o.OpenModel(cfg)
	if err != nil {
		return nil, System{}, err
	}
	if s.Asks.Model == nil {
		return benches.Extracting{Extractor: s.Extractor}, s, nil
	}
	asked := benches.Prompt()
	s.Header.Prompt = outcome.Prompt{Name: asked.Name + " (built in)", SHA256: asked.SHA256()}
	return benches.Asking{Model: s.Asks.Model, Name: s.Header.Model, Provider: s.Header.Provider}, s, nil
}

// OpenModel opens a model alone, within its limits; Asks.Model is nil of an extractor
// that needs none.
func (o Opener) OpenModel(cfg Config) (System, error) {
	opened, known, err := o.openModel(cfg.Model)
	if err != nil {
		return System{}, err
	}
	s := System{Extractor: opened.Extractor, Header: describe(opened.Info, Config{}, outcome.Prompt{}), Close: nothing}
	if opened.Model == nil {
		return s, nil
	}
	if s.Asks, err = o.within(opened, known, cfg.Limits); err != nil {
		return System{}, refused(err)
	}
	s.Header.Endpoint = EndpointOf(s.Header, o.Getenv)
	return s, nil
}
