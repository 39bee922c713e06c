package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/nearest"
)

// bad takes one problem of a record.
type bad func(format string, args ...any)

var (
	smokeKeys      = []string{"caseId", "category", "documentText", "instructions", "targetSchema", "providerResponseText", "goldSpans"}
	regressionKeys = []string{"caseId", "category", "documentText", "instructions", "targetSchema", "providerResponseText", "expected", "sourceUrl", "sourceQuote", "packId"}

	caseGrammar = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*--[a-z0-9]+(-[a-z0-9]+)*--[0-9]+--[0-9a-f]{8}$`)
	packGrammar = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}--[a-z0-9]+(-[a-z0-9]+)*--[0-9a-f]{8}$`)
	placeholder = regexp.MustCompile(`(?i)^\W*(todo|tbd|wip|fixme|xxx)\W*$`)
)

// longestSourceQuote is in characters.
const longestSourceQuote = 280

// decodeCase reads a record and tells every problem of it.
func decodeCase(fields map[string]json.RawMessage, opt Options, bad bad) Case {
	known := smokeKeys
	_, regression := fields["expected"]
	if _, smoke := fields["goldSpans"]; regression || !smoke {
		known, regression = regressionKeys, true
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, key) {
			bad("unknown field %q%s", key, nearest.Hint(key, known))
		}
	}
	r := recordReader{fields, bad}
	c := Case{
		CaseID: r.text("caseId", true), DocumentText: r.text("documentText", true), Instructions: r.text("instructions", true),
		ProviderResponseText: r.text("providerResponseText", false), Category: r.optional("category"),
	}
	r.schema(&c)
	if c.CaseID != "" {
		if err := dataset.ValidID(c.CaseID); err != nil {
			bad("caseId: %v", err)
		}
	}
	if regression {
		r.regression(&c, opt)
	} else {
		r.goldSpans(&c)
	}
	return c
}

type recordReader struct {
	fields map[string]json.RawMessage
	bad    bad
}

// text reads a field that must be there; full ones must not be blank, nor a
// placeholder.
func (r recordReader) text(key string, full bool) string {
	raw, there := r.fields[key]
	var s *string
	switch {
	case !there:
		r.bad("%s is missing", key)
	case json.Unmarshal(raw, &s) != nil || s == nil:
		r.bad("%s: expected a text", key)
	case full && strings.TrimSpace(*s) == "":
		r.bad("%s is empty", key)
	case full && placeholder.MatchString(*s):
		r.bad("%s: %q is a placeholder", key, *s)
	default:
		return *s
	}
	return ""
}

func (r recordReader) optional(key string) string {
	if _, there := r.fields[key]; !there {
		return ""
	}
	return r.text(key, true)
}

// schema reads the schema, and looks whether a stored answer that is a script
// does what it says.
func (r recordReader) schema(c *Case) {
	raw, there := r.fields["targetSchema"]
	var object map[string]json.RawMessage
	if !there {
		r.bad("targetSchema is missing")
		return
	}
	if json.Unmarshal(raw, &object) != nil || object == nil {
		r.bad("targetSchema: expected an object")
		return
	}
	c.TargetSchema = raw
	compiled, err := compileSchema(raw)
	if err != nil {
		r.bad("targetSchema: %s", shortened(err.Error()))
		return
	}
	if _, is, _ := scriptOf(c.ProviderResponseText); !is {
		return
	}
	a := reader{compiled, newChecker(c.DocumentText)}.stored(c.ProviderResponseText)
	if len(a.Failures) > 0 && a.Failures[0].Kind == FailScript {
		r.bad("providerResponseText: %s", a.Failures[0].Message)
	}
}

