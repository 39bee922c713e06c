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
	"extraction-experiment/harness/conformance"
	"extraction-experiment/harness/custom"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
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
	_, err := scorer{custom: all}.judge()
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
		Script: entry.Script, URL: entry.URL, Model: entry.Model,
		Prompt: entry.Prompt, PromptLabel: entry.PromptLabel, PromptVersion: entry.PromptVersion, PromptFile: entry.PromptFile,
	}, dir, timeout)
	if err != nil {
		return err
	}
	s.opened = append(s.opened, opened)
	uncertified, err := doubt(entry, dir, opened)
	if err != nil {
		return err
	}
	s.extra = append(s.extra, custom.Extra{Name: entry.Name, Criteria: entry.Criteria, Evaluator: opened.evaluator})
	s.described = append(s.described, outcome.CustomScorer{
		Name: entry.Name, Evaluator: strings.Join(opened.evaluator.Command(), " "), Criteria: entry.Criteria,
		Fingerprint: opened.fingerprint, Uncertified: uncertified,
	})
	return nil
}

// doubt says why an evaluator counts as not certified; "" where it is certified.
func doubt(entry configs.Scorer, dir string, opened openedEvaluator) (string, error) {
	if entry.Certificate == "" {
		return "it has no certificate (experiment conformance --output FILE writes one)", nil
	}
	raw, err := os.ReadFile(filepath.Join(dir, entry.Certificate))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Sprintf("its certificate %s is not there", entry.Certificate), nil
	}
	if err != nil {
		return "", cli.Usage("reading the certificate: %w", err)
	}
	var r conformance.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", cli.Usage("the certificate %s is no report of experiment conformance: %w", entry.Certificate, err)
	}
	switch {
	case !slices.Equal(r.Evaluator, opened.evaluator.Command()):
		return fmt.Sprintf("the certificate %s is that of %s", entry.Certificate, strings.Join(r.Evaluator, " ")), nil
	case !r.Passed() || r.TotalRuns == 0:
		return fmt.Sprintf("it did not pass (%s)", entry.Certificate), nil
	case r.Fingerprint != opened.fingerprint:
		return fmt.Sprintf("it has changed since it was certified (%s)", entry.Certificate), nil
	}
	return "", nil
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
