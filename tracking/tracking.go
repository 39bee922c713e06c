// Package tracking is the publication of a run in Langfuse: Dataset lists the
// items of a Langfuse dataset for a run, Publish carries what a run file holds
// into Langfuse, and Verify reads it back and compares. Nothing else of the
// project writes runs there.
//
// What is sent is a pure function of the header, the experiment id and the
// outcome: ids are derived, times are those of the run file. Sending anything
// twice therefore changes nothing that a reader sees, and publishing, resuming
// and repairing are the same call:
//
//	site := tracking.Site{Client: client, Server: server}
//	err := tracking.Publish(ctx, tracking.Config{Site: site, Run: run, …}, finished)
//	verdict, err := tracking.Verify(ctx, tracking.VerifyConfig{Site: site, Run: run.Reader, …})
//
// Repair takes acknowledgements of what Langfuse does not have back in the run
// file, and publishes.
package tracking

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// identity derives every id of one outcome from the run, so that whatever is
// sent again is the same thing again.
type identity struct {
	runUID  string
	item    string
	trial   int
	attempt int
}

func identify(h outcome.Header, o outcome.Outcome) identity {
	return identity{h.RunUID, o.Item, o.Trial, o.Attempt}
}

// trace returns the id of the outcome's trace: 32 hexadecimal digits.
func (id identity) trace() string { return id.derive(16, "trace") }

// span returns the id of a span of the trace: position 0 is the root, call i
// has position i+1. 16 hexadecimal digits.
func (id identity) span(position int) string { return id.derive(8, "span", strconv.Itoa(position)) }

// score returns the id of the score of that name: 32 hexadecimal digits.
func (id identity) score(name string) string { return id.derive(16, "score", name) }

func (id identity) derive(bytes int, what ...string) string {
	parts := append([]string{id.runUID, strconv.Itoa(id.trial), id.item, strconv.Itoa(id.attempt)}, what...)
	return digest(bytes, parts...)
}

// digest hashes parts so that no two lists of parts meet, whatever they contain: as JSON.
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

// maxAttempts bounds for how many attempts ids are computed again.
const maxAttempts = 1000

// scoreOfAny returns a function that reports whether an id is that of a score
// of the outcome's item, in any attempt up to this one. Almost nobody asks.
func scoreOfAny(h outcome.Header, o outcome.Outcome) func(id string) bool {
	return func(id string) bool {
		for attempt := 1; attempt <= min(o.Attempt, maxAttempts); attempt++ {
			of := identity{h.RunUID, o.Item, o.Trial, attempt}
			if slices.ContainsFunc(o.Scores, func(s outcome.Score) bool { return of.score(s.Name) == id }) {
				return true
			}
		}
		return false
	}
}

// TraceID returns the id of the trace that an outcome of a run is recorded as.
func TraceID(h outcome.Header, o outcome.Outcome) string { return identify(h, o).trace() }

// RunName returns the name that a trial has in Langfuse: the run's name for
// the first, "name#2" and so on for the others, because Langfuse keeps one row
// per item and run.
func RunName(h outcome.Header, trial int) string {
	if trial <= 1 {
		return h.Name
	}
	return h.Name + "#" + strconv.Itoa(trial)
}

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

