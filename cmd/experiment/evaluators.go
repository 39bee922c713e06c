package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/evaluator"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/wholefile"
	"extraction-experiment/langfuse"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/prompt"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/scoring"
)

// envEvaluatorToken is sent to an evaluator's address as a bearer token.
const envEvaluatorToken = "EXPERIMENT_EVALUATOR_TOKEN"

// openedEvaluator is an evaluator that is ready to be asked.
type openedEvaluator struct {
	evaluator   conformance.Evaluator
	fingerprint string
	model       string // whose price holds, of a judging model
	close       func() error
}

// check says whether an external evaluator is there; see evaluator.Check.
func (o openedEvaluator) check(ctx context.Context) error {
	if external, ok := o.evaluator.(*evaluator.Evaluator); ok {
		return external.Check(ctx)
	}
	return nil
}

// openEvaluator makes the evaluator that a file names; paths in it are relative
// to dir, the folder of that file.
func openEvaluator(ctx context.Context, env cli.Env, spec conformance.Spec, dir string, timeout time.Duration) (openedEvaluator, error) {
	opened := openedEvaluator{close: func() error { return nil }}
	if spec.Scorer != "" {
		rules, err := scoring.New(scoring.DefaultOptions())
		if err != nil {
			return opened, err
		}
		opened.evaluator, err = conformance.NewBuiltin(spec.Scorer, rules)
		opened.fingerprint = "scorer " + spec.Scorer + " version " + scoring.Version
		return opened, err
	}
	cfg := evaluator.Config{
		Script: spec.Script, Dir: dir, Handed: spec.Env, URL: spec.URL, Token: env.Getenv(envEvaluatorToken), Timeout: timeout,
	}
	if spec.Model != "" {
		var err error
		if opened.close, opened.model, err = judgeModel(ctx, env, spec, dir, &cfg); err != nil {
			return opened, err
		}
	}
	made, err := evaluator.New(cfg)
	if err == nil {
		opened.evaluator = made
		opened.fingerprint, err = made.Fingerprint()
	}
	if err != nil {
		return opened, errors.Join(withCode(err), opened.close())
	}
	return opened, nil
}

// judgeModel opens the model and finds its prompt: in a file, or in Langfuse by
// name, label or version. The name is that of the model for its provider.
func judgeModel(ctx context.Context, env cli.Env, spec conformance.Spec, dir string, cfg *evaluator.Config) (end func() error, name string, err error) {
	end = func() error { return nil }
	known, err := readCatalogue(env.Getenv)
	if err != nil {
		return end, "", err
	}
	if cfg.Prompt, err = judgePrompt(ctx, env, spec, dir); err != nil {
		return end, "", err
	}
	opened, err := provider.Open(spec.Model, known.providerConfig(env.Getenv))
	if err != nil {
		return end, "", withCode(err)
	}
	if opened.Model == nil {
		return end, "", errors.Join(cli.Usage("%s is no language model and cannot judge", spec.Model), opened.Close())
	}
	zero := 0.0
	cfg.Model = pipeline.Priced(opened.Model, opened.Info.Model, known.price)
	cfg.ModelName = opened.Info.Provider + "/" + opened.Info.Model
	if !opened.Capabilities.NoTemperature {
		cfg.Parameters.Temperature = &zero
	}
	return opened.Close, opened.Info.Model, nil
}

func judgePrompt(ctx context.Context, env cli.Env, spec conformance.Spec, dir string) (template prompt.Template, err error) {
	switch {
	case spec.PromptFile != "":
		raw, err := wholefile.Read(ctx, filepath.Join(dir, spec.PromptFile), wholefile.MaxText)
		if err != nil {
			return template, cli.Usage("reading the judge's prompt: %w", err)
		}
		return prompt.ParseText(string(raw)), nil
	case spec.Prompt == "":
		return evaluator.DefaultPrompt(), nil
	}
	lf, err := connect.Open(ctx, env.Getenv)
	if err != nil {
		return template, err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	ref := langfuse.PromptRef{Name: spec.Prompt, Label: spec.PromptLabel, Version: spec.PromptVersion}
	template, _, err = fetchPrompt(ctx, lf, ref, "and prompt_file: takes one from a file")
	if errors.Is(err, langfuse.ErrNotFound) {
		err = fmt.Errorf("the judge's prompt: %w", err)
	}
	return template, err
}
