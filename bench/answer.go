package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// Answer is the output of the task: the records of an answer, checked, or why it failed.
type Answer struct {
	Records  []Record  `json:"extractions"`
	Failures []Failure `json:"failures"`
	Kind     string    `json:"empty_result_kind"`
}

// Kinds of Failure.
const (
	FailJSON   = "json_pipeline"   // it is not JSON
	FailShape  = "payload_shape"   // it is JSON without a list of extractions
	FailQuote  = "quote_invariant" // a record does not quote the document
	FailScript = "script"          // the stored script does not do what it says
)

// Failure says why an answer, or a part of it, cannot be used.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// failedAnswer returns an answer that cannot be used at all.
func failedAnswer(kind, message string) Answer {
	return Answer{Records: []Record{}, Failures: []Failure{{kind, message}}, Kind: EmptyByFailure}
}

// Record is one extraction as the answer states it, with what is wrong with it.
type Record struct {
	Class string `json:"class"`
	Quote string `json:"quote"`
	Mode  string `json:"offset_mode"`
	// Start and End are the stated offsets; nil if they are not whole numbers.
	Start *int `json:"start"`
	End   *int `json:"end"`
	// Stated holds the offsets as written if they are not whole numbers, such as "1.5 to 7".
	Stated string `json:"stated,omitempty"`
	// Spans holds the offsets in code points; nil if they name no part of the document.
	Spans *Spans `json:"spans,omitempty"`
	// Shape says why the record does not match the schema of the case; empty if it does.
	Shape string `json:"shape_error,omitempty"`
	// Code says why the record does not quote the document; empty if it does.
	Code Code `json:"quote_error,omitempty"`
}

// Spans is one part of the document: start, and end (exclusive), in code points.
type Spans struct {
	Rune [2]int `json:"rune"`
}

// Offset modes of records, each with its alias.
const (
	ModeUTF16 = "utf16_code_unit" // or utf16
	ModeRune  = "rune"            // or code_point
	ModeByte  = "byte"            // or utf8_byte
)

// unitOf returns the unit of an offset mode and its name in words.
func unitOf(mode string) (unit extraction.Unit, words string, known bool) {
	switch mode {
	case ModeUTF16, "utf16":
		return extraction.UTF16, "UTF-16 code units", true
	case ModeRune, "code_point":
		return extraction.CodePoints, "Unicode code points", true
	case ModeByte, "utf8_byte":
		return extraction.Bytes, "bytes of UTF-8", true
	}
	return 0, "", false
}

// sameMode reports whether two modes, or their aliases, count offsets in the same unit.
func sameMode(a, b string) bool {
	unitA, _, knownA := unitOf(a)
	unitB, _, knownB := unitOf(b)
	return a == b || knownA && knownB && unitA == unitB
}

// Code is the way in which a record fails to quote the document.
type Code string

// Codes, in the order of the checks.
const (
	UnsupportedMode Code = "UNSUPPORTED_OFFSET_MODE" // none of the three
	InvalidOffsets  Code = "INVALID_OFFSETS"         // missing, no whole numbers, negative, or the end not after the start
	OutOfRange      Code = "OFFSETS_OUT_OF_RANGE"    // beyond the end of the document
	OffsetMismatch  Code = "OFFSET_MISMATCH"         // inside a character, or stated twice and differently
	QuoteMismatch   Code = "QUOTE_MISMATCH"          // the document has something else there
)

// record returns the span as a Record.
func (g GoldSpan) record() Record {
	return Record{Class: g.Class, Quote: g.Quote, Mode: cmp.Or(g.OffsetMode, ModeUTF16), Start: &g.CharStart, End: &g.CharEnd}
}

// key identifies an extraction within a case: class, quote, and offsets in code points, or as
// stated if they cannot be converted.
func (r Record) key() string {
	at := r.place()
	if r.Spans != nil {
		at = fmt.Sprintf("%d:%d", r.Spans.Rune[0], r.Spans.Rune[1])
	}
	return fmt.Sprintf("%q|%s|%q", r.Class, at, r.Quote)
}

// String returns quote, class and place: "Mara Voss" (person), at 0 to 9 (rune).
func (r Record) String() string {
	text := fmt.Sprintf("%q", r.Quote)
	if r.Class != "" {
		text += " (" + r.Class + ")"
	}
	return text + ", " + r.place()
}

