package system

import (
	"cmp"
	"context"
	"path/filepath"
	"strconv"
	"strings"

	benches "extraction-experiment/bench"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

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
	case IsBaseline(cfg.Model):
		if cfg.HasPrompt() || cfg.Limits.Limited() || cfg.Parameters != (pipeline.Parameters{}) {
			return nil, System{}, cli.Usage("the baseline reads no prompt and has no temperature and the like: name a model with --model")
		}
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
