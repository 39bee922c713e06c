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
	"cmp"
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
