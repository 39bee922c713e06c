package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"extraction-experiment/internal/printable"
)

// Record is one extraction as an answer states it, with what is wrong with it.
type Record struct {
	Class string `json:"class"`
	Quote string `json:"quote"`
	Mode  string `json:"offset_mode"`
	// Start and End are as stated; nil where they are no whole numbers.
	Start *int `json:"start"`
	End   *int `json:"end"`
	// Stated are the offsets as the answer writes them, where they are no whole
	// numbers: "1.5 to 7".
	Stated string `json:"stated,omitempty"`
	// Spans are the offsets in every mode, where they name a stretch.
	Spans *Spans `json:"spans,omitempty"`
	// Shape says why the record has not the shape that the case asks for.
	Shape string `json:"shape_error,omitempty"`
	// Code says why it does not quote the document.
	Code Code `json:"quote_error,omitempty"`
}

// key identifies what was extracted from a case: class, offsets in code points
// where they can be converted, and quote.
func (r Record) key() string {
	at := fmt.Sprintf("%s:%s:%s", r.Mode, number(r.Start), number(r.End))
	if r.Spans != nil {
		at = fmt.Sprintf("%d:%d", r.Spans.Rune[0], r.Spans.Rune[1])
	}
	return fmt.Sprintf("%q|%s|%q", r.Class, at, r.Quote)
}

// place says where the record claims to stand.
func (r Record) place() string {
	switch {
	case r.Stated != "":
		return fmt.Sprintf("at %s (%s)", r.Stated, r.Mode)
	case r.Start == nil && r.End == nil:
		return "no offsets are stated"
	}
	return fmt.Sprintf("at %s to %s (%s)", number(r.Start), number(r.End), r.Mode)
}

func number(n *int) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

// The kinds of failures of an answer.
const (
	FailJSON   = "json_pipeline"   // it is not JSON
	FailShape  = "payload_shape"   // it is JSON without a list of extractions
	FailQuote  = "quote_invariant" // a record does not quote the document
	FailScript = "script"          // the stored script does not do what it says
)

// Failure is an answer, or a part of one, that could not be used.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// maxRecords bounds the records of one answer.
const maxRecords = 50_000

// reader takes answers about one case apart.
type reader struct {
	schema *jsonschema.Schema
	check  checker
}

// records reads an answer: {"extractions": [...]}, also in a code fence.
func (r reader) records(text string) ([]Record, *Failure) {
	text = unfenced(text)
	var payload struct {
		Extractions *[]json.RawMessage `json:"extractions"`
	}
	if !json.Valid([]byte(text)) {
		return nil, &Failure{FailJSON, "the answer is not JSON: " + shortened(text)}
	}
	if err := json.Unmarshal([]byte(text), &payload); err != nil || payload.Extractions == nil {
		return nil, &Failure{FailShape, `the answer has no list "extractions": ` + shortened(text)}
	}
	if n := len(*payload.Extractions); n > maxRecords {
		return nil, &Failure{FailShape, fmt.Sprintf("the answer has %d extractions, the limit is %d", n, maxRecords)}
	}
	list := []Record{}
	for _, raw := range *payload.Extractions {
		list = append(list, r.record(raw))
	}
	return list, nil
}

// wire is how an answer states a record: offsets at the top, in span, or both.
type wire struct {
	Class string          `json:"extractionClass"`
	Quote string          `json:"quote"`
	Mode  string          `json:"offsetMode"`
	Start json.RawMessage `json:"charStart"`
	End   json.RawMessage `json:"charEnd"`
	Span  *struct {
		Mode  string          `json:"offsetMode"`
		Start json.RawMessage `json:"charStart"`
		End   json.RawMessage `json:"charEnd"`
	} `json:"span"`
}

func (r reader) record(raw json.RawMessage) Record {
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return Record{Shape: "it is no record: " + shortened(plainly(err)), Code: InvalidOffsets}
	}
	rec := Record{Class: w.Class, Quote: w.Quote, Shape: r.shape(raw, w)}
	rec.Mode, rec.Start, rec.End, rec.Stated = w.Mode, integer(w.Start), integer(w.End), stated(w.Start, w.End)
	twice := false
	if s := w.Span; s != nil {
		mode, start, end := s.Mode, integer(s.Start), integer(s.End)
		rec.Stated = stated(s.Start, s.End)
		twice = w.Mode != "" && w.Mode != mode || w.Start != nil && number(rec.Start) != number(start) || w.End != nil && number(rec.End) != number(end)
		rec.Mode, rec.Start, rec.End = mode, start, end
	}
	rec.Mode = orUTF16(rec.Mode)
	rec.Spans, rec.Code = r.check.quote(rec.Mode, rec.Start, rec.End, rec.Quote)
	if twice && (rec.Code == "" || rec.Code == QuoteMismatch) {
		rec.Code = OffsetMismatch
	}
	return rec
}

// shape checks the structure: a class and a quote that are not empty, and what
// the case's schema asks of a record.
func (r reader) shape(raw json.RawMessage, w wire) string {
	switch {
	case strings.TrimSpace(w.Class) == "":
		return "extractionClass is missing or empty"
	case w.Quote == "":
		return "quote is missing or empty"
	case r.schema == nil:
		return ""
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = r.schema.Validate(value)
	}
	if err != nil {
		lines := strings.Split(err.Error(), "\n")
		slices.Sort(lines[1:]) // the first is a title, the others come in any order
		return shortened(strings.Join(lines, "\n"))
	}
	return ""
}

// integer reads a whole number; nil where there is none.
func integer(raw json.RawMessage) *int {
	var n *int
	if len(raw) == 0 || json.Unmarshal(raw, &n) != nil {
		return nil
	}
	return n
}

// stated writes offsets of which one is there and no whole number; else "".
func stated(start, end json.RawMessage) string {
	odd := func(raw json.RawMessage) bool { return len(raw) > 0 && integer(raw) == nil }
	if !odd(start) && !odd(end) {
		return ""
	}
	shown := func(raw json.RawMessage) string {
		if len(raw) == 0 {
			return "none"
		}
		return printable.Brief(string(raw), 40)
	}
	return shown(start) + " to " + shown(end)
}

// unfenced removes white space and one code fence around a text.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "```") || !strings.HasSuffix(text, "```") || len(text) < 6 {
		return text
	}
	_, body, ok := strings.Cut(text, "\n")
	if !ok {
		return text
	}
	return strings.TrimSpace(strings.TrimSuffix(body, "```"))
}

// shortened is a text of others as a report holds it.
func shortened(text string) string { return printable.Brief(text, 300) }
