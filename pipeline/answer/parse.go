// Package answer parses the answer of a language model into an extraction, and describes its
// problems so that they can be sent back to the model. It sends no requests; package pipeline
// does.
//
// The prompt asks for one JSON object, but models deviate from it. Parse reads the first JSON
// in the text that lists entities or relationships, in a code fence or between sentences, with
// trailing commas, comments, single quotes, Python's words, raw line breaks, or cut off in the
// middle; the Result says if it was repaired. Parse never guesses: ambiguous text is a problem,
// with its line and column.
//
// Schema is sent with the request, or Instruction if the server does not support JSON Schema.
// Parse reads the answer, Normalise gives types the spelling of the document's schemas, and
// Validate returns what breaks the schemas.
//
//	result, err := answer.Parse(response.Text)
//	var problem *answer.Error
//	if errors.As(err, &problem) { … send problem.Problems back … }
//	found := answer.Normalise(result.Extraction, doc)
//	problems := answer.Validate(found, doc, answer.Both)
package answer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// The limits of an answer. Exceeding one is a problem, and costs no more than reading up to it.
const (
	maxText   = 32 << 20  // bytes
	maxDepth  = 64        // levels of objects and lists
	maxListed = 250_000   // entities, and relationships
	maxValues = 3_000_000 // texts, numbers, objects and lists together
)

// Result is a parsed answer.
type Result struct {
	Extraction extraction.Extraction
	// Truncated means that the text ended before the answer. The extraction holds the complete
	// entities and relationships.
	Truncated bool
	// Unread names what may be the answer, too, and was passed over: another object or list.
	Unread []string
	// Warnings name Unread, unknown keys, a cut answer, and an answer that was repaired because
	// it is not valid JSON.
	Warnings []string
}

// Error describes the problems of an answer, in words for the model and for a person.
type Error struct {
	Problems []string
}

// Error joins the problems.
func (e *Error) Error() string { return "reading the answer: " + strings.Join(e.Problems, "; ") }

// Unwrap returns the failure of the item, of class InvalidOutput.
func (e *Error) Unwrap() error {
	return &outcome.Failure{Class: outcome.InvalidOutput, Message: e.Error()}
}

func problem(format string, args ...any) error {
	return &Error{Problems: []string{fmt.Sprintf(format, args...)}}
}

