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

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// resume opens the run of that name and checks that it is the same experiment. listed is false
// if the run was stopped before its items were listed: it is removed to begin again, since its
// source may have changed.
func (e *execution) resume() (listed bool, err error) {
	h := e.cfg.Header
	if _, err := os.Stat(e.cfg.Path); err != nil {
		of := strings.TrimSuffix(" of "+h.Dataset.Name, " of ") // items in memory may have no name
		return false, cli.Usage("there is no run %q%s to resume (%s is missing)", h.Name, of, e.cfg.Path)
	}
	run, err := runstore.Open(e.cfg.Path)
	if err != nil {
		return false, err
	}
	header, err := run.Header(context.Background())
	if err == nil {
		err = checkSameExperiment(header, h, e.cfg.Keep)
	}
	if err == nil && e.cfg.Langfuse != nil && header.Dataset.Fingerprint != "" {
		err = e.cfg.Langfuse.checkProject(context.Background(), run.Reader)
	}
	if err != nil {
		return false, errors.Join(err, run.Close())
	}
	if header.Dataset.Fingerprint == "" {
		return false, run.Remove()
	}
	e.run, e.result.Header = run, header
	return true, nil
}

// CheckResumable checks runs that are to be resumed. If none of them exists, as after a process
// that was killed at its start, it returns a note that they begin; otherwise the note is empty.
// If none exists but a run with a similar name is beside one of the files, that is an error,
// since that run may be meant. Names that differ only in their numbers are not mistakes.
func CheckResumable(ctx context.Context, names, paths []string) (note string, err error) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return "", nil
		}
	}
	entries, err := runstore.List(ctx, Folder)
	if err != nil {
		return "", cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	letters := func(name string) string { return digits().ReplaceAllString(name, "") }
	for i, name := range names {
		var similar []string
		for _, e := range entries {
			if other := e.Header.Name; filepath.Dir(e.Path) == filepath.Dir(paths[i]) && letters(other) != letters(name) {
				similar = append(similar, other)
			}
		}
		if hint := textutil.Hint(name, similar); hint != "" {
			return "", cli.Usage("there is no run %q to resume%s (without --resume it begins)", name, hint)
		}
	}
	return fmt.Sprintf("there is no run %s to resume: it begins now", strings.Join(names, ", ")), nil
}

var digits = textutil.Pattern(`\p{Nd}`)

// checkSameExperiment refuses to continue a run with other settings, since its numbers would be
// a mixture.
func checkSameExperiment(old, current outcome.Header, keep Keep) error {
	// Settings that only describe the run may be left out when it is resumed.
	if keep.Description {
		current.Description = old.Description
	}
	if keep.Metadata {
		current.Metadata = old.Metadata
	}
	if keep.Environment {
		current.Environment, current.Publication.ScoreEnvironment = old.Environment, old.ScoreEnvironment()
	}
	// So may mentions, which older versions always sent.
	if old.Publication.Form == 0 || old.Publication.Mentions {
		current.Publication.Mentions = old.Publication.Mentions
	}
	if current.Publication.Scores == nil {
		current.Publication.Scores = scoresToPublish(old)
	}
	if old.Dataset.Fingerprint == "" || current.Dataset.Fingerprint == "" { // not all items are listed
		current.Dataset.Fingerprint = old.Dataset.Fingerprint
	}
	if old.System.Endpoint == "" { // older versions did not record it
		current.System.Endpoint = ""
	}
	before, after := settingsOf(old), settingsOf(current)
	names := maps.Clone(before)
	maps.Copy(names, after)
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] != after[name] {
			differences = append(differences, name+": began with "+cmp.Or(before[name], "none")+", now "+cmp.Or(after[name], "none"))
		}
	}
	if len(differences) == 0 {
		return nil
	}
	return cli.Usage("the run %q is another experiment:\n  %s\nresume it with the settings that it began with, or use another name such as %s-%s",
		old.Name, strings.Join(differences, "\n  "), old.Name, time.Now().UTC().Format("0102-1504"))
}

// scoresToPublish returns the scores that a run sends besides the default ones. A run of a
// version without that choice sends all.
func scoresToPublish(h outcome.Header) []string {
	if h.Publication.Form == 0 {
		return []string{outcome.AllScores}
	}
	return h.Publication.Scores
}

// settingsOf returns the settings that make a run the experiment that it is, by name. The label
// of a prompt is not among them, since it may move to another version; the prompt's version and
// text count.
func settingsOf(h outcome.Header) map[string]string {
	s := h.System
	settings := map[string]string{
		"name": h.Name, "description": h.Description, "environment": h.Environment, "environment of scores": h.ScoreEnvironment(),
		"looked-up mentions": "not sent", "scores to publish": strings.Join(scoresToPublish(h), ","),
		"items (sha256)": h.Dataset.Fingerprint, "selection of items": h.Dataset.Selection,
		"trials": strconv.Itoa(max(1, h.Trials)),
		"model":  s.Model, "provider": s.Provider, "pipeline": s.Pipeline, "server of the model": s.Endpoint,
		"text of the prompt (sha256)": s.Prompt.SHA256,
		"scorer version":              h.Scorer.Version, "scoring options": string(h.Scorer.Options), "harness": h.Harness,
	}
	for _, p := range s.Parameters.List() {
		settings[p.Name] = p.Text()
	}
	if h.Publication.Mentions {
		settings["looked-up mentions"] = "sent"
	}
	if s.Prompt.Name != "" {
		settings["prompt"] = strings.TrimSuffix(fmt.Sprintf("%s@%d", s.Prompt.Name, s.Prompt.Version), "@0")
	}
	for _, c := range h.Scorer.Custom {
		settings["scorer "+c.Name] = fmt.Sprintf("%s (%s) %s", c.Evaluator, c.Fingerprint, c.Criteria)
	}
	for key, value := range h.Metadata {
		if !strings.HasPrefix(key, "langfuse.") { // where the run began; it may continue elsewhere
			settings["metadata "+key] = value
		}
	}
	return settings
}
