package main

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

	"extraction-experiment/configs"
	"extraction-experiment/evaluator"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/harness/custom"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/wholefile"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// customScorers are the external evaluators that a configuration names.
type customScorers struct {
	extra     []custom.Extra
	described []outcome.CustomScorer
	opened    []openedEvaluator
}

func (s customScorers) close() error {
	var problems []error
	for _, o := range s.opened {
		problems = append(problems, o.close())
	}
	return errors.Join(problems...)
}

// openScorers opens the evaluators under scorers: in the file at path, and looks
// whether each is certified. Every problem is reported at once.
func openScorers(ctx context.Context, env cli.Env, file configs.Experiment, path string) (customScorers, error) {
	var all customScorers
	var problems []error
	for i, entry := range file.Scorers {
		if err := all.open(ctx, env, entry, filepath.Dir(path)); err != nil {
			problems = append(problems, fmt.Errorf("%s: scorers[%d] (%s): %w", path, i, entry.Name, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return all, errors.Join(withCode(err), all.close())
	}
	// What is wrong with the names is found before anything is connected.
	_, err := scorer{custom: all}.judge(nil)
	if err != nil {
		return all, errors.Join(fmt.Errorf("%s: %w", path, err), all.close())
	}
	return all, nil
}

func (s *customScorers) open(ctx context.Context, env cli.Env, entry configs.Scorer, dir string) error {
	timeout := time.Minute
	if entry.Timeout != "" {
		p := &problems{}
		if timeout = p.duration("timeout", entry.Timeout); len(p.found) > 0 {
			return cli.Usage("timeout: %q is not a time such as 30s", entry.Timeout)
		}
	}
	opened, err := openEvaluator(ctx, env, conformance.Spec{
		Script: entry.Script, URL: entry.URL, Model: entry.Model, Env: entry.Env,
		Prompt: entry.Prompt, PromptLabel: entry.PromptLabel, PromptVersion: entry.PromptVersion, PromptFile: entry.PromptFile,
	}, dir, timeout)
	if err != nil {
		return err
	}
	s.opened = append(s.opened, opened)
	described := outcome.CustomScorer{
		Name: entry.Name, Evaluator: strings.Join(opened.evaluator.Command(), " "), Criteria: entry.Criteria, Fingerprint: opened.fingerprint,
	}
	if err := certify(ctx, &described, entry, dir, opened); err != nil {
		return err
	}
	s.extra = append(s.extra, custom.Extra{Name: entry.Name, Criteria: entry.Criteria, Evaluator: opened.evaluator})
	s.described = append(s.described, described)
	return nil
}

// check finds evaluators that are not there, before anything is paid for.
func (s customScorers) check(ctx context.Context) error {
	var problems []error
	for i, o := range s.opened {
		if err := o.check(ctx); err != nil {
			problems = append(problems, fmt.Errorf("the evaluator of %s cannot be asked: %w", s.described[i].Name, err))
		}
	}
	return errors.Join(problems...)
}

// within has the judging models draw on the budget of the run, nil for none, and
// returns the evaluators for it.
func (s customScorers) within(budget *pipeline.Budget) ([]custom.Extra, error) {
	extra := slices.Clone(s.extra)
	for i, o := range s.opened {
		judge, ok := o.evaluator.(*evaluator.Evaluator)
		if !ok || o.model == "" || budget == nil {
			continue
		}
		own, err := budget.For(o.model)
		if err == nil {
			extra[i].Evaluator, err = judge.Within(own)
		}
		if err != nil {
			return nil, fmt.Errorf("the model that gives %s: %w", extra[i].Name, withCode(err))
		}
	}
	return extra, nil
}

// budget bounds what judging models take of a run whose own system has no budget,
// as a team's pipeline has none; nil where there are no such models, or no bound.
func (s customScorers) budget(c limitsConfig, getenv func(string) string) (*pipeline.Budget, error) {
	at := slices.IndexFunc(s.opened, func(o openedEvaluator) bool { return o.model != "" })
	if at < 0 || c.usd == 0 && c.tokens == 0 {
		return nil, nil
	}
	known, err := readCatalogue(getenv)
	if err != nil {
		return nil, err
	}
	budget, err := pipeline.NewBudget(pipeline.BudgetConfig{USD: c.usd, Tokens: int64(c.tokens), Model: s.opened[at].model, Prices: known.price})
	return budget, withCode(err)
}

// judges counts the language models among the evaluators.
func (s customScorers) judges() (n int) {
	for _, o := range s.opened {
		if o.model != "" {
			n++
		}
	}
	return n
}

// certify says what the certificate of an evaluator is worth: why it counts as not
// certified, or on what terms it is.
func certify(ctx context.Context, c *outcome.CustomScorer, entry configs.Scorer, dir string, opened openedEvaluator) error {
	if entry.Certificate == "" {
		c.Uncertified = "it has no certificate (experiment conformance --output FILE writes one)"
		return nil
	}
	raw, err := wholefile.Read(ctx, filepath.Join(dir, entry.Certificate), wholefile.MaxText)
	if errors.Is(err, os.ErrNotExist) {
		c.Uncertified = fmt.Sprintf("its certificate %s is not there", entry.Certificate)
		return nil
	}
	if err != nil {
		return cli.Usage("reading the certificate: %w", err)
	}
	var r conformance.Report
	if json.Unmarshal(raw, &r) != nil || len(r.Evaluator) == 0 {
		return cli.Usage("the certificate %s is no report of experiment conformance: give the file that its --output wrote", entry.Certificate)
	}
	switch {
	case !slices.Equal(r.Evaluator, opened.evaluator.Command()):
		c.Uncertified = fmt.Sprintf("the certificate %s is that of %s", entry.Certificate, strings.Join(r.Evaluator, " "))
	case !r.Passed() || r.TotalRuns == 0:
		c.Uncertified = fmt.Sprintf("it did not pass (%s)", entry.Certificate)
	case r.Fingerprint != opened.fingerprint:
		c.Uncertified = fmt.Sprintf("it has changed since it was certified (%s)", entry.Certificate)
	default:
		c.Certified, c.Weak = r.Terms(), strings.Join(r.Weak(), "; ")
	}
	return nil
}

// customNames are the names of the scores under scorers: in a file.
func customNames(file configs.Experiment) []string {
	var names []string
	for _, entry := range file.Scorers {
		names = append(names, entry.Name)
	}
	return names
}

// customText describes custom scorers to compare them when a run is resumed.
func customText(list []outcome.CustomScorer) string {
	var parts []string
	for _, c := range list {
		parts = append(parts, fmt.Sprintf("%s = %s (%s) %s", c.Name, c.Evaluator, c.Fingerprint, c.Criteria))
	}
	return strings.Join(parts, "; ")
}
