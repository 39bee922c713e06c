package external

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// answer is what an answer comes to.
type answer struct {
	found    extraction.Extraction
	span     outcome.Call
	calls    []outcome.Call
	warnings warnings
	err      error
}

func (a *answer) all() []outcome.Call { return append([]outcome.Call{a.span}, a.calls...) }

// readReport takes a JSON object apart. What it says about itself (calls, usage,
// cost) is read tolerantly, since it holds for a failure as well: what cannot be
// used is named in a warning. A failure that it states is the answer's error.
func readReport(raw []byte, span outcome.Call) (*answer, map[string]json.RawMessage) {
	a := &answer{span: span, warnings: warnings{list: []string{}}}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		a.err = fail(outcome.InvalidOutput, false, "the answer cannot be read: "+err.Error(), err)
		return a, nil
	}
	a.readWarnings(fields["warnings"])
	r := reporter{span: &a.span, warn: a.warnings.add}
	a.calls = r.read(fields)
	if reason := readError(fields["error"], outcome.Provider); reason != nil {
		a.err = fail(reason.Class, reason.Class == outcome.RateLimited || reason.Class == outcome.Timeout, reason.Message, nil)
	}
	return a, fields
}

// readAnswer reads what an answer says of itself, and then, strictly, the
// extraction.
func readAnswer(raw []byte, span outcome.Call, maxFound int) *answer {
	a, fields := readReport(raw, span)
	if a.err != nil {
		return a
	}
	if reason := a.readFound(fields, maxFound); reason != nil {
		a.err = fail(outcome.InvalidOutput, false, "the pipeline's answer is no extraction: "+reason.Error(), reason)
	}
	return a
}

// readFound reads the two lists; one that is absent is empty, but not both.
func (a *answer) readFound(fields map[string]json.RawMessage, limit int) error {
	own := map[string]json.RawMessage{}
	for _, key := range []string{"entities", "relationships"} {
		list, n, err := countList(fields[key])
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", key, err)
		case n > limit:
			return fmt.Errorf("it has %d %s and the limit is %d", n, key, limit)
		case list:
			own[key] = fields[key]
		}
	}
	if len(own) == 0 {
		return fmt.Errorf("it has neither entities nor relationships; write empty lists where nothing was found")
	}
	lists, err := json.Marshal(own)
	if err != nil {
		return err
	}
	found, warned, err := extraction.DecodeExtraction(lists)
	if err != nil {
		return err
	}
	for _, w := range warned {
		a.warnings.add("%s", w)
	}
	if found.Entities == nil {
		found.Entities = []extraction.Entity{}
	}
	if found.Relationships == nil {
		found.Relationships = []extraction.Relationship{}
	}
	a.found = found
	return nil
}

// countList counts the elements of a list; there is none if it is absent or
// null.
func countList(raw json.RawMessage) (there bool, n int, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return false, 0, nil
	}
	var elements []skipped
	if err := json.Unmarshal(raw, &elements); err != nil {
		return false, 0, fmt.Errorf("expected a list, got %s", printable.Cut(string(raw), 40))
	}
	return true, len(elements), nil
}

// skipped is a JSON value that is not kept.
type skipped struct{}

// UnmarshalJSON takes any value.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

func (a *answer) readWarnings(raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	var texts []string
	if err := json.Unmarshal(raw, &texts); err != nil {
		a.warnings.add("warnings: expected a list of texts")
		return
	}
	for _, text := range texts {
		a.warnings.add("%s", text)
	}
}

// The limits of the warnings of one answer.
const (
	maxWarnings = 30
	maxWarning  = 500 // bytes
)

// warnings collects messages within limits.
type warnings struct{ list []string }

func (w *warnings) add(format string, args ...any) {
	if len(w.list) == maxWarnings {
		w.list = append(w.list, "there are more warnings")
	}
	if len(w.list) < maxWarnings {
		w.list = append(w.list, printable.Cut(fmt.Sprintf(format, args...), maxWarning))
	}
}

// order sorts calls by their beginning; those that begin at the same time stay
// as they were reported.
func order(calls []outcome.Call) {
	slices.SortStableFunc(calls, func(a, b outcome.Call) int { return a.Started.Compare(b.Started) })
}

// within reads the times of a call; those of the span stand in for times that
// are missing or make no sense.
func within(started, ended *time.Time, span outcome.Call) (time.Time, time.Time, bool) {
	from, to := span.Started, span.Ended
	if started != nil {
		from = started.UTC()
	}
	if ended != nil {
		to = ended.UTC()
	}
	if to.Before(from) {
		return span.Started, span.Ended, false
	}
	return from, to, true
}
