package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/nearest"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// neverBegun says that none of the runs which --resume means has begun, as a process
// leaves them that was killed at its start: they begin then; "" where one is there. A
// run of a similar name is an error, as it may be meant; names that differ in their
// numbers only are no mistakes.
func neverBegun(ctx context.Context, names, paths []string) (note string, err error) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return "", nil
		}
	}
	entries, err := listRuns(ctx)
	if err != nil {
		return "", err
	}
	for i, name := range names {
		var similar []string
		for _, e := range entries {
			if other := e.Header.Name; filepath.Dir(e.Path) == filepath.Dir(paths[i]) && withoutDigits(other) != withoutDigits(name) {
				similar = append(similar, other)
			}
		}
		if hint := nearest.Hint(name, similar); hint != "" {
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

// beginIfNever begins the run if --resume names one that was never begun; see
// neverBegun.
func (j *job) beginIfNever(ctx context.Context) error {
	if !j.cfg.resume || j.cfg.retry {
		return nil
	}
	note, err := neverBegun(ctx, []string{j.cfg.name}, []string{j.path})
	if note != "" {
		j.begins = note
		j.cfg.beginAnew()
	}
	return err
}

// resume opens the run of that name, if its items were listed, and checks that
// it is the same experiment. A run that was stopped before that has nothing to
// go on with, and its source may have changed: it is removed to begin again.
func (j *job) resume(h outcome.Header) (listed bool, err error) {
	if _, err := os.Stat(j.path); err != nil {
		return false, cli.Usage("there is no run %q of %s to resume (%s is missing)", h.Name, h.Dataset.Name, j.path)
	}
	run, err := runstore.Open(j.path)
	if err != nil {
		return false, err
	}
	began, err := run.Header(context.Background())
	if err == nil {
		err = sameExperiment(began, h, j.cfg)
	}
	if err == nil {
		listed, err = run.Listed(context.Background())
	}
	if err != nil {
		return false, closing(run, err)
	}
	if !listed {
		return false, errors.Join(run.Close(), os.Remove(j.path))
	}
	j.run, j.source = run, noSource{}
	return true, nil
}

// scoresToPublish are those that a run sends besides the default ones; one of a
// version that did not choose sends all.
func scoresToPublish(h outcome.Header) []string {
	if h.Publication.Form == 0 {
		return []string{outcome.AllScores}
	}
	return h.Publication.Scores
}

// noSource stands for the source of a run whose items are in its file already.
type noSource struct{}

func (noSource) Pages(context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(func([]dataset.Item, error) bool) {}
}

// sameExperiment refuses to go on with a run under other settings: its numbers
// would be a mixture.
func sameExperiment(began, now outcome.Header, cfg runConfig) error {
	// What only describes the run may be left out when it is resumed.
	if cfg.description == "" {
		now.Description = began.Description
	}
	if len(cfg.metadata) == 0 {
		now.Metadata = began.Metadata
	}
	if !cfg.environmentGiven {
		now.Environment, now.Publication.ScoreEnvironment = began.Environment, began.ScoreEnvironment()
	}
	// So may mentions, which versions that asked nothing sent always.
	if began.Publication.Form == 0 || began.Publication.Mentions {
		now.Publication.Mentions = began.Publication.Mentions
	}
	if now.Publication.Scores == nil {
		now.Publication.Scores = scoresToPublish(began)
	}
	var differences []string
	note := func(what, began, now string) {
		if began != now {
			differences = append(differences, fmt.Sprintf("%s: began with %s, now %s", what, orNone(began), orNone(now)))
		}
	}
	note("description", began.Description, now.Description)
	note("metadata", pairs(began.Metadata), pairs(now.Metadata))
	note("environment", began.Environment, now.Environment)
	note("environment of scores", began.ScoreEnvironment(), now.ScoreEnvironment())
	note("looked-up mentions", sentOrNot(began.Publication.Mentions), sentOrNot(now.Publication.Mentions))
	note("scores to publish", strings.Join(scoresToPublish(began), ","), strings.Join(now.Publication.Scores, ","))
	note("trials", strconv.Itoa(max(1, began.Trials)), strconv.Itoa(max(1, now.Trials)))
	if began.System.Endpoint == "" { // of a version that did not note it
		now.System.Endpoint = ""
	}
	before, after := facts(began.System), facts(now.System)
	for i, f := range before {
		note(f.name, f.value, after[i].value)
	}
	note("selection of items", began.Dataset.Selection, now.Dataset.Selection)
	note("scorer version", began.Scorer.Version, now.Scorer.Version)
	note("scorers", customText(began.Scorer.Custom), customText(now.Scorer.Custom))
	note("scoring options", string(began.Scorer.Options), string(now.Scorer.Options))
	note("harness", began.Harness, now.Harness)
	if len(differences) == 0 {
		return nil
	}
	return cli.Usage("the run %q is another experiment:\n  %s\nresume it with the settings that it began with, or use another name such as %s-%s",
		began.Name, strings.Join(differences, "\n  "), began.Name, time.Now().UTC().Format("0102-1504"))
}

// changedSource says what is known of the items' file since the run began: it
// goes on with those that it has. source is what was read of the file already;
// nil reads it.
func (j *job) changedSource(ctx context.Context, source experiment.Source, filter dataset.Filter) (string, error) {
	header, err := j.run.Header(ctx)
	if err != nil || header.Dataset.ID != "" { // in Langfuse it has a version, which is pinned
		return "", err
	}
	const goesOn = "the run goes on with the items that it began with"
	if _, err := os.Stat(j.cfg.dataset); err != nil {
		return fmt.Sprintf("the dataset %s is not there any more; %s", j.cfg.dataset, goesOn), nil
	}
	if source == nil {
		source = experiment.File(j.cfg.dataset)
	}
	sum, err := fingerprint(ctx, experiment.Selected{Source: source, Filter: filter})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return fmt.Sprintf("the dataset changed since the run began (%v); %s", err, goesOn), nil
	case sum != header.Dataset.Fingerprint:
		return "the dataset changed since the run began; " + goesOn, nil
	}
	return "", nil
}

// fingerprint reads a source to its end and keeps ids and hashes alone.
func fingerprint(ctx context.Context, source experiment.Source) (string, error) {
	type line struct{ id, hash string }
	var lines []line
	for page, err := range source.Pages(ctx) {
		if err != nil {
			return "", err
		}
		for _, item := range page {
			hash, err := dataset.Hash(item)
			if err != nil {
				return "", err
			}
			lines = append(lines, line{item.ID, hash})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.id, b.id) })
	var f dataset.Fingerprint
	for _, l := range lines {
		if err := f.Add(l.id, l.hash); err != nil {
			return "", err
		}
	}
	return f.Sum(), nil
}