// Parse reads the answer of a model.
//
// The answer is the first JSON object in the text with a list "entities" or "relationships",
// directly or in an inner object. A list of objects with the fields of entities, or of
// relationships, is the answer if it is the only JSON in the text. Parse ignores text around
// it, a code fence and a leading <think>…</think> or <thinking>…</thinking>, or what comes before
// such an end alone. It repairs, with a warning: trailing and doubled commas, comments, keys in
// another case, single quotes that cannot be apostrophes, raw control characters in texts,
// backslashes that escape nothing, and the words of Python (NaN, None, undefined become null).
// Invalid UTF-8 becomes U+FFFD. extraction.DecodeExtraction decodes entities and relationships and
// resolves references.
//
// If the end of the answer is missing, the complete entities and relationships are returned. An
// entity that was cut is left out, never returned in part.
//
// The error is an *Error that says what is wrong and where. Time and memory are linear in the
// text, within the limits above. Parse never panics.
func Parse(text string) (Result, error) {
	if len(text) > maxText {
		return Result{}, problem("the answer has %d bytes, at most %d are read", len(text), maxText)
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if strings.Trim(text, " \t\r\n\ufeff") == "" {
		return Result{}, problem("the answer is empty: answer with one JSON object")
	}
	c, brokenAnswer := search(text, SkipThinking(text))
	switch {
	case c != nil:
		return newResult(text, c)
	case brokenAnswer != nil:
		return Result{}, problem("%s", describeError(text, brokenAnswer))
	}
	return Result{}, problem(`the answer holds no JSON object with the lists "entities" and "relationships", in English and spelled so (it begins %q): `+
		`answer with one`, excerpt(text, 0))
}

// newResult converts the chosen candidate.
func newResult(text string, c *candidate) (Result, error) {
	raw := c.extractionJSON()
	complete := !c.listOpen && len(c.lists) == len(listNames)
	switch {
	case len(c.problems) > 0:
		return Result{}, &Error{Problems: c.problems}
	case c.unknownList != "" && !c.isCut() && len(c.lists) < len(listNames):
		return Result{}, problem(`the answer has a list under the key %s, and one of the two lists is missing: the keys must be "entities" and "relationships", in English and spelled so`, c.unknownList)
	case c.isCut() && !c.hasUnits() && !complete:
		return Result{}, problem("the answer was cut off before its first entity was complete: answer with the JSON object alone and more briefly, or allow more tokens")
	}
	e, warnings, err := extraction.DecodeExtraction(raw)
	if err != nil {
		return Result{}, &Error{Problems: strings.Split(err.Error(), "\n")}
	}
	if another, _ := search(text, c.end); another != nil && !c.isCut() && !another.bareList && another.hasUnits() {
		c.warn("the answer holds more than one JSON object with entities or relationships; the first was read")
	}
	result := Result{Extraction: e, Truncated: c.isCut(), Unread: c.warnings}
	result.Warnings = slices.Concat(c.warnings, warnings)
	if c.respelled || !c.isCut() && !textutil.ValidJSON([]byte(text[c.start:c.end])) {
		result.Warnings = append(result.Warnings, "the answer is not JSON as it stands, and was repaired")
	}
	if result.Truncated {
		result.Warnings = append(result.Warnings, fmt.Sprintf("the answer was cut off: %d complete entities and %d complete relationships were kept", len(e.Entities), len(e.Relationships)))
	}
	return result, nil
}

// maxRestarts is how often search reads a part of the text again because the value around it
// was not an answer. It keeps the time linear.
const maxRestarts = 16

// maxCandidates is the most brackets of a text that search reads.
const maxCandidates = 100_000

// search returns the answer among the brackets of a text from an offset on, complete or cut.
// failed is the first candidate with lists that is broken.
func search(text string, from int) (found, brokenAnswer *candidate) {
	var brokenValue *candidate // the first broken candidate, with or without lists
	pos, restarts := from, maxRestarts
	for n := range maxCandidates {
		i := strings.IndexAny(text[pos:], "{[")
		if i < 0 {
			break
		}
		c := readCandidate(text, pos+i)
		// A list may be a part of a value that was not understood.
		isPart := c.bareList && (n > 0 || !c.isCut() && strings.ContainsAny(text[c.end:], "{[]}"))
		pos = max(c.end, c.start+1)
		switch {
		case isPart || len(c.lists) == 0:
			if isPart {
				brokenAnswer = cmp.Or(brokenAnswer, brokenValue)
			}
			if c.err != nil && !c.isCut() {
				brokenValue = cmp.Or(brokenValue, c)
			}
			// The answer may be inside a list, or inside text after a stray bracket.
			if (c.err != nil || c.answerInList) && restarts > 0 {
				restarts--
				pos = c.start + 1
			}
		case c.err == nil || c.isCut() && (c.hasUnits() || brokenAnswer == nil):
			if brokenAnswer != nil {
				c.warn("an earlier JSON object was passed over: " + describeError(text, brokenAnswer))
			}
			return c, brokenAnswer
		default:
			brokenAnswer = cmp.Or(brokenAnswer, c)
		}
	}
	return nil, brokenAnswer
}

// describeError describes the error of a candidate and its place in the text.
func describeError(text string, c *candidate) string {
	before := text[:c.end]
	line := 1 + strings.Count(before, "\n")
	column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d: %v, near %q", line, column, c.err, excerpt(text, c.end))
}

// excerpt returns the text around an offset.
func excerpt(text string, pos int) string {
	const before, after = 20, 40
	return strings.ToValidUTF8(text[max(0, pos-before):min(len(text), pos+after)], "")
}

// SkipThinking returns the offset of the text after a leading <think>…</think>, or <thinking>. Some
// chat templates write the <think> themselves, so that the answer has only its end. In JSON, the
// end is a text.
func SkipThinking(text string) int {
	start := strings.TrimLeft(text, " \t\r\n\ufeff")
	for _, name := range []string{"think>", "thinking>"} {
		opened, end := strings.HasPrefix(start, "<"+name), strings.Index(text, "</"+name)
		switch {
		case opened && end < 0:
			return len(text)
		case opened || end >= 0 && !strings.ContainsRune("{[`", rune(start[0])):
			return end + len("</"+name)
		}
	}
	return 0
}

// maxNesting is how many objects may surround the lists: {"result": {"extraction": {"entities":
// …}}}.
const maxNesting = 4

// maxMessageItems is the most keys and units that the problems name.
const maxMessageItems = 5

// listNames are the keys of the two lists of an answer.
var listNames = []string{"entities", "relationships"}

// candidate is a JSON value in the text that may be the answer.
type candidate struct {
	start, end int // in the text; reading stopped at end
	// lists holds the lists of the answer by key, as strict JSON. A value that an object has
	// instead of a list is in it too.
	lists        map[string]json.RawMessage
	listOpen     bool // a list may continue after the end
	bareList     bool // a list of entities or relationships without a surrounding object
	answerInList bool // a list whose first element has the lists
	err          error
	unknownList  string // an unknown key with a list of objects
	respelled    bool   // a key has another spelling
	problems     []string
	warnings     []string
}

func (c *candidate) isCut() bool { return c.err == errCut }

// hasUnits reports whether a list has an element.
func (c *candidate) hasUnits() bool {
	return slices.ContainsFunc(listNames, func(name string) bool { return len(c.lists[name]) > len("[]") && c.lists[name][0] == '[' })
}

// readCandidate reads the value whose opening bracket is at start.
func readCandidate(text string, start int) *candidate {
	s := &scanner{text: text, pos: start}
	c := &candidate{start: start, lists: map[string]json.RawMessage{}, err: s.value()}
	c.end = s.pos
	c.listOpen = c.err != nil && bytes.IndexByte(s.closers[:s.completeDepth], ']') >= 0
	raw := s.completeJSON()
	if raw[0] == '{' {
		c.findLists(raw, 0)
	} else if holdsObjects(raw) {
		c.readBareList(raw)
	}
	return c
}

func holdsObjects(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte("[{")) }

