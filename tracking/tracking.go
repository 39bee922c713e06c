// Package tracking publishes runs in Langfuse: Dataset lists the items of a Langfuse
// dataset for a run, FindPrompt reads its prompt, Publish sends the contents of a run file to
// Langfuse, and Verify reads them back and compares. No other package of the project writes runs
// to Langfuse.
//
// Whatever the package sends is a pure function of the header, the experiment id and the
// outcome: it derives the ids, and takes the times from the run file. Sending anything
// twice therefore changes nothing that a reader sees, and publishing, resuming and
// repairing are the same call:
//
//	site := tracking.Site{Client: client, Server: server}
//	err := tracking.Publish(ctx, tracking.Config{Site: site, Run: run, …}, finished)
//	verification, err := tracking.Verify(ctx, tracking.VerifyConfig{Site: site, Run: run.Reader, …})
//
// Repair resets the acknowledgements in the run file of whatever Langfuse does not have, and
// publishes.
package tracking

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// identity derives every id of one outcome from the run, so that sending the outcome again
// replaces it.
type identity struct {
	runUID  string
	item    string
	trial   int
	attempt int
}

func identify(h outcome.Header, o outcome.Outcome) identity {
	return identity{h.RunUID, o.Item, o.Trial, o.Attempt}
}

// trace returns the id of the outcome's trace, 32 hexadecimal digits.
func (id identity) trace() string { return id.derive(16, "trace") }

// span returns the id of a span of the trace, 16 hexadecimal digits. The root has position
// 0, and call i has position i+1.
func (id identity) span(position int) string { return id.derive(8, "span", strconv.Itoa(position)) }

// score returns the id of the named score, 32 hexadecimal digits.
func (id identity) score(name string) string { return id.derive(16, "score", name) }

func (id identity) derive(bytes int, what ...string) string {
	parts := append([]string{id.runUID, strconv.Itoa(id.trial), id.item, strconv.Itoa(id.attempt)}, what...)
	return digest(bytes, parts...)
}

// digest returns the first bytes of the SHA-256 of parts in hexadecimal. It hashes parts as
// a JSON array, so that different lists have different encodings whatever they contain.
func digest(bytes int, parts ...string) string {
	text := append(make([]byte, 0, 256), '[')
	for i, part := range parts {
		if i > 0 {
			text = append(text, ',')
		}
		text = textutil.AppendJSONText(text, part)
	}
	sum := sha256.Sum256(append(text, ']'))
	return hex.EncodeToString(sum[:bytes])
}

// maxOwnAttempts is the number of attempts whose score ids isOwnScore derives at most.
const maxOwnAttempts = 1000

// isOwnScore returns a function that reports whether an id belongs to a score of the
// outcome's item, in this attempt or an earlier one. It derives the ids when it is called,
// which is rare.
func isOwnScore(h outcome.Header, o outcome.Outcome) func(id string) bool {
	return func(id string) bool {
		for attempt := 1; attempt <= min(o.Attempt, maxOwnAttempts); attempt++ {
			own := identity{h.RunUID, o.Item, o.Trial, attempt}
			if slices.ContainsFunc(o.Scores, func(s outcome.Score) bool { return own.score(s.Name) == id }) {
				return true
			}
		}
		return false
	}
}

// TraceID returns the id of the Langfuse trace of an outcome: 32 hexadecimal digits.
func TraceID(h outcome.Header, o outcome.Outcome) string { return identify(h, o).trace() }

// RunName returns the name of a trial in Langfuse: the run's name for the first trial, and
// "name#2" and so on for the others, because Langfuse keeps one row per item and run.
func RunName(h outcome.Header, trial int) string {
	if trial <= 1 {
		return h.Name
	}
	return h.Name + "#" + strconv.Itoa(trial)
}

// Metadata returns the flat metadata of a trial: the fixed keys that have a value in this
// run, in the same form on every run so that lists of runs line up, and the user's own
// keys. A user's key does not replace a fixed key of the same name; see FixedKeys. Metadata
// holds only the scoring options that differ from the default. With Form 0 it holds all
// scoring options, and empty values too.
func Metadata(h outcome.Header, trial int) map[string]string {
	m := map[string]string{}
	maps.Copy(m, h.Metadata)
	maps.Copy(m, fixedMetadata(h, trial))
	if h.Publication.Form > 0 {
		maps.DeleteFunc(m, func(_, value string) bool { return value == "" })
	}
	return m
}

// headerTexts returns pointers to the strings of a header that are metadata of its run, by
// key.
func headerTexts(h *outcome.Header) map[string]*string {
	return map[string]*string{
		"model":               &h.System.Model,
		"provider":            &h.System.Provider,
		"pipeline":            &h.System.Pipeline,
		"prompt_name":         &h.System.Prompt.Name,
		"prompt_label":        &h.System.Prompt.Label,
		"dataset_version":     &h.Dataset.Version,
		"dataset_fingerprint": &h.Dataset.Fingerprint,
		"selection":           &h.Dataset.Selection,
		"scorer_version":      &h.Scorer.Version,
		"primary_score":       &h.Scorer.Primary,
		"harness":             &h.Harness,
		"git_sha":             &h.GitSHA,
		"runner_version":      &h.Runner,
	}
}

