package tracking

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// Metadata returns the flat metadata of a trial: what the run has of the fixed
// keys, in one form on every run so that lists of runs line up, and the user's
// own. A user's key of the same name as a fixed one does not replace it; see
// FixedKeys. Of the scoring options there are those that differ from the
// default; with Form 0 all, and empty values, too.
func Metadata(h outcome.Header, trial int) map[string]string {
	m := map[string]string{}
	maps.Copy(m, h.Metadata)
	maps.Copy(m, fixedMetadata(h, trial))
	if h.Publication.Form > 0 {
		maps.DeleteFunc(m, func(_, value string) bool { return value == "" })
	}
	return m
}

func fixedMetadata(h outcome.Header, trial int) map[string]string {
	s := h.System
	m := map[string]string{
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
	}
	if s.Prompt.Name != "" {
		m["prompt_version"] = strconv.Itoa(s.Prompt.Version)
	}
	if h.Publication.Form > 0 {
		m["scorer_options"] = changedOptions(h.Scorer.Options)
		maps.Copy(m, map[string]string{
			"harness": h.Harness, "selection": h.Dataset.Selection, "primary_score": h.Scorer.Primary, "evaluators": "",
		})
		if len(h.Scorer.Custom) > 0 {
			m["evaluators"] = string(encode(h.Scorer.Custom))
		}
	}
	return m
}

// changedOptions returns the scoring options that differ from the default, as a
// JSON object; "" where none does. What cannot be read is returned as it is.
func changedOptions(all json.RawMessage) string {
	var options, standard map[string]json.RawMessage
	if json.Unmarshal(all, &options) != nil || json.Unmarshal(encode(scoring.DefaultOptions()), &standard) != nil {
		return string(all)
	}
	maps.DeleteFunc(options, func(key string, value json.RawMessage) bool { return bytes.Equal(value, standard[key]) })
	if len(options) == 0 {
		return ""
	}
	return string(encode(options))
}

// allOptions returns the scoring options that changedOptions was given. The
// defaults of other versions of the scorer, and of other scorers, are not known:
// of these there are those that were said.
func allOptions(version, said string) json.RawMessage {
	raw := json.RawMessage(said)
	if version == scoring.Version {
		all, err := scoring.ParseOptions([]byte(cmp.Or(said, "{}")), scoring.DefaultOptions())
		if err == nil {
			return encode(all)
		}
	}
	if !json.Valid(raw) {
		return nil
	}
	return raw
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
	return slices.Sorted(maps.Keys(fixedMetadata(outcome.Header{Publication: outcome.Publication{Form: outcome.PublicationForm}}, 1)))
}