// texts returns the texts of a header that are metadata of its run, by key.
func texts(h *outcome.Header) map[string]*string {
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

func fixedMetadata(h outcome.Header, trial int) map[string]string {
	s := h.System
	m := map[string]string{
		"temperature":    optional(s.Temperature),
		"top_p":          optional(s.TopP),
		"max_tokens":     optional(s.MaxTokens),
		"seed":           optional(s.Seed),
		"prompt_version": "",
		"scorer_options": changedOptions(h.Scorer.Options),
		"evaluators":     "",
		"trial":          strconv.Itoa(trial),
	}
	for key, text := range texts(&h) {
		m[key] = *text
	}
	if s.Prompt.Name != "" {
		m["prompt_version"] = strconv.Itoa(s.Prompt.Version)
	}
	if len(h.Scorer.Custom) > 0 {
		m["evaluators"] = string(encode(h.Scorer.Custom))
	}
	if h.Publication.Form == 0 {
		m["scorer_options"] = string(h.Scorer.Options)
		for _, later := range []string{"harness", "selection", "primary_score", "evaluators"} {
			delete(m, later)
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
	if !textutil.ValidJSON(raw) {
		return nil
	}
	return raw
}

// optional returns a number as text; "" for none.
func optional[T int | int64 | float64](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

// description returns the text that is beside a run in Langfuse: what
// comparison pages do not show otherwise, then the user's words.
func description(h outcome.Header) string {
	text := h.System.Model
	if p := h.System.Prompt; p.Name != "" {
		text += ", prompt " + p.Name + "@" + strconv.Itoa(p.Version)
	}
	if t := h.System.Temperature; t != nil {
		text += ", temperature " + optional(t)
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

// period is when a span begins and ends.
type period struct{ start, end time.Time }

// layOut returns when the spans of an outcome begin and end in Langfuse, the root
// and one for each call. Langfuse shows the length of the root as the latency of
// the item, so it is that of the run file: what was waited is left out, and the
// calls move together as if it had not been. Calls keep their length and whether
// they overlap, and lie within the root. What a judging model took is not part of
// the latency: its calls are at the end of the root, without a length. The real
// times are in the metadata.
//
// With Form 0 everything is where it was.
func layOut(h outcome.Header, o outcome.Outcome) (root period, calls []period) {
	calls = make([]period, len(o.Calls))
	if h.Publication.Form == 0 {
		for i, c := range o.Calls {
			calls[i] = period{c.Started, latest(c.Started, c.Ended)}
		}
		return period{o.Started, latest(o.Started, o.Ended)}, calls
	}
	root = period{o.Started, o.Started.Add(max(0, o.Latency))}
	waits := outcome.WaitsOf(o.Calls)
	last := root.end
	for i, c := range o.Calls {
		if c.Kind == outcome.JudgingKind {
			calls[i] = period{root.end, root.end}
			continue
		}
		calls[i] = period{c.Started.Add(-waits.Before(c.Started)), c.Ended.Add(-waits.Before(c.Ended))}
		last = latest(last, calls[i].end)
	}
	beyond := last.Sub(root.end) // by a clock that was set, or a pipeline of its own
	for i, c := range o.Calls {
		if c.Kind != outcome.JudgingKind {
			calls[i] = calls[i].within(root, beyond)
		}
	}
	return root, calls
}

// within moves a period to an earlier time, and into the other one.
func (p period) within(root period, earlier time.Duration) period {
	length := max(0, p.end.Sub(p.start))
	start := latest(root.start, p.start.Add(-earlier))
	if start.After(root.end) {
		start = root.end
	}
	if left := root.end.Sub(start); length > left {
		length = left
	}
	return period{start, start.Add(length)}
}

// Embedded is the place of a run that is published to the embedded server of its
// folder, whose address is another one each time.
const Embedded = "embedded"

// name is what the server is called in a run file, which is published to one server only.
func (s Site) name() string {
	if s.Embedded {
		return Embedded
	}
	return s.Client.BaseURL()
}

// ElsewhereError says that this is not the place of a run: it was published to
// another server than the one that is asked now, or its dataset is another one there.
type ElsewhereError struct{ reason string }

// Error tells which variables lead to the right one, or what became of the dataset.
func (e *ElsewhereError) Error() string { return e.reason }

// ExitCode returns 64: what is asked for cannot be done here.
func (*ElsewhereError) ExitCode() int { return 64 }

// elsewhere says that a run was published to another server.
func elsewhere(run, published, asked string) *ElsewhereError {
	way := fmt.Sprintf("set %s to %s, and %s and %s to its keys", langfuse.EnvBaseURL, published, langfuse.EnvPublicKey, langfuse.EnvSecretKey)
	if published == Embedded {
		way = fmt.Sprintf("unset %s, %s and %s in the folder that it was run in", langfuse.EnvBaseURL, langfuse.EnvPublicKey, langfuse.EnvSecretKey)
	}
	return &ElsewhereError{fmt.Sprintf("the run %q was published to %s, and this is %s, which shows nothing of it; nothing was written; %s",
		run, placeName(published), placeName(asked), way)}
}

func placeName(place string) string {
	if place == Embedded {
		return "the embedded server of its folder"
	}
	return place
}

// checkPlace returns an *ElsewhereError if the run was published to a server of
// another name, unless nothing was opened or acknowledged there, which leaves the
// run free to go elsewhere, or this one shows a trace of it: then it is the same
// server under another address. The names are compared in the run file
// alone; only when they differ is the server asked.
func (s Site) checkPlace(
	ctx context.Context, run *runstore.Reader, header outcome.Header,
) (known string, free bool, err error) {
	if known, err = run.Place(ctx); err != nil || known == s.name() {
		return known, false, err
	}
	sent, err := run.Acknowledged(ctx, runstore.Spans, shownTraces)
	if err != nil || known == "" {
		return known, len(sent) == 0, err
	}
	if open, err := opened(ctx, run, header); err != nil || !open && len(sent) == 0 {
		return known, true, err
	}
	shown, err := s.shows(ctx, header, sent)
	if err == nil && !shown {
		err = elsewhere(header.Name, known, s.name())
	}
	return known, false, err
}

// checkDataset returns an *ElsewhereError if the dataset of the run has
// another id than it had. One that is gone is no such error: what hangs on it
// says so.
func (s Site) checkDataset(ctx context.Context, header outcome.Header) error {
	if header.Dataset.ID == "" {
		return nil
	}
	found, err := s.Client.GetDataset(ctx, header.Dataset.Name)
	if errors.Is(err, langfuse.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the dataset of the run: %w", err)
	}
	if found.ID != header.Dataset.ID {
		return &ElsewhereError{fmt.Sprintf("the run %q was made over the dataset %q with the id %s, and on %s the dataset of that name has the id %s: "+
			"it was deleted and made again, or this is another server; nothing was written; run again over this dataset, or set %s to the server of the run",
			header.Name, header.Dataset.Name, header.Dataset.ID, placeName(s.name()), found.ID, langfuse.EnvBaseURL)}
	}
	return nil
}

// place makes sure, once, that this is the server of the run, and notes which
// one that is before anything is sent.
func (p *publisher) place(ctx context.Context) (err error) {
	if p.header, err = p.cfg.Run.Header(ctx); err != nil || p.placed {
		return err
	}
	known, free, err := p.cfg.checkPlace(ctx, p.cfg.Run.Reader, p.header)
	if err == nil && free && known != p.cfg.name() {
		err = p.cfg.Run.SetPlace(ctx, p.cfg.name())
	}
	p.placed, p.unchecked = err == nil, known != ""
	return err
}

// dataset makes sure, once, that outcomes go to the dataset that they are of. A
// run that nobody tried to publish before is not checked: its dataset was read
// here a moment ago.
func (p *publisher) dataset(ctx context.Context) error {
	if !p.unchecked {
		return nil
	}
	err := p.cfg.checkDataset(ctx, p.header)
	p.unchecked = err != nil
	return err
}
