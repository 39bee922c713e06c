package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/prompt"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/pipeline/provider/external"
	"extraction-experiment/tracking"
)

// maxExternalAnswer bounds what a team's own system may reply, in bytes: an
// answer and what it reports of its calls.
const maxExternalAnswer = 4 << 20

// openAnswerer opens the system under test and describes it.
func (s session) openAnswerer(ctx context.Context, cfg answersConfig, doc *answers.Document, opened *system) (answers.Answerer, error) {
	switch {
	case cfg.command != "" || cfg.url != "":
		return s.openExternalAnswerer(cfg, doc, opened)
	case isBaseline(cfg.system.model):
		if cfg.system.asksPrompt() || cfg.system.limits.limited() || cfg.system.parameters != (pipeline.Parameters{}) {
			return nil, cli.Usage("the baseline reads no prompt and has no temperature and the like: name a model with --model")
		}
		info := provider.Info{Provider: "baseline", Model: "baseline", Pipeline: answers.ExtractiveName}
		*opened = system{header: describe(info, cfg.system, outcome.Prompt{}), close: func() error { return nil }}
		return answers.Extractive{Document: doc}, nil
	}
	return s.openModelAnswerer(ctx, cfg, doc, opened)
}

func (s session) openExternalAnswerer(cfg answersConfig, doc *answers.Document, opened *system) (answers.Answerer, error) {
	target := cfg.command
	if cfg.url != "" {
		target = cfg.url
		if !strings.Contains(target, "://") {
			return nil, cli.Usage("--url %q is no address such as http://localhost:8080/answer", target)
		}
	}
	asker, err := external.NewAsker(external.Config{
		Target: target, Concurrency: cfg.concurrency, Stderr: newPlain(os.Stderr), Token: s.env.Getenv(envPipelineToken), MaxAnswer: maxExternalAnswer,
	})
	if err != nil {
		return nil, err
	}
	info := provider.Info{Provider: external.Name, Model: external.Name, Pipeline: asker.Target()}
	*opened = system{header: describe(info, cfg.system, outcome.Prompt{}), close: asker.Close, reached: asker.Reached}
	absolute := *doc
	if path, err := filepath.Abs(doc.Path); err == nil {
		absolute.Path = path
	}
	return answers.External{Asker: asker, Document: &absolute}, nil
}

func (s session) openModelAnswerer(ctx context.Context, cfg answersConfig, doc *answers.Document, made *system) (answers.Answerer, error) {
	known, err := readCatalogue(s.env.Getenv)
	if err != nil {
		return nil, err
	}
	opened, err := provider.Open(cfg.system.model, known.providerConfig(s.env.Getenv))
	if err != nil {
		return nil, withCode(err)
	}
	if opened.Model == nil {
		return nil, errors.Join(cli.Usage("%s extracts, it does not answer questions: name a model", opened.Info.Model), opened.Close())
	}
	template, pin, err := s.answersPrompt(ctx, cfg.system)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	limits := cfg.system.limits
	limits.concurrency, limits.getenv = cfg.concurrency, s.env.Getenv
	asks, err := within(opened, known, limits)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	asking, err := answers.NewAsking(answers.AskingConfig{
		Document: doc, Model: asks.Model, Name: opened.Info.Model, Provider: opened.Provider,
		Prompt: template, Parameters: cfg.system.parameters, Passages: cfg.passages,
	})
	if err != nil {
		return nil, errors.Join(cli.Usage("%w", err), opened.Close())
	}
	info := opened.Info
	info.Pipeline = strings.TrimSpace(info.Pipeline + " retrieve@1 passages:" + strconv.Itoa(cfg.passages))
	*made = system{header: describe(info, cfg.system, pin), close: opened.Close, asks: asks}
	return asking, nil
}

// answersPrompt finds the prompt that is asked for, else the built-in one.
func (s session) answersPrompt(ctx context.Context, cfg systemConfig) (prompt.Template, outcome.Prompt, error) {
	ref := cfg.prompt
	if ref.Name == "" {
		ref.Name = answers.PromptName
	}
	switch {
	case cfg.promptFile != "":
		template, err := readPrompt(ctx, cfg.promptFile, answers.CheckPrompt)
		if err != nil {
			return template, outcome.Prompt{}, err
		}
		return tracking.PushPrompt(ctx, s.lf.Client, ref.Name, template)
	case !cfg.asksPrompt():
		template := answers.DefaultPrompt()
		return template, outcome.Prompt{Name: template.Name + " (built in)", SHA256: template.SHA256()}, nil
	}
	template, pin, err := fetchPrompt(ctx, s.lf, ref, promptFromFile)
	if err == nil {
		if err = answers.CheckPrompt(template); err != nil {
			err = cli.Usage("prompt %s: %w", ref.Name, err)
		}
	}
	return template, pin, err
}
