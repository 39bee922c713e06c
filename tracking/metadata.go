package tracking

import (
	"maps"
	"slices"
	"strconv"

	"extraction-experiment/outcome"
)

// Metadata returns the flat metadata of a trial: the same keys on every run, so
// that lists of runs line up, and the user's own. A user's key of the same name
// as a fixed one does not replace it; see FixedKeys.
func Metadata(h outcome.Header, trial int) map[string]string {
	m := map[string]string{}
	maps.Copy(m, h.Metadata)
	s := h.System
	maps.Copy(m, map[string]string{
		"model":               s.Model,
		"provider":            s.Provider,
		"pipeline":            s.Pipeline,
		"temperature":         number(s.Temperature),
		"top_p":               number(s.TopP),
		"max_tokens":          integer(s.MaxTokens),
		"seed":                integer(s.Seed),
		"prompt_name":         s.Prompt.Name,
		"prompt_version":      "",
		"prompt_label":        s.Prompt.Label,
		"dataset_version":     h.Dataset.Version,
		"dataset_fingerprint": h.Dataset.Fingerprint,
		"scorer_version":      h.Scorer.Version,
		"scorer_options":      string(h.Scorer.Options),
		"git_sha":             h.GitSHA,
		"runner_version":      h.Runner,
		"trial":               strconv.Itoa(trial),
	})
	if s.Prompt.Name != "" {
		m["prompt_version"] = strconv.Itoa(s.Prompt.Version)
	}
	return m
}

func number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

func integer[T int | int64](v *T) string {
	if v == nil {
		return ""
	}
	return strconv.FormatInt(int64(*v), 10)
}

// Description returns the text that stands beside a run in Langfuse: what
// comparison pages do not show otherwise, then the user's words.
func Description(h outcome.Header) string {
	text := h.System.Model
	if p := h.System.Prompt; p.Name != "" {
		text += ", prompt " + p.Name + "@" + strconv.Itoa(p.Version)
	}
	if t := h.System.Temperature; t != nil {
		text += ", temperature " + number(t)
	}
	if h.Description != "" {
		text += ": " + h.Description
	}
	return text
}

// FixedKeys returns the keys of Metadata that are the program's own.
func FixedKeys() []string {
	return slices.Sorted(maps.Keys(Metadata(outcome.Header{}, 1)))
}