func sentOrNot(mentions bool) string {
	if mentions {
		return "sent"
	}
	return "not sent"
}

func orNone(value string) string {
	if value == "" {
		return "none"
	}
	return value
}

func pairs(metadata map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		words = append(words, key+"="+metadata[key])
	}
	return strings.Join(words, " ")
}

// fact is one thing that makes a system what it is.
type fact struct{ name, value string }

// facts takes a system apart. The label that led to a prompt's version may have
// moved since; the version and its text are what counts.
func facts(s outcome.System) []fact {
	prompt := ""
	if s.Prompt.Name != "" {
		prompt = fmt.Sprintf("%s@%d", s.Prompt.Name, s.Prompt.Version)
	}
	return []fact{
		{"model", s.Model}, {"provider", s.Provider}, {"pipeline", s.Pipeline}, {"server of the model", s.Endpoint},
		{"temperature", given(s.Temperature)}, {"top_p", given(s.TopP)}, {"max_tokens", given(s.MaxTokens)}, {"seed", given(s.Seed)},
		{"prompt", prompt}, {"text of the prompt (sha256)", s.Prompt.SHA256},
	}
}

func given[T any](value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(*value)
}

// closing closes a run on the way out with an error.
func closing(run *runstore.Run, err error) error {
	if closed := run.Close(); closed != nil {
		return fmt.Errorf("%w (and closing the run: %v)", err, closed)
	}
	return err
}