// findLists finds the lists in an object and in the objects inside it.
func (c *candidate) findLists(raw json.RawMessage, depth int) {
	for key, value := range textutil.JSONMembers(raw) {
		name := fieldName(key)
		isList := slices.Contains(listNames, name)
		switch {
		case isList && c.lists[name] != nil:
			c.warn(fmt.Sprintf("%q stands more than once in the answer; the first was read", name))
		case isList && (value[0] == '[' || depth == 0 && (c.err == nil || value[0] != '{')): // the value may be cut
			c.lists[name] = value
		case !isList && holdsObjects(value):
			c.unknownList = brief(`"` + key + `"`)
		case depth < maxNesting && value[0] == '{':
			c.findLists(value, depth+1)
		}
	}
}

// readBareList reads a list as entities or as relationships, depending on the fields of its
// first element.
func (c *candidate) readBareList(raw json.RawMessage) {
	var known []string
	for first := range textutil.JSONElements(raw) {
		_, known, _ = c.appendSpelled(nil, first)
		break
	}
	c.answerInList = containsAny(known, listNames...)
	switch {
	case containsAny(known, anySource...) || containsAny(known, anyTarget...):
		c.lists["relationships"], c.bareList = raw, true
	case containsAny(known, "name"):
		c.lists["entities"], c.bareList = raw, true
	}
}