// RescoredFrom is the key of Metadata that names the run of which another one has the results,
// scored again.
const RescoredFrom = "rescored_from"

func fixedMetadata(h outcome.Header, trial int) map[string]string {
	s := h.System
	m := map[string]string{
		"prompt_version": "",
		"scorer_options": changedOptions(h.Scorer.Options),
		"evaluators":     "",
		RescoredFrom:     "",
		"trial":          strconv.Itoa(trial),
	}
	for key, text := range headerTexts(&h) {
		m[key] = *text
	}
	for _, p := range s.Parameters.List() {
		m[p.Name] = p.Text()
	}
	if s.Prompt.Name != "" {
		m["prompt_version"] = strconv.Itoa(s.Prompt.Version)
	}
	if len(h.Scorer.Custom) > 0 {
		m["evaluators"] = string(mustMarshal(h.Scorer.Custom))
	}
	if h.Rescored != nil {
		m[RescoredFrom] = h.Rescored.Name
	}
	if h.Publication.Form == 0 {
		m["scorer_options"] = string(h.Scorer.Options)
		for _, key := range []string{"harness", "selection", "primary_score", "evaluators", RescoredFrom} {
			delete(m, key)
		}
	}
	return m
}

// changedOptions returns the scoring options that differ from the default as a JSON object,
// or "" if none does. If it cannot decode the options it returns them unchanged.
func changedOptions(all json.RawMessage) string {
	var options, standard map[string]json.RawMessage
	if json.Unmarshal(all, &options) != nil || json.Unmarshal(mustMarshal(scoring.DefaultOptions()), &standard) != nil {
		return string(all)
	}
	maps.DeleteFunc(options, func(key string, value json.RawMessage) bool { return bytes.Equal(value, standard[key]) })
	if len(options) == 0 {
		return ""
	}
	return string(mustMarshal(options))
}

// allOptions is the inverse of changedOptions. It adds the defaults only for the current
// scorer version, because it does not know those of other versions and other scorers. It
// returns nil if recorded is not JSON.
func allOptions(version, recorded string) json.RawMessage {
	raw := json.RawMessage(recorded)
	if version == scoring.Version {
		all, err := scoring.ParseOptions([]byte(cmp.Or(recorded, "{}")), scoring.DefaultOptions())
		if err == nil {
			return mustMarshal(all)
		}
	}
	if !textutil.ValidJSON(raw) {
		return nil
	}
	return raw
}

// description returns the description of a run in Langfuse: what comparison pages do not
// show otherwise, followed by the user's description.
func description(h outcome.Header) string {
	text := h.System.Model
	if p := h.System.Prompt; p.Name != "" {
		text += ", prompt " + p.Name + "@" + strconv.Itoa(p.Version)
	}
	if t := h.System.Temperature; t != nil {
		text += ", temperature " + fmt.Sprint(*t)
	}
	if h.Description != "" {
		text += ": " + h.Description
	}
	return text
}

// FixedKeys returns the keys of Metadata that the program sets, sorted.
func FixedKeys() []string {
	return slices.Sorted(maps.Keys(fixedMetadata(outcome.Header{Publication: outcome.Publication{Form: outcome.PublicationForm}}, 1)))
}

// period is the time between the start and the end of a span.
type period struct{ start, end time.Time }

// spanPeriods returns the periods of an outcome's spans in Langfuse: the root, and one for
// each call. Langfuse shows the length of the root as the latency of the item, so the root
// has the latency of the run file, which excludes waiting: calls move closer together by the
// time that they waited. Calls keep their length and their overlap, and lie within the root.
// The latency excludes judging models too: their calls have no length and stand at the end
// of the root. The real times are in the metadata.
//
// With Form 0 every period has its real times.
func spanPeriods(h outcome.Header, o outcome.Outcome) (root period, calls []period) {
	calls = make([]period, len(o.Calls))
	if h.Publication.Form == 0 {
		for i, c := range o.Calls {
			calls[i] = period{c.Started, latest(c.Started, c.Ended)}
		}
		return period{o.Started, latest(o.Started, o.Ended)}, calls
	}
	root = period{o.Started, o.Started.Add(max(0, o.Latency))}
	waits := outcome.WaitsOf(o.Calls)
	lastEnd := root.end
	for i, c := range o.Calls {
		if c.Kind == outcome.JudgingKind {
			calls[i] = period{root.end, root.end}
			continue
		}
		calls[i] = period{c.Started.Add(-waits.Before(c.Started)), c.Ended.Add(-waits.Before(c.Ended))}
		lastEnd = latest(lastEnd, calls[i].end)
	}
	overrun := lastEnd.Sub(root.end) // positive if the clock was set, or if a pipeline reports odd times
	for i, c := range o.Calls {
		if c.Kind != outcome.JudgingKind {
			calls[i] = calls[i].shiftInto(root, overrun)
		}
	}
	return root, calls
}

// shiftInto moves a period to an earlier time, and then into root, cutting what is too long.
func (p period) shiftInto(root period, earlier time.Duration) period {
	start := latest(root.start, p.start.Add(-earlier))
	if start.After(root.end) {
		start = root.end
	}
	length := min(max(0, p.end.Sub(p.start)), root.end.Sub(start))
	return period{start, start.Add(length)}
}
