package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// continues checks that the run of the file is of the same cases and settings; one
// that is not there begins.
func (cfg Config) continues(ctx context.Context) (err error) {
	run, err := runstore.Load(cfg.Out)
	if errors.Is(err, runstore.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	began, err := run.Header(ctx)
	if err != nil {
		return err
	}
	now := cfg.header()
	if now.Dataset.Fingerprint, err = fingerprint(cfg.Cases); err != nil {
		return err
	}
	return same(began, now)
}

// same refuses to go on with a run under other settings: its numbers would be a
// mixture.
func same(began, now outcome.Header) error {
	if began.Harness != Name {
		return &WrongRunError{began.Name, began.Harness}
	}
	if began.Dataset.Fingerprint == "" { // it was stopped while its cases were listed
		now.Dataset.Fingerprint = ""
	}
	var differences []string
	note := func(what string, before, after any) {
		if before, after := fmt.Sprint(before), fmt.Sprint(after); before != after {
			differences = append(differences, fmt.Sprintf("%s: began with %s, now %s", what, cmp.Or(before, "none"), cmp.Or(after, "none")))
		}
	}
	note("cases (sha256)", began.Dataset.Fingerprint, now.Dataset.Fingerprint)
	note("mode", began.Metadata[keyMode], now.Metadata[keyMode])
	note("trials", began.Trials, now.Trials)
	note("version of the bench", began.Scorer.Version, now.Scorer.Version)
	note("model", began.System.Model, now.System.Model)
	note("provider", began.System.Provider, now.System.Provider)
	note("pipeline", began.System.Pipeline, now.System.Pipeline)
	note("server of the model", began.System.Endpoint, now.System.Endpoint)
	note("prompt (sha256)", began.System.Prompt.SHA256, now.System.Prompt.SHA256)
	if len(differences) == 0 {
		return nil
	}
	return &UsageError{fmt.Errorf("the run %q is another one:\n  %s\nresume it with what it began with, or choose another name", began.Name, strings.Join(differences, "\n  "))}
}

// fingerprint is that of the cases as the runner lists them.
func fingerprint(cases []Case) (string, error) {
	sorted := slices.SortedFunc(slices.Values(cases), func(a, b Case) int { return cmp.Compare(a.CaseID, b.CaseID) })
	var sum dataset.Fingerprint
	for _, c := range sorted {
		item, err := c.item()
		if err != nil {
			return "", err
		}
		hash, err := dataset.Hash(item)
		if err != nil {
			return "", err
		}
		if err := sum.Add(item.ID, hash); err != nil {
			return "", err
		}
	}
	return sum.Sum(), nil
}
