package system

import (
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

// envEvaluatorToken is sent to an evaluator's address as a bearer token.
const envEvaluatorToken = "EXPERIMENT_EVALUATOR_TOKEN"

// Evaluator is an evaluator that is ready to be asked.
type Evaluator struct {
	Evaluator   conformance.Evaluator
	Fingerprint string
	model       string // whose price holds, of a judging model
}

// OpenEvaluator makes the evaluator that a file names; paths in it are relative
// to dir, the folder of that file.
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
	made, err := evaluator.New(cfg)
	if err == nil {
		opened.Evaluator = made
		opened.Fingerprint, err = made.Fingerprint()
	}
	return opened, refused(err)
}

// judgeModel opens the model and finds its prompt: in a file, or in Langfuse by
// name, label or version. The name is that of the model for its provider.
func (o Opener) judgeModel(ctx context.Context, spec conformance.Spec, dir string, cfg *evaluator.Config) (name string, err error) {
	if cfg.Prompt, err = o.judgePrompt(ctx, spec, dir); err != nil {
		return "", err
	}
	opened, known, err := o.openModel(spec.Model)
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
		return readPrompt(ctx, files.In(dir, spec.PromptFile), func(pipeline.Template) error { return nil })
	case spec.Prompt == "":
		return evaluator.DefaultPrompt(), nil
	case spec.PromptVersion < 0 || spec.PromptVersion > 0 && spec.PromptLabel != "":
		return template, cli.Usage("the prompt %q of the judge: give prompt_label, or a prompt_version from 1 on", spec.Prompt)
	}
	lf, err := settings.Connect(ctx, o.Getenv)
	if err != nil {
		return template, err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	ref := langfuse.PromptRef{Name: spec.Prompt, Label: spec.PromptLabel, Version: spec.PromptVersion}
	o.Langfuse = &lf.Langfuse
	template, _, err = o.FetchPrompt(ctx, ref, "and prompt_file: takes one from a file")
	return template, err
}

// Scorers are the external evaluators that a configuration names.
type Scorers struct {
	Described []outcome.CustomScorer
	opened    []Evaluator // in the same order
}

// OpenScorers opens the evaluators under scorers: in the file at path, and looks
// whether each is certified. Every problem is reported at once.
func (o Opener) OpenScorers(ctx context.Context, file configs.Experiment, path string) (Scorers, error) {
	var all Scorers
	var problems []error
	for i, entry := range file.Scorers {
		if err := o.openScorer(ctx, &all, entry, filepath.Dir(path)); err != nil {
			problems = append(problems, fmt.Errorf("%s: scorers[%d] (%s): %w", path, i, entry.Name, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return all, refused(err)
	}
	// What is wrong with the names is found before anything is connected.
	if _, err := all.Judge(harness.Scorer{}, nil, nil); err != nil {
		return all, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

func (o Opener) openScorer(ctx context.Context, s *Scorers, entry configs.Scorer, dir string) error {
	timeout := time.Minute
	if entry.Timeout != "" {
		var err error
		if timeout, err = time.ParseDuration(entry.Timeout); err != nil || timeout <= 0 {
			return cli.Usage("timeout: %q is not a time such as 30s", entry.Timeout)
		}
	}
	opened, err := o.OpenEvaluator(ctx, conformance.Spec{
		Script: entry.Script, URL: entry.URL, Model: entry.Model, Env: entry.Env,
		Prompt: entry.Prompt, PromptLabel: entry.PromptLabel, PromptVersion: entry.PromptVersion, PromptFile: entry.PromptFile,
	}, dir, timeout)
	if err != nil {
		return err
	}
	described := outcome.CustomScorer{
		Name: entry.Name, Evaluator: strings.Join(opened.Evaluator.Command(), " "), Criteria: entry.Criteria, Fingerprint: opened.Fingerprint,
	}
	if err := certify(ctx, &described, entry, dir, opened); err != nil {
		return err
	}
	s.opened, s.Described = append(s.opened, opened), append(s.Described, described)
	return nil
}

// Check finds evaluators that are not there, before anything is paid for.
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

// Judge is base with the scores of the evaluators, whose models draw on the budget of
// the run; order is that of all scores.
func (s Scorers) Judge(base experiment.Scorer, order []string, budget *pipeline.Budget) (experiment.Scorer, error) {
	if len(s.opened) == 0 {
		return base, nil
	}
	var extra []experiment.Evaluated
	for i, o := range s.opened {
		d := s.Described[i]
		if judge, ok := o.Evaluator.(*evaluator.Evaluator); ok && o.model != "" && budget != nil {
			own, err := budget.For(o.model)
			if err != nil {
				return nil, fmt.Errorf("the model that gives %s: %w", d.Name, refused(err))
			}
			o.Evaluator = judge.Within(own)
		}
		extra = append(extra, experiment.Evaluated{Name: d.Name, Criteria: d.Criteria, Evaluator: o.Evaluator})
	}
	made, err := experiment.WithEvaluators(base, order, extra...)
	return made, refused(err)
}

// Budget bounds what judging models take of a run whose own system has no budget,
// as a team's pipeline has none; nil where there are no such models, or no bound.
func (s Scorers) Budget(c Limits, getenv func(string) string) (*pipeline.Budget, error) {
	at := slices.IndexFunc(s.opened, func(o Evaluator) bool { return o.model != "" })
	if at < 0 {
		return nil, nil
	}
	known, err := ReadCatalogue(getenv)
	if err != nil {
		return nil, err
	}
	budget, err := c.budget(s.opened[at].model, known)
	return budget, refused(err)
}

// Judges counts the language models among the evaluators.
func (s Scorers) Judges() (n int) {
	for _, o := range s.opened {
		if o.model != "" {
			n++
		}
	}
	return n
}

// certify says what the certificate of an evaluator is worth: why it counts as not
// certified, or on what terms it is.
func certify(ctx context.Context, c *outcome.CustomScorer, entry configs.Scorer, dir string, opened Evaluator) error {
	if entry.Certificate == "" {
		c.Uncertified = "it has no certificate (experiment conformance --output FILE writes one)"
		return nil
	}
	raw, err := files.Read(ctx, files.In(dir, entry.Certificate), files.MaxText)
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

// Rules are the rules of scoring, with the options that they were made of and the
// evaluators beside them.
type Rules struct {
	Scorer *scoring.Scorer
	Raw    json.RawMessage // the options
	Custom Scorers
}

// Judge is the scorer of a run: ours, with those of external evaluators, whose models
// draw on its budget.
func (r Rules) Judge(budget *pipeline.Budget) (experiment.Scorer, error) {
	return r.Custom.Judge(harness.Scorer{Rules: r.Scorer, Documents: new(extraction.Decoder)}, runs.ScoreOrder(), budget)
}

// ReadRules makes those of the configuration file's options.
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

// NewRules makes those of options, without evaluators.
func NewRules(options scoring.Options) (Rules, error) {
	rules, err := scoring.New(options)
	if err != nil {
		return Rules{}, err
	}
	raw, err := json.Marshal(options)
	return Rules{Scorer: rules, Raw: raw}, err
}
