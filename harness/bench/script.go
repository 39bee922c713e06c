package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/internal/nearest"
)

// The scripts that a stored answer may be.
const (
	multiPass       = "multi_pass_v1"
	structuredSplit = "structured_split_v1"
)

// script is a stored answer that stands for several.
type script struct {
	mode string
	// A draft that fails with failureKind, and its repair.
	draft, repair, failureKind string
	// The answer to a request for text and to one with a schema.
	generate, generateStructured string
}

// scriptKeys are the texts of each script; the first so many must be there.
func scriptKeys(mode string) (keys []string, needed int) {
	switch mode {
	case multiPass:
		return []string{"draft", "repair", "failureKind", "failureMessage"}, 3
	case structuredSplit:
		return []string{"generate", "generateStructured"}, 2
	}
	return nil, 0
}

// scriptOf reads a stored answer as a script. It is none unless it is an object
// that names a mode and has no list of extractions; the problem, "" for none,
// says why a script cannot be used.
func scriptOf(text string) (s script, is bool, problem string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) != nil {
		return s, false, ""
	}
	if _, plain := fields["extractions"]; plain || fields["mode"] == nil || json.Unmarshal(fields["mode"], &s.mode) != nil {
		return s, false, ""
	}
	keys, needed := scriptKeys(s.mode)
	if keys == nil {
		return s, true, fmt.Sprintf("the script %q is not known: there are %s and %s", shortened(s.mode), multiPass, structuredSplit)
	}
	if path := twice([]byte(text)); path != "" {
		return s, true, fmt.Sprintf("the script has the key %s twice", path)
	}
	into := map[string]*string{"draft": &s.draft, "repair": &s.repair, "failureKind": &s.failureKind, "failureMessage": new(string),
		"generate": &s.generate, "generateStructured": &s.generateStructured}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key != "mode" && !slices.Contains(keys, key) {
			return s, true, fmt.Sprintf("%s has no key %q%s", s.mode, shortened(key), nearest.Hint(key, keys))
		}
	}
	for i, key := range keys {
		raw, there := fields[key]
		if !there && i >= needed {
			continue
		}
		var value *string
		if !there || json.Unmarshal(raw, &value) != nil || value == nil {
			return s, true, fmt.Sprintf("%s needs a text %q", s.mode, key)
		}
		*into[key] = *value
	}
	if kinds := []string{FailJSON, FailShape, FailQuote}; s.mode == multiPass && !slices.Contains(kinds, s.declared()) {
		return s, true, fmt.Sprintf("the failureKind %q is none of %s", shortened(s.failureKind), strings.Join(kinds, ", "))
	}
	return s, true, ""
}

// declared is the kind of failure that the draft is said to have.
func (s script) declared() string { return strings.TrimSuffix(s.failureKind, "_failure") }

// stored reads the stored answer of a case, which may be a script.
//
// multi_pass_v1: the draft must fail with failureKind (json_pipeline,
// payload_shape or quote_invariant, also with _failure behind it), then the
// repair is the answer. structured_split_v1: every case has a schema, so that
// generateStructured is asked; generate is the answer where that fails. A script
// that does not do what it says is a failure of its own.
func (r reader) stored(text string) Answer {
	s, is, problem := scriptOf(text)
	switch {
	case !is:
		return r.plain(text, 1)
	case problem != "":
		return newAnswer(nil, 0, Failure{FailScript, problem})
	case s.mode == multiPass:
		return r.multiPass(s)
	}
	if a := r.plain(s.generateStructured, 1); len(a.Failures) == 0 {
		return a
	}
	return r.plain(s.generate, 2)
}

func (r reader) multiPass(s script) Answer {
	if failed := r.failureOf(s.draft); failed != s.declared() {
		does := fmt.Sprintf("does with %q", failed)
		if failed == "" {
			does = "does not"
		}
		return newAnswer(nil, 1, Failure{FailScript, fmt.Sprintf("the draft should fail with %q and %s", s.declared(), does)})
	}
	return r.plain(s.repair, 2)
}

// failureOf returns the kind of failure of a draft, "" where it is good.
func (r reader) failureOf(draft string) string {
	records, failure := r.records(draft)
	if failure != nil {
		return failure.Kind
	}
	for _, rec := range records {
		if rec.Code != "" {
			return FailQuote
		}
	}
	return ""
}