// warn adds a warning once.
func (c *candidate) warn(warning string) {
	if !slices.Contains(c.warnings, warning) {
		c.warnings = append(c.warnings, warning)
	}
}

// extractionJSON returns the two lists in the form that extraction.DecodeExtraction reads.
func (c *candidate) extractionJSON() []byte {
	w := textutil.JSONWriter{B: []byte{'{'}}
	for _, name := range listNames {
		list := c.lists[name]
		if len(list) == 0 || list[0] != '[' {
			w.Raw(name, list)
			continue
		}
		w.Name(name)
		w.B = append(w.B, '[')
		n := 0
		for unit := range textutil.JSONElements(list) {
			if n > 0 {
				w.B = append(w.B, ',')
			}
			w.B = c.appendUnit(w.B, name, n, unit)
			n++
		}
		w.B = append(w.B, ']')
		if n > maxListed {
			c.problems = append(c.problems, fmt.Sprintf("the answer lists more than %d %s", maxListed, name))
		}
	}
	w.Close()
	return w.B
}

// appendUnit appends an entity or a relationship. A unit with unknown fields and without the
// required ones is a problem: its field names may be in another language or of another form.
func (c *candidate) appendUnit(raw []byte, list string, i int, unit json.RawMessage) []byte {
	if unit[0] != '{' {
		return append(raw, unit...)
	}
	raw, known, unknown := c.appendSpelled(raw, unit)
	complete, names := containsAny(known, "name"), `"name" and "type"`
	if list == "relationships" {
		complete = containsAny(known, anySource...) && containsAny(known, anyTarget...) && containsAny(known, "relationship_type", "type")
		names = `"source_name", "target_name" and "relationship_type"`
	}
	if len(unknown) > 0 && !complete && len(c.problems) < maxMessageItems {
		c.problems = append(c.problems, fmt.Sprintf("%s[%d] has the fields %s: its field names must be %s, in English and spelled so",
			list, i, strings.Join(unknown, ", "), names))
	}
	return raw
}

// appendSpelled appends a unit with its keys in the spelling of extractions. Unknown keys, and
// a second spelling of an earlier key, stay unchanged. It also returns the known fields of the
// unit, and some of its unknown keys.
func (c *candidate) appendSpelled(raw []byte, unit json.RawMessage) (spelled []byte, known, unknown []string) {
	w := textutil.JSONWriter{B: append(raw, '{')}
	for rawKey, value := range textutil.RawJSONMembers(unit) {
		key := textutil.UnsafeJSONText(rawKey)
		name := fieldName(key)
		switch {
		case name == "":
			if len(unknown) < maxMessageItems {
				unknown = append(unknown, brief(string(rawKey)))
			}
		case !containsAny(known, name):
			known = append(known, name)
			if key != name {
				c.respelled, key = true, name
			}
		}
		w.Raw(key, value)
	}
	w.Close()
	return w.B, known, unknown
}

var (
	anySource = []string{"source_name", "source", "source_ref"}
	anyTarget = []string{"target_name", "target", "target_ref"}
)

func containsAny(known []string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(known, name) })
}

// fieldNames maps the letters of a key to the key of extractions.
var fieldNames = map[string]string{
	"entities": "entities", "relationships": "relationships", "relations": "relationships",
	"name": "name", "entityname": "name", "type": "type", "entitytype": "type",
	"sourcename": "source_name", "source": "source", "sourceref": "source_ref",
	"targetname": "target_name", "target": "target", "targetref": "target_ref",
	"relationshiptype": "relationship_type", "relationtype": "relationship_type",
	"id": "id", "tempid": "temp_id", "description": "description", "aliases": "aliases",
	"properties": "properties", "mentions": "mentions",
}

// fieldName returns the key of extractions that a key equals except for case and separators
// ("sourceName", "Source-Name"), or "".
func fieldName(key string) string { return fieldNames[foldType(key)] }
