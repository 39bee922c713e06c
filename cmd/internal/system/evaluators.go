package system

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/configs"
	"extraction-experiment/evaluator"
	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	"extraction-experiment/harness/conformance"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/scoring"
)

// envEvaluatorToken names the variable of the bearer token for an evaluator's address.
const envEvaluatorToken = "EXPERIMENT_EVALUATOR_TOKEN"

// Evaluator is an opened evaluator.
type Evaluator struct {
	Evaluator   conformance.Evaluator
	Fingerprint string
	model       string // the name for the price of a judging model; empty for other evaluators
}

// OpenEvaluator opens the evaluator of a specification. Paths in it are relative to dir,
// the folder of the file that has the specification.
func (o Opener) OpenEvaluator(ctx context.Context, spec conformance.Spec, dir string, timeout time.Duration) (Evaluator, error) {
	var opened Evaluator
	if spec.Scorer != "" {
		rules, err := scoring.New(scoring.DefaultOptions())
		if err != nil {
			return opened, err
		}
		opened.Evaluator, err = conformance.NewBuiltin(spec.Scorer, rules)
		opened.Fingerprint = "scorer " + spec.Scorer + " version " + scoring.Version
		return opened, err
	}
	cfg := evaluator.Config{
		Script: spec.Script, Dir: dir, Handed: spec.Env, URL: spec.URL, Token: o.Getenv(envEvaluatorToken), Timeout: timeout,
	}
	if spec.Model != "" {
		var err error
		if opened.model, err = o.judgeModel(ctx, spec, dir, &cfg); err != nil {
			return opened, err
		}
	}
	external, err := evaluator.New(cfg)
	if err == nil {
		opened.Evaluator = external
		opened.Fingerprint, err = external.Fingerprint()
	}
	return opened, usageError(err)
}

// judgeModel opens the model of a judge and its prompt, and sets them in cfg. The prompt
// comes from a file, or from Langfuse by name, label or version; without either it is
// evaluator.DefaultPrompt. The result is the provider's name of the model.
func (o Opener) judgeModel(ctx context.Context, spec conformance.Spec, dir string, cfg *evaluator.Config) (name string, err error) {
	if cfg.Prompt, err = o.judgePrompt(ctx, spec, dir); err != nil {
		return "", err
	}
	opened, known, err := o.openModel(Config{Model: spec.Model})
	if err != nil {
		return "", err
	}
	if opened.Model == nil {
		return "", cli.Usage("%s is not a language model and cannot judge", spec.Model)
	}
	cfg.Model = pipeline.Priced(opened.Model, opened.Info.Model, known.Price)
	cfg.ModelName = opened.Info.Provider + "/" + opened.Info.Model
	if !opened.Capabilities.NoTemperature {
		cfg.Parameters.Temperature = new(0.0)
	}
	return opened.Info.Model, nil
}

