// Package answer reads what a language model answered into an extraction, and
// says what is wrong with it in words that can be sent back to the model. It
// asks no model; package pipeline does.
//
// Models are asked for one JSON object and answer with something near it. Parse
// takes the first JSON in the text that lists entities or relationships, in a
// code fence or between sentences, with trailing commas, comments, single
// quotes, Python's words, raw line breaks, or cut off in the middle; that it was
// repaired is said in the Result. It never guesses: what is not clearly meant is a
// problem, with its line and column.
//
// The steps: Schema is sent with the request, or Instruction where the server
// takes no JSON Schema; Parse reads the answer; Normalise spells types as the
// document's schemas do; Validate names what breaks the schemas.
//
//	result, err := answer.Parse(response.Text)
//	var problem *answer.Error
//	if errors.As(err, &problem) { … send problem.Problems back … }
//	found := answer.Normalise(result.Extraction, doc)
//	problems := answer.Validate(found, doc)
package answer

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

// The limits of an answer; one beyond them is a problem, and costs no more than
// reading it up to there.
const (
	maxText   = 32 << 20  // bytes
	maxDepth  = 64        // levels of objects and lists
	maxListed = 250_000   // entities, and relationships
	maxValues = 3_000_000 // texts, numbers, objects and lists together
)

// Result is what an answer said.
type Result struct {
	Extraction extraction.Extraction
	// Truncated says that the text ended before the answer did. The extraction
	// holds the entities and relationships that were complete.
	Truncated bool
	// Warnings are about what was said: unknown keys, a cut answer, one that was no
	// JSON and was read all the same.
	Warnings []string
}

// Error says what is wrong with an answer. Its problems are written for the
// model that is asked again as well as for a person.
type Error struct {
	Problems []string
}

// Error joins the problems.
func (e *Error) Error() string { return "reading the answer: " + strings.Join(e.Problems, "; ") }

// Unwrap returns the failure of class InvalidOutput that an item has which ends
// so.
func (e *Error) Unwrap() error {
	return &outcome.Failure{Class: outcome.InvalidOutput, Message: e.Error()}
}

func problem(format string, args ...any) error {
	return &Error{Problems: []string{fmt.Sprintf(format, args...)}}
}

// Parse reads the answer of a model.
//
// The answer is the first JSON object in the text with a list "entities" or
// "relationships", in itself or in an object in it; or a list of objects with the
// fields of entities, or of relationships, where it is the only JSON in the text.
// Text around it, a code fence and a leading <think>…</think> are left out. Read as
// if they were JSON, with a warning: trailing and doubled commas, comments, keys in
// another case, single quotes where they cannot be apostrophes, raw control
// characters in texts, backslashes that escape nothing, the words of Python (NaN,
// None, undefined are null). Invalid UTF-8 reads as U+FFFD. Entities and
// relationships are decoded by extraction.DecodeExtraction, which resolves references.
//
// Of an answer whose end is missing, the complete entities and relationships
// are returned; an entity that was cut is left out, never returned in part.
//
// The error is an *Error that says what is wrong and where. Time and memory are
// linear in the text, within the limits above. Never panics.
func Parse(text string) (Result, error) {
	if len(text) > maxText {
		return Result{}, problem("the answer has %d bytes, at most %d are read", len(text), maxText)
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if strings.Trim(text, " \t\r\n\ufeff") == "" {
		return Result{}, problem("the answer is empty: answer with one JSON object")
	}
	c, failed := search(text, afterThoughts(text))
	switch {
	case c != nil:
		return finish(text, c)
	case failed != nil:
		return Result{}, problem("%s", located(text, failed))
	}
	return Result{}, problem(`the answer holds no JSON object with the lists "entities" and "relationships", in English and spelled so (it begins %q): `+
		`answer with one`, excerpt(text, 0))
}

// finish turns the chosen candidate into a result.
func finish(text string, c *candidate) (Result, error) {
	raw := c.extraction()
	switch {
	case len(c.problems) > 0:
		return Result{}, &Error{Problems: c.problems}
	case c.other != "" && !c.cut() && len(c.lists) < len(listNames):
		return Result{}, problem(`the answer has a list under the key %s, and one of the two lists is missing: the keys must be "entities" and "relationships", in English and spelled so`, c.other)
	case c.cut() && !c.filled() && !c.closed():
		return Result{}, problem("the answer was cut off before its first entity was complete: answer with the JSON object alone and more briefly, or allow more tokens")
	}
	e, warnings, err := extraction.DecodeExtraction(raw)
	if err != nil {
		return Result{}, &Error{Problems: strings.Split(err.Error(), "\n")}
	}
	result := Result{Extraction: e, Truncated: c.cut(), Warnings: append(c.warnings, warnings...)}
	if c.repaired {
		result.Warnings = append(result.Warnings, "the answer is not JSON as it stands, and was repaired")
	}
	if result.Truncated {
		result.Warnings = append(result.Warnings, fmt.Sprintf("the answer was cut off: %d complete entities and %d complete relationships were kept", len(e.Entities), len(e.Relationships)))
	} else if another, _ := search(text, c.end); another != nil && !another.bare && another.filled() {
		result.Warnings = append(result.Warnings, "the answer holds more than one JSON object with entities or relationships; the first was read")
	}
	return result, nil
}

// maxRestarts bounds how often a part of the text is read again because what
// began before it was not an answer; it keeps the cost linear.
const maxRestarts = 16

// maxCandidates bounds how many brackets of a text are looked at.
const maxCandidates = 100_000

// search looks for the answer among the brackets of a text, from a place on: a
// whole one, or a cut one. Failed is the first that is the answer and broken.
func search(text string, from int) (found, failed *candidate) {
	var broken *candidate // the first that is broken, whatever it is
	at, restarts := from, maxRestarts
	for n := range maxCandidates {
		i := strings.IndexAny(text[at:], "{[")
		if i < 0 {
			break
		}
		c := read(text, at+i)
		// A list may be a part of something that was not understood.
		part := c.bare && (n > 0 || !c.cut() && strings.ContainsAny(text[c.end:], "{[]}"))
		at = max(c.end, c.start+1)
		switch {
		case part || !c.recognised():
			if part {
				failed = cmp.Or(failed, broken)
			}
			if c.err != nil && !c.cut() {
				broken = cmp.Or(broken, c)
			}
			// Looked through are a list around the answer, and what a stray bracket of
			// the text around swallowed.
			if (c.err != nil || c.wrapped) && restarts > 0 {
				restarts--
				at = c.start + 1
			}
		case c.err == nil || c.cut() && (c.filled() || failed == nil):
			if failed != nil {
				c.warn("an earlier JSON object was passed over: " + located(text, failed))
			}
			return c, failed
		default:
			failed = cmp.Or(failed, c)
		}
	}
	return nil, failed
}

// located says what is wrong with a candidate, and where in the text.
func located(text string, c *candidate) string {
	before := text[:c.end]
	line := 1 + strings.Count(before, "\n")
	column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d: %v, near %q", line, column, c.err, excerpt(text, c.end))
}

// excerpt shows the text around a place in one line.
func excerpt(text string, at int) string {
	const before, after = 20, 40
	return strings.ToValidUTF8(text[max(0, at-before):min(len(text), at+after)], "")
}

// afterThoughts returns where the answer of a model that thinks aloud begins.
func afterThoughts(text string) int {
	const opening, closing = "<think>", "</think>"
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n\ufeff"), opening) {
		return 0
	}
	if end := strings.Index(text, closing); end >= 0 {
		return end + len(closing)
	}
	return len(text)
}