// place describes the stated offsets.
func (r Record) place() string {
	if r.Stated == "" && r.Start == nil && r.End == nil {
		return "no offsets are stated"
	}
	return fmt.Sprintf("at %s (%s)", cmp.Or(r.Stated, number(r.Start)+" to "+number(r.End)), r.Mode)
}

func number(n *int) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

// find checks that the document has the record's quote at its offsets, counted in its mode. It
// returns the offsets in code points, nil if they name no part of the document, and the code of
// the first check that fails.
func (r Record) find(document *extraction.Offsets) (*Spans, Code) {
	unit, _, known := unitOf(r.Mode)
	switch {
	case !known:
		return nil, UnsupportedMode
	case r.Start == nil || r.End == nil || *r.Start < 0 || *r.End <= *r.Start:
		return nil, InvalidOffsets
	case *r.End > document.Len(unit):
		return nil, OutOfRange
	}
	var s Spans
	for i, n := range []int{*r.Start, *r.End} {
		var between bool
		if s.Rune[i], between = document.Convert(n, unit, extraction.CodePoints); !between {
			return nil, OffsetMismatch
		}
	}
	if found, ok := document.Slice(s.Rune[0], s.Rune[1]); !ok || found != r.Quote {
		return &s, QuoteMismatch
	}
	return &s, ""
}

// reader reads the answers to one case.
type reader struct {
	schema   *jsonschema.Schema
	document *extraction.Offsets
}

// newReader compiles the schema of a case.
func newReader(document string, schema json.RawMessage) (reader, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return reader{}, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // a schema must not read files
	if err := compiler.AddResource("case:targetSchema", parsed); err != nil {
		return reader{}, err
	}
	compiled, err := compiler.Compile("case:targetSchema")
	return reader{compiled, extraction.NewOffsets(document)}, err
}

// maxRecords is the largest number of records in an answer.
const maxRecords = 50_000

// plain reads an answer of the form {"extractions": [...]}, also in a code fence.
func (r reader) plain(text string) Answer {
	text = fence().ReplaceAllString(strings.TrimSpace(text), "$1")
	var payload struct {
		Extractions *[]json.RawMessage `json:"extractions"`
	}
	switch {
	case !json.Valid([]byte(text)):
		return failedAnswer(FailJSON, "the answer is not JSON: "+shorten(text))
	case json.Unmarshal([]byte(text), &payload) != nil || payload.Extractions == nil:
		return failedAnswer(FailShape, `the answer has no list "extractions": `+shorten(text))
	case len(*payload.Extractions) > maxRecords:
		return failedAnswer(FailShape,
			fmt.Sprintf("the answer has %d extractions, the limit is %d", len(*payload.Extractions), maxRecords))
	}
	a := Answer{Records: []Record{}, Failures: []Failure{}, Kind: NonEmpty}
	for _, raw := range *payload.Extractions {
		a.Records = append(a.Records, r.record(raw))
	}
	if len(a.Records) == 0 {
		a.Kind = EmptyByEvidence
	}
	return a
}

// statedSpan is the stated place of a record.
type statedSpan struct {
	Mode  string          `json:"offsetMode"`
	Start json.RawMessage `json:"charStart"`
	End   json.RawMessage `json:"charEnd"`
}

// wholeNumber decodes a whole number; nil if raw is none.
func wholeNumber(raw json.RawMessage) (n *int) {
	if json.Unmarshal(raw, &n) != nil {
		return nil
	}
	return n
}

// stated returns the offsets as written if one of them is present but not a whole number.
func (s statedSpan) stated() string {
	if (s.Start == nil) == (wholeNumber(s.Start) == nil) && (s.End == nil) == (wholeNumber(s.End) == nil) {
		return ""
	}
	written := func(raw json.RawMessage) string { return cmp.Or(textutil.Brief(string(raw), 40), "none") }
	return written(s.Start) + " to " + written(s.End)
}

// rawRecord is a record as an answer states it, with offsets at the top level, in span, or both.
type rawRecord struct {
	Class string `json:"extractionClass"`
	Quote string `json:"quote"`
	statedSpan
	Span *statedSpan `json:"span"`
}

