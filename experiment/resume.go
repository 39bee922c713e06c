package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// resume opens the run of that name, if its items were listed, and checks that
// it is the same experiment. A run that was stopped before that has nothing to
// continue with, and its source may have changed: it is removed to begin again.
func (e *execution) resume() (listed bool, err error) {
	h := e.cfg.Header
	if _, err := os.Stat(e.cfg.Path); err != nil {
		return false, cli.Usage("there is no run %q of %s to resume (%s is missing)", h.Name, h.Dataset.Name, e.cfg.Path)
	}
	run, err := runstore.Open(e.cfg.Path)
	if err != nil {
		return false, err
	}
	began, err := run.Header(context.Background())
	if err == nil {
		err = sameExperiment(began, h, e.cfg.Keep)
	}
	if err != nil {
		return false, errors.Join(err, run.Close())
	}
	if began.Dataset.Fingerprint == "" { // not all items are listed
		return false, errors.Join(run.Close(), os.Remove(e.cfg.Path))
	}
	e.run, e.result.Header = run, began
	return true, nil
}

// NeverBegun returns a note if none of the named runs has begun, as after a process that
// was killed at its start: they begin then. The note is empty if one of them exists. If
// there is a run with a similar name beside one of the files, that is an error, since it
// may be meant; names that differ only in their numbers are not mistakes.
func NeverBegun(ctx context.Context, names, paths []string) (note string, err error) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return "", nil
		}
	}
	entries, err := runstore.List(ctx, Folder)
	if err != nil {
		return "", cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	for i, name := range names {
		var similar []string
		for _, e := range entries {
			if other := e.Header.Name; filepath.Dir(e.Path) == filepath.Dir(paths[i]) && withoutDigits(other) != withoutDigits(name) {
				similar = append(similar, other)
			}
		}
		if hint := textutil.Hint(name, similar); hint != "" {
			return "", cli.Usage("there is no run %q to resume%s (without --resume it begins)", name, hint)
		}
	}
	return fmt.Sprintf("there is no run %s to resume: it begins now", strings.Join(names, ", ")), nil
}

func withoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, name)
}

// sameExperiment refuses to continue with a run under other settings: its numbers
// would be a mixture.
func sameExperiment(began, now outcome.Header, keep Keep) error {
	// What only describes the run may be left out when it is resumed.
	if keep.Description {
		now.Description = began.Description
	}
	if keep.Metadata {
		now.Metadata = began.Metadata
	}
	if keep.Environment {
		now.Environment, now.Publication.ScoreEnvironment = began.Environment, began.ScoreEnvironment()
	}
	// So may mentions, which versions that asked nothing sent always.
	if began.Publication.Form == 0 || began.Publication.Mentions {
		now.Publication.Mentions = began.Publication.Mentions
	}
	if now.Publication.Scores == nil {
		now.Publication.Scores = scoresToPublish(began)
	}
	if began.Dataset.Fingerprint == "" || now.Dataset.Fingerprint == "" { // not all items are known
		now.Dataset.Fingerprint = began.Dataset.Fingerprint
	}
	if began.System.Endpoint == "" { // of a version that did not note it
		now.System.Endpoint = ""
	}
	before, after := facts(began), facts(now)
	all := maps.Clone(before)
	maps.Copy(all, after)
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if before[name] != after[name] {
			differences = append(differences, name+": began with "+cmp.Or(before[name], "none")+", now "+cmp.Or(after[name], "none"))
		}
	}
	if len(differences) == 0 {
		return nil
	}
	return cli.Usage("the run %q is another experiment:\n  %s\nresume it with the settings that it began with, or use another name such as %s-%s",
		began.Name, strings.Join(differences, "\n  "), began.Name, time.Now().UTC().Format("0102-1504"))
}

// scoresToPublish are those that a run sends besides the default ones; one of a
// version that did not choose sends all.
func scoresToPublish(h outcome.Header) []string {
	if h.Publication.Form == 0 {
		return []string{outcome.AllScores}
	}
	return h.Publication.Scores
}

// facts are what makes a run the experiment that it is, by name. The label that led to a prompt's
// version may have moved since; the version and its text are what counts.
func facts(h outcome.Header) map[string]string {
	s := h.System
	all := map[string]string{
		"description": h.Description, "environment": h.Environment, "environment of scores": h.ScoreEnvironment(),
		"looked-up mentions": "not sent", "scores to publish": strings.Join(scoresToPublish(h), ","),
		"items (sha256)": h.Dataset.Fingerprint, "selection of items": h.Dataset.Selection,
		"trials": strconv.Itoa(max(1, h.Trials)),
		"model":  s.Model, "provider": s.Provider, "pipeline": s.Pipeline, "server of the model": s.Endpoint,
		"temperature": given(s.Temperature), "top_p": given(s.TopP), "max_tokens": given(s.MaxTokens), "seed": given(s.Seed),
		"text of the prompt (sha256)": s.Prompt.SHA256,
		"scorer version":              h.Scorer.Version, "scoring options": string(h.Scorer.Options), "harness": h.Harness,
	}
	if h.Publication.Mentions {
		all["looked-up mentions"] = "sent"
	}
	if s.Prompt.Name != "" {
		all["prompt"] = fmt.Sprintf("%s@%d", s.Prompt.Name, s.Prompt.Version)
	}
	for _, c := range h.Scorer.Custom {
		all["scorer "+c.Name] = fmt.Sprintf("%s (%s) %s", c.Evaluator, c.Fingerprint, c.Criteria)
	}
	for key, value := range h.Metadata {
		if !strings.HasPrefix(key, "langfuse.") { // where it began; it may go on elsewhere
			all["metadata "+key] = value
		}
	}
	return all
}

func given[T any](value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(*value)
}
