package bench

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// Kinds of results that a case expects.
const (
	NonEmpty        = "non_empty"
	EmptyByEvidence = "empty_by_evidence" // there is nothing to extract
	EmptyByFailure  = "empty_by_failure"  // the answer cannot be used
)

// Case is one line of a dataset. A smoke case has gold spans; a regression record has Expected
// and its origin.
type Case struct {
	CaseID               string          `json:"caseId"`
	Category             string          `json:"category,omitempty"`
	DocumentText         string          `json:"documentText"`
	Instructions         string          `json:"instructions"`
	TargetSchema         json.RawMessage `json:"targetSchema"`
	ProviderResponseText string          `json:"providerResponseText"`
	GoldSpans            []GoldSpan      `json:"goldSpans,omitempty"`
	Expected             *Expected       `json:"expected,omitempty"`
	SourceURL            string          `json:"sourceUrl,omitempty"`
	SourceQuote          string          `json:"sourceQuote,omitempty"`
	PackID               string          `json:"packId,omitempty"`

	// File and Line are where the case was read.
	File string `json:"-"`
	Line int    `json:"-"`
}

// GoldSpan is a part of the document that must be extracted. OffsetMode defaults to UTF-16 code
// units.
type GoldSpan struct {
	Class      string `json:"extractionClass,omitempty"`
	Quote      string `json:"quote"`
	CharStart  int    `json:"charStart"`
	CharEnd    int    `json:"charEnd"`
	OffsetMode string `json:"offsetMode,omitempty"`
}

// Expected is the expected result of a regression record.
type Expected struct {
	EmptyResultKind string `json:"emptyResultKind"`
	MinExtractions  int    `json:"minExtractions"`
	MaxExtractions  int    `json:"maxExtractions"`
}

// input is the input of an item, without gold.
type input struct {
	Question
	ProviderResponseText string `json:"providerResponseText"`
}

// gold is the expected output of an item.
type gold struct {
	Category     string     `json:"category,omitempty"`
	DocumentText string     `json:"documentText"`
	GoldSpans    []GoldSpan `json:"goldSpans,omitempty"`
	Expected     *Expected  `json:"expected,omitempty"`
}

// item returns the case as an item of a dataset.
func (c Case) item() (dataset.Item, error) {
	question := Question{DocumentText: c.DocumentText, Instructions: c.Instructions, TargetSchema: c.TargetSchema}
	in, problem := json.Marshal(input{question, c.ProviderResponseText})
	want, err := json.Marshal(gold{c.Category, c.DocumentText, c.GoldSpans, c.Expected})
	about, other := json.Marshal(map[string]string{"category": c.Category, "source_url": c.SourceURL, "pack_id": c.PackID})
	return dataset.Item{ID: c.CaseID, Input: in, Expected: want, Metadata: about}, errors.Join(problem, err, other)
}

// problem returns an error with file and line of the case.
func (c Case) problem(format string, args ...any) error {
	return &dataset.SyntaxError{File: c.File, Line: c.Line, Msg: fmt.Sprintf(format, args...)}
}

// Read reads files of cases, one JSON object per line. The error has exit code 64 and lists all
// problems of all files with file and line. Ids must be unique over all files. strict also checks
// the form of caseId (slug--slug--digits--8hex) and packId (YYYY-MM-DD--slug--8hex) of regression
// records.
func Read(ctx context.Context, strict bool, paths ...string) ([]Case, error) {
	r := caseReader{seen: map[string]string{}}
	for _, path := range paths {
		r.file(ctx, strict, path)
	}
	return r.result()
}

// Cases built into the program: short and long documents with gold spans, and regression records
// of eight categories.
//
//go:embed datasets/smoke.jsonl datasets/regression.jsonl
var builtIn embed.FS

// BuiltIn reads the built-in cases; see Read.
func BuiltIn(strict bool) ([]Case, error) {
	r := caseReader{seen: map[string]string{}}
	for _, name := range []string{"smoke.jsonl", "regression.jsonl"} {
		text, err := builtIn.ReadFile("datasets/" + name)
		r.problems.Add(err)
		r.text(strict, "the built-in "+name, text)
	}
	return r.result()
}

// maxFile is the largest size of a dataset in bytes.
const maxFile = 1 << 30

type caseReader struct {
	seen     map[string]string // where each id was read
	cases    []Case
	problems dataset.Problems
}

