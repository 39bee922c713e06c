package bench

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Answer is what one trial made of a case: the output of the task.
type Answer struct {
	Records  []Record  `json:"extractions"`
	Failures []Failure `json:"failures"`
	Kind     string    `json:"empty_result_kind"`
	// Passes says how many stored answers were used: 2 after a repair.
	Passes int `json:"passes"`
}

func newAnswer(records []Record, passes int, failures ...Failure) Answer {
	a := Answer{Records: records, Failures: append([]Failure{}, failures...), Kind: NonEmpty, Passes: passes}
	if a.Records == nil {
		a.Records = []Record{}
	}
	switch {
	case len(records) == 0 && len(failures) > 0:
		a.Kind = EmptyByFailure
	case len(records) == 0:
		a.Kind = EmptyByEvidence
	}
	return a
}

// The scripts that a stored answer may be.
const (
	multiPass       = "multi_pass_v1"
	structuredSplit = "structured_split_v1"
)

// script is a stored answer that stands for several.
type script struct {
	Mode string `json:"mode"`
	// A draft that fails with FailureKind, and its repair.
	Draft       *string `json:"draft"`
	Repair      *string `json:"repair"`
	FailureKind string  `json:"failureKind"`
	// The answer to a request for text and to one with a schema.
	Generate           *string `json:"generate"`
	GenerateStructured *string `json:"generateStructured"`
}

// stored reads the stored answer of a case, which may be a script.
//
// multi_pass_v1: the draft must fail with failureKind (json_pipeline,
// payload_shape or quote_invariant, also with _failure behind it), then the
// repair is the answer. structured_split_v1: every case has a schema, so that
// generateStructured is asked; generate is the answer where that fails. A script
// that does not do what it says is a failure of its own.
func (r reader) stored(text string) Answer {
	var s script
	if json.Unmarshal([]byte(text), &s) != nil {
		s = script{}
	}
	switch s.Mode {
	case multiPass:
		return r.multiPass(s)
	case structuredSplit:
		return r.structuredSplit(s)
	}
	return r.plain(text, 1)
}

func (r reader) plain(text string, passes int) Answer {
	records, failure := r.records(text)
	if failure != nil {
		return newAnswer(nil, passes, *failure)
	}
	return newAnswer(records, passes)
}

func (r reader) multiPass(s script) Answer {
	if s.Draft == nil || s.Repair == nil {
		return newAnswer(nil, 0, Failure{FailScript, multiPass + " needs draft and repair"})
	}
	declared := strings.TrimSuffix(s.FailureKind, "_failure")
	if failed := r.failureOf(*s.Draft); failed != declared {
		return newAnswer(nil, 1, Failure{FailScript, fmt.Sprintf("the draft should fail with %q and does with %q", declared, failed)})
	}
	return r.plain(*s.Repair, 2)
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

func (r reader) structuredSplit(s script) Answer {
	if s.Generate == nil || s.GenerateStructured == nil {
		return newAnswer(nil, 0, Failure{FailScript, structuredSplit + " needs generate and generateStructured"})
	}
	if a := r.plain(*s.GenerateStructured, 1); len(a.Failures) == 0 {
		return a
	}
	return r.plain(*s.Generate, 2)
}