func (o Opener) judgePrompt(ctx context.Context, spec conformance.Spec, dir string) (template pipeline.Template, err error) {
	switch {
	case spec.PromptFile != "":
		return readPrompt(ctx, files.Resolve(dir, spec.PromptFile))
	case spec.Prompt == "":
		return evaluator.DefaultPrompt(), nil
	case spec.PromptVersion < 0 || spec.PromptVersion > 0 && spec.PromptLabel != "":
		return template, cli.Usage("the prompt %q of the judge: give prompt_label, or a prompt_version from 1 on", spec.Prompt)
	}
	lf, err := settings.Connect(ctx, o.Env)
	if err != nil {
		return template, err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	ref := langfuse.PromptRef{Name: spec.Prompt, Label: spec.PromptLabel, Version: spec.PromptVersion}
	o.Langfuse = lf
	template, _, err = o.FetchPrompt(ctx, ref, "and prompt_file: takes one from a file")
	return template, err
}

// Scorers are the external evaluators that a configuration names.
type Scorers struct {
	Described []outcome.CustomScorer
	opened    []Evaluator // in the order of Described
}

// OpenScorers opens the evaluators under "scorers:" in the file at path and checks the
// certificate of each. The error has all problems.
func (o Opener) OpenScorers(ctx context.Context, file configs.Experiment, path string) (Scorers, error) {
	var scorers Scorers
	var problems []error
	for i, entry := range file.Scorers {
		if err := o.openScorer(ctx, &scorers, entry, filepath.Dir(path)); err != nil {
			problems = append(problems, fmt.Errorf("%s: scorers[%d] (%s): %w", path, i, entry.Name, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return scorers, usageError(err)
	}
	// Scorer finds invalid names before anything is connected.
	if _, err := scorers.Scorer(harness.Scorer{}, nil, nil); err != nil {
		return scorers, fmt.Errorf("%s: %w", path, err)
	}
	return scorers, nil
}

func (o Opener) openScorer(ctx context.Context, s *Scorers, entry configs.Scorer, dir string) error {
	timeout, err := time.ParseDuration(cmp.Or(entry.Timeout, "1m"))
	if err != nil || timeout <= 0 {
		return cli.Usage("timeout: %q is not a time such as 30s", entry.Timeout)
	}
	opened, err := o.OpenEvaluator(ctx, conformance.Spec{
		Script: entry.Script, URL: entry.URL, Model: entry.Model, Env: entry.Env,
		Prompt: entry.Prompt, PromptLabel: entry.PromptLabel, PromptVersion: entry.PromptVersion, PromptFile: entry.PromptFile,
	}, dir, timeout)
	if err != nil {
		return err
	}
	description := outcome.CustomScorer{
		Name: entry.Name, Evaluator: strings.Join(opened.Evaluator.Command(), " "), Criteria: entry.Criteria, Fingerprint: opened.Fingerprint,
	}
	if err := checkCertificate(ctx, &description, entry, dir, opened); err != nil {
		return err
	}
	s.opened, s.Described = append(s.opened, opened), append(s.Described, description)
	return nil
}

// Check reports the evaluators that cannot be reached, before the run costs anything.
func (s Scorers) Check(ctx context.Context) error {
	var problems []error
	for i, o := range s.opened {
		if external, ok := o.Evaluator.(*evaluator.Evaluator); ok {
			if err := external.Check(ctx); err != nil {
				problems = append(problems, fmt.Errorf("the evaluator of %s cannot be asked: %w", s.Described[i].Name, err))
			}
		}
	}
	return errors.Join(problems...)
}

// Scorer returns base with the scores of the evaluators added. Judging models spend from
// budget, if it is not nil. order has the names of all scores in their order.
func (s Scorers) Scorer(base experiment.Scorer, order []string, budget *pipeline.Budget) (experiment.Scorer, error) {
	if len(s.opened) == 0 {
		return base, nil
	}
	var extra []experiment.Evaluated
	for i, o := range s.opened {
		d := s.Described[i]
		if judge, ok := o.Evaluator.(*evaluator.Evaluator); ok && o.model != "" && budget != nil {
			modelBudget, err := budget.For(o.model)
			if err != nil {
				return nil, fmt.Errorf("the model that gives %s: %w", d.Name, usageError(err))
			}
			o.Evaluator = judge.WithBudget(modelBudget)
		}
		extra = append(extra, experiment.Evaluated{Name: d.Name, Criteria: d.Criteria, Evaluator: o.Evaluator})
	}
	scorer, err := experiment.WithEvaluators(base, order, extra...)
	return scorer, usageError(err)
}

// Budget returns the budget of the judging models of a run whose system has none: a recording, or
// the baseline of a sweep. It is nil if there are no judging models or no bound.
func (s Scorers) Budget(c Limits, getenv func(string) string) (*pipeline.Budget, error) {
	i := slices.IndexFunc(s.opened, func(o Evaluator) bool { return o.model != "" })
	if i < 0 {
		return nil, nil
	}
	known, err := ReadCatalogue(getenv)
	if err != nil {
		return nil, err
	}
	budget, err := c.budget(s.opened[i].model, known)
	return budget, usageError(err)
}

// Judges returns the number of evaluators that are language models.
func (s Scorers) Judges() (n int) {
	for _, o := range s.opened {
		if o.model != "" {
			n++
		}
	}
	return n
}

// checkCertificate reads the certificate of an evaluator and sets in c either why the
// evaluator counts as not certified, or the terms of the certificate and its weak points.
func checkCertificate(ctx context.Context, c *outcome.CustomScorer, entry configs.Scorer, dir string,
	opened Evaluator) error {
	if entry.Certificate == "" {
		c.Uncertified = "it has no certificate (experiment conformance --output FILE writes one)"
		return nil
	}
	raw, err := files.Read(ctx, files.Resolve(dir, entry.Certificate), files.MaxText)
	if errors.Is(err, os.ErrNotExist) {
		c.Uncertified = fmt.Sprintf("its certificate %s is not there", entry.Certificate)
		return nil
	}
	if err != nil {
		return cli.Usage("reading the certificate: %w", err)
	}
	var r conformance.Report
	if json.Unmarshal(raw, &r) != nil || len(r.Evaluator) == 0 {
		return cli.Usage("the certificate %s is not a report of experiment conformance: give the file that its --output wrote", entry.Certificate)
	}
	switch {
	case !slices.Equal(r.Evaluator, opened.Evaluator.Command()):
		c.Uncertified = fmt.Sprintf("the certificate %s is that of %s", entry.Certificate, strings.Join(r.Evaluator, " "))
	case !r.Passed() || r.TotalRuns == 0:
		c.Uncertified = fmt.Sprintf("it did not pass (%s)", entry.Certificate)
	case r.Fingerprint != opened.Fingerprint:
		c.Uncertified = fmt.Sprintf("it has changed since it was certified (%s)", entry.Certificate)
	default:
		c.Certified, c.Weak = r.Terms(), strings.Join(r.Weak(), "; ")
	}
	return nil
}

// Rules are the rules of scoring with their options, and the external evaluators.
type Rules struct {
	Scorer *scoring.Scorer
	Raw    json.RawMessage // the options
	Custom Scorers
}

// NewScorer returns the scorer of a run: the built-in scores and those of the external
// evaluators, whose models spend from budget if it is not nil.
func (r Rules) NewScorer(budget *pipeline.Budget) (experiment.Scorer, error) {
	return r.Custom.Scorer(harness.Scorer{Rules: r.Scorer, Documents: new(extraction.Decoder)}, runs.ScoreOrder(), budget)
}

// ReadRules returns the Rules of a configuration file's options, without evaluators.
func ReadRules(file configs.Experiment) (Rules, error) {
	raw, err := file.ScoringJSON()
	if err != nil {
		return Rules{}, cli.Usage("%w", err)
	}
	options, err := settings.ScoringOptions(string(raw))
	if err != nil {
		return Rules{}, err
	}
	return NewRules(options)
}

// NewRules returns the Rules of options, without evaluators.
func NewRules(options scoring.Options) (Rules, error) {
	rules, err := scoring.New(options)
	if err != nil {
		return Rules{}, err
	}
	raw, err := json.Marshal(options)
	return Rules{Scorer: rules, Raw: raw}, err
}