func (r *caseReader) result() ([]Case, error) {
	if r.problems.Len() == 0 && len(r.cases) == 0 {
		return nil, cli.Usage("there are no cases to run: the datasets have none")
	}
	return r.cases, r.problems.Err()
}

func (r *caseReader) file(ctx context.Context, strict bool, path string) {
	text, err := files.Read(ctx, path, maxFile)
	if err != nil {
		r.problems.Add(fmt.Errorf("reading the cases: %w", err))
	}
	r.text(strict, path, text)
}

func (r *caseReader) text(strict bool, path string, text []byte) {
	for n, line := range dataset.Lines(text) {
		r.line(strict, Case{File: path, Line: n}, line)
	}
}

// line reads the case in a line.
func (r *caseReader) line(strict bool, c Case, line []byte) {
	values, err := dataset.ReadObject(line)
	f := fields{values, func(format string, args ...any) { r.problems.Add(c.problem(format, args...)) }}
	if err != nil {
		f.bad("expected one JSON object: %s", explainJSONError(err))
		return
	}
	f.read(&c, strict)
	if first, twice := r.seen[c.CaseID]; twice && c.CaseID != "" {
		f.bad("duplicate caseId %q: it is that of %s already", c.CaseID, first)
	}
	r.seen[c.CaseID] = fmt.Sprintf("%s line %d", c.File, c.Line)
	r.cases = append(r.cases, c)
}

// fields reads the members of a JSON object; bad reports a problem.
type fields struct {
	values map[string]json.RawMessage
	bad    func(format string, args ...any)
}

// missing returns the keys without a value.
func missing(values map[string]json.RawMessage, keys ...string) []string {
	return slices.DeleteFunc(keys, func(key string) bool { return values[key] != nil && string(values[key]) != "null" })
}

// read fills in a case and reports all its problems.
func (f fields) read(c *Case, strict bool) {
	smoke := f.values["goldSpans"] != nil && f.values["expected"] == nil
	needed := []string{"caseId", "documentText", "instructions", "targetSchema", "providerResponseText"}
	optional := []string{"category", "goldSpans"}
	if !smoke {
		needed, optional = append(needed, "category", "expected", "sourceUrl", "packId"), []string{"sourceQuote"}
	}
	known := append(needed, optional...)
	for _, key := range missing(f.values, slices.Clone(needed)...) {
		f.bad("%s is missing", key)
	}
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		if slices.Contains(known, key) {
			f.value(c, key)
		} else {
			f.bad("unknown field %q%s", textutil.Brief(key, 300), textutil.Hint(key, known))
		}
	}
	if err := dataset.ValidID(c.CaseID); c.CaseID != "" && err != nil {
		f.bad("caseId: %v", err)
	}
	f.schema(*c)
	if smoke {
		f.goldSpans(*c)
		return
	}
	u, err := url.Parse(c.SourceURL)
	if c.SourceURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		f.bad("sourceUrl: %q is not an address with http:// or https://", c.SourceURL)
	}
	if n := utf8.RuneCountInString(c.SourceQuote); n > longestSourceQuote {
		f.bad("sourceQuote has %d characters, at most %d are allowed", n, longestSourceQuote)
	}
	f.expected(c.Expected)
	if strict && c.CaseID != "" && !caseGrammar().MatchString(c.CaseID) {
		f.bad("caseId: %q is not of the form slug--slug--digits--8hex", c.CaseID)
	}
	if strict && c.PackID != "" && !packGrammar().MatchString(c.PackID) {
		f.bad("packId: %q is not of the form YYYY-MM-DD--slug--8hex", c.PackID)
	}
}

// value decodes the value of a key. A text must not be empty or a placeholder, except for a
// stored answer.
func (f fields) value(c *Case, key string) {
	raw := f.values[key]
	dec := json.NewDecoder(strings.NewReader(fmt.Sprintf("{%q:%s}", key, raw)))
	dec.DisallowUnknownFields()
	text := textutil.JSONText(raw)
	switch err := dec.Decode(c); {
	case err != nil:
		f.bad("%s", explainJSONError(err))
	case raw[0] != '"' || key == "providerResponseText":
	case strings.TrimSpace(text) == "":
		f.bad("%s is empty", key)
	case placeholder().MatchString(text):
		f.bad("%s: %q is a placeholder", key, text)
	}
}