func (r reader) record(raw json.RawMessage) Record {
	var w rawRecord
	if err := json.Unmarshal(raw, &w); err != nil {
		return Record{Shape: "it is not a record: " + shorten(explainJSONError(err)), Code: InvalidOffsets}
	}
	at := cmp.Or(w.Span, &w.statedSpan)
	mode := cmp.Or(at.Mode, w.Mode, ModeUTF16)
	differs := w.Mode != "" && !sameMode(w.Mode, mode) ||
		w.Start != nil && !bytes.Equal(w.Start, at.Start) || w.End != nil && !bytes.Equal(w.End, at.End)
	rec := Record{
		Class: w.Class, Quote: w.Quote, Mode: mode, Start: wholeNumber(at.Start),
		End:    wholeNumber(at.End),
		Stated: at.stated(), Shape: r.shape(raw, w),
	}
	rec.Spans, rec.Code = rec.find(r.document)
	if differs && (rec.Code == "" || rec.Code == QuoteMismatch) {
		rec.Code = OffsetMismatch
	}
	return rec
}

// shape returns why a record is malformed: class or quote are empty, or it does not match the
// schema.
func (r reader) shape(raw json.RawMessage, w rawRecord) string {
	switch {
	case strings.TrimSpace(w.Class) == "":
		return "extractionClass is missing or empty"
	case w.Quote == "":
		return "quote is missing or empty"
	}
	value, _ := jsonschema.UnmarshalJSON(bytes.NewReader(raw)) // w is decoded from it
	err := r.schema.Validate(value)
	if err == nil {
		return ""
	}
	lines := strings.Split(err.Error(), "\n")
	slices.Sort(lines[1:]) // the first line is a title; the order of the others is random
	return shorten(strings.Join(lines, "\n"))
}

// fence matches an answer in a code fence.
var fence = textutil.Pattern("(?s)^```[^\n]*\n(.*)```$")

// shorten shortens foreign text for a report.
func shorten(text string) string { return textutil.Brief(text, 300) }

// Modes of a scripted stored answer.
const (
	multiPass       = "multi_pass_v1"
	structuredSplit = "structured_split_v1"
)

// scriptError returns why a script cannot be used.
func scriptError(mode string, script map[string]any) string {
	keys := map[string][]string{
		multiPass:       {"draft", "repair", "failureKind", "failureMessage"}, // failureMessage is optional
		structuredSplit: {"generate", "generateStructured"},
	}[mode]
	if keys == nil {
		return fmt.Sprintf("the script %q is not known: there are %s and %s", shorten(mode), multiPass, structuredSplit)
	}
	for _, key := range slices.Sorted(maps.Keys(script)) {
		if key != "mode" && !slices.Contains(keys, key) {
			return fmt.Sprintf("%s has no key %q%s", mode, shorten(key), textutil.Hint(key, keys))
		}
	}
	for _, key := range keys {
		said, there := script[key]
		if _, is := said.(string); !is && (there || key != "failureMessage") {
			return fmt.Sprintf("%s needs a text %q", mode, key)
		}
	}
	kind := strings.TrimSuffix(fmt.Sprint(script["failureKind"]), "_failure")
	if kinds := []string{FailJSON, FailShape, FailQuote}; mode == multiPass && !slices.Contains(kinds, kind) {
		return fmt.Sprintf("the failureKind %q is not one of %s", shorten(kind), strings.Join(kinds, ", "))
	}
	return ""
}

// stored reads the stored answer of a case. It is a script if it is an object with a mode and
// without a list of extractions.
//
// In multi_pass_v1 the draft must fail with failureKind (json_pipeline, payload_shape or
// quote_invariant, with or without the suffix _failure); then repair is the answer. In
// structured_split_v1 the answer is generateStructured, or generate if that fails. A script that
// breaks these rules is a failure of its own.
func (r reader) stored(text string) Answer {
	var script map[string]any
	_ = json.Unmarshal([]byte(text), &script) // only an object can be a script
	mode, named := script["mode"].(string)
	if _, plain := script["extractions"]; plain || !named {
		return r.plain(text)
	}
	if problem := scriptError(mode, script); problem != "" {
		return failedAnswer(FailScript, problem)
	}
	answer := func(key string) Answer { return r.plain(script[key].(string)) }
	if mode == structuredSplit {
		if a := answer("generateStructured"); len(a.Failures) == 0 {
			return a
		}
		return answer("generate")
	}
	failed, draft := "", answer("draft")
	if len(draft.Failures) > 0 {
		failed = draft.Failures[0].Kind
	} else if slices.ContainsFunc(draft.Records, func(rec Record) bool { return rec.Code != "" }) {
		failed = FailQuote
	}
	wanted := strings.TrimSuffix(script["failureKind"].(string), "_failure")
	if failed == wanted {
		return answer("repair")
	}
	problem := fmt.Sprintf("the draft should fail with %q and does with %q", wanted, cmp.Or(failed, "none"))
	return failedAnswer(FailScript, problem)
}