func (r recordReader) regression(c *Case, opt Options) {
	if _, there := r.fields["category"]; !there {
		r.bad("category is missing")
	}
	c.PackID, c.SourceURL, c.SourceQuote = r.text("packId", true), r.text("sourceUrl", true), r.optional("sourceQuote")
	if u, err := url.Parse(c.SourceURL); c.SourceURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		r.bad("sourceUrl: %q is no address with http:// or https://", c.SourceURL)
	}
	if n := utf8.RuneCountInString(c.SourceQuote); n > longestSourceQuote {
		r.bad("sourceQuote has %d characters, at most %d are allowed", n, longestSourceQuote)
	}
	if opt.Strict && c.CaseID != "" && !caseGrammar.MatchString(c.CaseID) {
		r.bad("caseId: %q is not of the form slug--slug--digits--8hex", c.CaseID)
	}
	if opt.Strict && c.PackID != "" && !packGrammar.MatchString(c.PackID) {
		r.bad("packId: %q is not of the form YYYY-MM-DD--slug--8hex", c.PackID)
	}
	r.expected(c)
}

func (r recordReader) expected(c *Case) {
	raw, there := r.fields["expected"]
	if !there {
		r.bad("expected is missing (a smoke case has goldSpans)")
		return
	}
	var e struct {
		EmptyResultKind *string `json:"emptyResultKind"`
		MinExtractions  *int    `json:"minExtractions"`
		MaxExtractions  *int    `json:"maxExtractions"`
	}
	if err := strictly(raw, &e); err != nil {
		r.bad("expected: %v", err)
		return
	}
	if e.EmptyResultKind == nil || e.MinExtractions == nil || e.MaxExtractions == nil {
		r.bad("expected: emptyResultKind, minExtractions and maxExtractions must all be there")
		return
	}
	c.Expected = &Expected{*e.EmptyResultKind, *e.MinExtractions, *e.MaxExtractions}
	switch x := c.Expected; {
	case !slices.Contains([]string{NonEmpty, EmptyByEvidence, EmptyByFailure}, x.EmptyResultKind):
		r.bad("expected.emptyResultKind: %q is none of %s, %s, %s", x.EmptyResultKind, NonEmpty, EmptyByEvidence, EmptyByFailure)
	case x.MinExtractions < 0:
		r.bad("expected.minExtractions: %d is negative", x.MinExtractions)
	case x.MaxExtractions < x.MinExtractions:
		r.bad("expected.maxExtractions: %d is less than minExtractions, %d", x.MaxExtractions, x.MinExtractions)
	case x.EmptyResultKind == NonEmpty && x.MaxExtractions == 0:
		r.bad("expected: a result that is not empty has at least one extraction")
	case x.EmptyResultKind != NonEmpty && x.MinExtractions > 0:
		r.bad("expected: an empty result has no extractions, minExtractions is %d", x.MinExtractions)
	}
}

func (r recordReader) goldSpans(c *Case) {
	if string(r.fields["goldSpans"]) == "null" {
		r.bad("goldSpans: expected a list, [] where there is nothing to extract")
		return
	}
	if err := strictly(r.fields["goldSpans"], &c.GoldSpans); err != nil {
		r.bad("goldSpans: %v", err)
		return
	}
	check := newChecker(c.DocumentText)
	for i, g := range c.GoldSpans {
		start, end := g.CharStart, g.CharEnd
		if _, code := check.quote(orUTF16(g.OffsetMode), &start, &end, g.Quote); code != "" {
			r.bad("goldSpans[%d]: %s: the document does not have %q at %d to %d (%s)", i, code, g.Quote, start, end, orUTF16(g.OffsetMode))
		}
	}
}

func orUTF16(mode string) string {
	if mode == "" {
		return ModeUTF16
	}
	return mode
}

// strictly decodes JSON and refuses fields that the form does not have.
func strictly(raw json.RawMessage, to any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return errors.New("cannot be read: " + plainly(err))
	}
	return nil
}

// plainly says what is wrong with JSON without the words of Go.
func plainly(err error) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	wanted := map[reflect.Kind]string{reflect.String: "a text", reflect.Int: "a whole number", reflect.Slice: "a list", reflect.Struct: "an object"}[kind.Type.Kind()]
	where := ""
	if kind.Field != "" {
		where = kind.Field + ": "
	}
	return fmt.Sprintf("%sexpected %s, got %s", where, cmp.Or(wanted, "something else"), kind.Value)
}