// explainJSONError explains an error of encoding/json without Go's terms.
func explainJSONError(err error) string {
	wrong, is := errors.AsType[*json.UnmarshalTypeError](err)
	if !is {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	wanted := map[string]string{"string": "a text", "int": "a whole number", "slice": "a list"}[wrong.Type.Kind().String()]
	message := fmt.Sprintf("expected %s, got %s", cmp.Or(wanted, "an object"), wrong.Value)
	return strings.TrimPrefix(wrong.Field+": "+message, ": ")
}

var (
	caseGrammar = textutil.Pattern(`^[a-z0-9]+(-[a-z0-9]+)*--[a-z0-9]+(-[a-z0-9]+)*--[0-9]+--[0-9a-f]{8}$`)
	packGrammar = textutil.Pattern(`^[0-9]{4}-[0-9]{2}-[0-9]{2}--[a-z0-9]+(-[a-z0-9]+)*--[0-9a-f]{8}$`)
	placeholder = textutil.Pattern(`(?i)^\W*(todo|tbd|wip|fixme|xxx)\W*$`)
)

// longestSourceQuote is a length in characters.
const longestSourceQuote = 280

// schema checks the schema, and a stored answer that is a script.
func (f fields) schema(c Case) {
	switch r, err := newReader(c.DocumentText, c.TargetSchema); {
	case c.TargetSchema == nil:
	case c.TargetSchema[0] != '{':
		f.bad("targetSchema: expected an object")
	case err != nil:
		f.bad("targetSchema: %s", shorten(err.Error()))
	default:
		if a := r.stored(c.ProviderResponseText); len(a.Failures) > 0 && a.Failures[0].Kind == FailScript {
			f.bad("providerResponseText: %s", a.Failures[0].Message)
		}
	}
}

func (f fields) expected(x *Expected) {
	var values map[string]json.RawMessage
	raw := f.values["expected"]
	if x == nil || json.Unmarshal(raw, &values) != nil || json.Unmarshal(raw, x) != nil { // value said why
		return
	}
	switch {
	case len(missing(values, "emptyResultKind", "minExtractions", "maxExtractions")) > 0:
		f.bad("expected: emptyResultKind, minExtractions and maxExtractions are all required")
	case !slices.Contains([]string{NonEmpty, EmptyByEvidence, EmptyByFailure}, x.EmptyResultKind):
		f.bad("expected.emptyResultKind: %q is not one of %s, %s, %s",
			x.EmptyResultKind, NonEmpty, EmptyByEvidence, EmptyByFailure)
	case x.MinExtractions < 0 || x.MaxExtractions < x.MinExtractions || x.EmptyResultKind == NonEmpty && x.MaxExtractions == 0,
		x.EmptyResultKind != NonEmpty && x.MinExtractions > 0:
		f.bad("expected: a result that is %s cannot have from %d to %d extractions", x.EmptyResultKind, x.MinExtractions, x.MaxExtractions)
	}
}

func (f fields) goldSpans(c Case) {
	if string(f.values["goldSpans"]) == "null" {
		f.bad("goldSpans: expected a list; write [] if there is nothing to extract")
	}
	document := extraction.NewOffsets(c.DocumentText)
	for i, g := range c.GoldSpans {
		if _, code := g.record().find(document); code != "" {
			f.bad("goldSpans[%d]: %s: the document does not have %q %s", i, code, g.Quote, g.record().place())
		}
	}
}

// Additions validates a pack of regression records and the dataset target, and returns the lines
// to append to the dataset, each with a line end. A caseId that the dataset has, or a record
// with the same document, instructions and answer as another, is an error. The error has exit
// code 64 and lists all problems. Additions writes nothing.
func Additions(ctx context.Context, strict bool, pack, target string) (lines []byte, records int, err error) {
	r := caseReader{seen: map[string]string{}}
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		r.file(ctx, false, target)
	}
	existing := len(r.cases)
	r.file(ctx, strict, pack)
	cases, err := r.result()
	contents := map[[3]string]Case{}
	for i, c := range cases {
		content := [3]string{c.DocumentText, c.Instructions, c.ProviderResponseText}
		switch other, same := contents[content]; {
		case i < existing:
		case c.Expected == nil:
			r.problems.Add(c.problem("it is a smoke case, a pack has regression records"))
		case same:
			r.problems.Add(c.problem("the same record as %q in %s line %d", other.CaseID, other.File, other.Line))
		default:
			line, _ := textutil.MarshalJSON(c) // it was decoded from JSON
			lines = append(append(lines, line...), '\n')
		}
		contents[content] = c
	}
	if err = cmp.Or(r.problems.Err(), err); err != nil {
		return nil, 0, err
	}
	return lines, len(cases) - existing, nil
}
