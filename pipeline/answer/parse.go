// Package answer reads what a language model answered into an extraction, and
// says what is wrong with it in words that can be sent back to the model. It
// asks no model: the question is package prompt, the asking package pipeline.
//
// Models are asked for one JSON object and answer with something near it. Parse
// takes the first JSON in the text that lists entities or relationships, in a
// code fence or between sentences, with trailing commas, comments, single
// quotes, Python's words, raw line breaks, or cut off in the middle; each repair
// is named in the Result. It never guesses: what is not clearly meant is a
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
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

// The limits of an answer; one beyond them is a problem, and costs no more than
// reading it up to there.
const (
	MaxText   = 32 << 20  // bytes
	MaxDepth  = 64        // levels of objects and lists
	MaxListed = 250_000   // entities, and relationships
	MaxValues = 3_000_000 // texts, numbers, objects and lists together
)

// Result is what an answer said.
type Result struct {
	Extraction extraction.Extraction
	// Truncated says that the text ended before the answer did. The extraction
	// holds the entities and relationships that were complete.
	Truncated bool
	// Warnings are about what was said: unknown keys, a cut answer.
	Warnings []string
	// Repairs name what was not JSON and read all the same, each kind once.
	Repairs []string
}

// Error says what is wrong with an answer. Its problems are written for the
// model that is asked again as well as for a person.
type Error struct {
	Problems []string
	// Truncated says that the text ended before anything of it was complete.
	Truncated bool
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
// "relationships", in itself or in an object in it; or the first list of
// objects with the fields of entities, or of relationships. Text around it, a
// code fence and a leading <think>…</think> are left out. Read as if they were
// JSON, and named in Result.Repairs: trailing and doubled commas, missing commas
// between objects, comments, keys in another case or without quotes, single
// quotes where they cannot be apostrophes, raw control characters in texts,
// backslashes that escape nothing, the words of Python and JavaScript (NaN,
// None, undefined are null), numbers such as 007 (as text), invalid UTF-8 (as
// U+FFFD). Entities and relationships are decoded by
// extraction.DecodeExtraction, which resolves references.
//
// Of an answer whose end is missing, the complete entities and relationships
// are returned; an entity that was cut is left out, never returned in part.
//
// The error is an *Error that says what is wrong and where. Time and memory are
// linear in the text, within the limits above. Never panics.
func Parse(text string) (Result, error) {
	if len(text) > MaxText {
		return Result{}, problem("the answer has %d bytes, at most %d are read", len(text), MaxText)
	}
	var repairs []string
	if !utf8.ValidString(text) {
		repairs = append(repairs, "bytes that are not UTF-8 were replaced")
		text = strings.ToValidUTF8(text, string(utf8.RuneError))
	}
	if strings.Trim(text, " \t\r\n\ufeff") == "" {
		return Result{}, problem("the answer is empty: answer with one JSON object")
	}
	s := search{text: text, at: afterThoughts(text), restarts: maxRestarts}
	c := s.run()
	if c == nil {
		return Result{}, problem("%s", s.nothing())
	}
	if c.err != nil && !c.cut() {
		return Result{}, problem("%s", s.located(c))
	}
	return finish(text, c, repairs)
}

// finish turns the chosen candidate into a result.
func finish(text string, c *candidate, repairs []string) (Result, error) {
	raw := c.extraction()
	bothClosed := c.entities.closed() && c.relationships.closed()
	switch {
	case len(c.problems) > 0:
		return Result{}, &Error{Problems: c.problems}
	case len(c.lists) > 0 && !c.cut() && (c.entities.found == nil || c.relationships.found == nil):
		return Result{}, problem(`the answer has a list under the key %s, and one of the two lists is missing: the keys must be "entities" and "relationships", in English and spelled so`, strings.Join(c.lists, ", "))
	case c.cut() && c.units() == 0 && !bothClosed:
		return Result{}, &Error{Problems: []string{"the answer was cut off before its first entity was complete: answer with the JSON object alone and more briefly, or allow more tokens"}, Truncated: true}
	}
	e, warnings, err := extraction.DecodeExtraction(raw)
	if err != nil {
		return Result{}, &Error{Problems: strings.Split(err.Error(), "\n")}
	}
	result := Result{Extraction: e, Truncated: c.cut(), Warnings: append(c.warnings, warnings...), Repairs: append(repairs, c.repairs...)}
	if result.Truncated {
		result.Warnings = append(result.Warnings, fmt.Sprintf("the answer was cut off: %d complete entities and %d complete relationships were kept", len(e.Entities), len(e.Relationships)))
		c.end = len(text)
	}
	if another(text, c.end) {
		result.Warnings = append(result.Warnings, "the answer holds more than one JSON object with entities or relationships; the first was read")
	}
	return result, nil
}

// maxRestarts bounds how often a part of the text is read again because what
// began before it was no answer; it keeps the cost linear.
const maxRestarts = 16

// maxCandidates bounds how many brackets of a text are looked at.
const maxCandidates = 100_000

// search looks for the answer among the brackets of a text.
type search struct {
	text     string
	at       int
	restarts int
	// objectsOnly says that JSON was begun and given up: a list found from here
	// on may be a part of it, an object with the lists in it may not.
	objectsOnly bool
	failed      *candidate // the first that looked like the answer and is broken
	broken      *candidate // the first that is broken
	strange     *candidate // the first that was JSON and no answer
}

// run returns the answer: a whole one, a cut one, or one with the error that
// stopped it; nil where nothing looks like one.
func (s *search) run() *candidate {
	for range maxCandidates {
		i := strings.IndexAny(s.text[s.at:], "{[")
		if i < 0 {
			break
		}
		c := read(s.text, s.at+i)
		s.at = max(c.end, c.start+1)
		part := c.bare && !s.objectsOnly && inner(s.text[:c.start], s.text[c.end:])
		switch usable := c.recognised() && !part && !(c.bare && s.objectsOnly); {
		case usable && (c.err == nil || c.cut() && (c.units() > 0 || s.failed == nil)):
			if s.failed != nil {
				c.warn("an earlier JSON object was passed over: " + s.located(s.failed))
			}
			return c
		case usable:
			s.failed = cmp.Or(s.failed, c)
			s.objectsOnly = true
		default:
			s.passOver(c, part)
		}
	}
	return s.failed
}

// passOver decides where to go on behind a candidate that is not the answer.
func (s *search) passOver(c *candidate, part bool) {
	if part {
		s.failed = cmp.Or(s.failed, s.broken)
	}
	if c.err != nil {
		s.broken = cmp.Or(s.broken, c)
	}
	if len(c.keys) > 0 {
		s.strange = cmp.Or(s.strange, c)
	}
	s.objectsOnly = s.objectsOnly || c.err != nil && c.top.begun()
	// Looked through are a list around the answer, and what a stray bracket of
	// the text around swallowed.
	stray := c.err != nil && !c.top.holdsObjects() && len(c.keys) == 0
	if (stray || c.wrapped) && s.restarts > 0 {
		s.restarts--
		s.objectsOnly = s.objectsOnly || c.cut() || c.wrapped
		s.at = c.start + 1
	}
}

var (
	endsWithKey  = regexp.MustCompile(`["']\s*:\s*$`)
	goesOnBehind = regexp.MustCompile(`^\s*(\}|,\s*["'])`)
)

// inner reports whether a list without an object around it stands behind a key,
// or before more of an object: then it is a part of something that was not
// understood.
func inner(before, after string) bool {
	const enough = 200
	return endsWithKey.MatchString(before[max(0, len(before)-enough):]) || goesOnBehind.MatchString(after)
}

// nothing says why a text has no answer in it.
func (s *search) nothing() string {
	const wanted = `answer with one JSON object with the lists "entities" and "relationships"`
	if s.strange != nil {
		return fmt.Sprintf("the answer has neither \"entities\" nor \"relationships\": its JSON has the keys %s; the keys must be spelled so, in English: %s",
			strings.Join(s.strange.keys, ", "), wanted)
	}
	return fmt.Sprintf("the answer holds no JSON object (it begins %q): %s", excerpt(s.text, 0), wanted)
}

// located says what is wrong with a candidate, and where in the text.
func (s *search) located(c *candidate) string {
	at := c.end
	var syntax *syntaxError
	if errors.As(c.err, &syntax) {
		at = syntax.at
	}
	line := 1 + strings.Count(s.text[:at], "\n")
	column := 1 + utf8.RuneCountInString(s.text[strings.LastIndexByte(s.text[:at], '\n')+1:at])
	return fmt.Sprintf("line %d, column %d: %v, near %q", line, column, c.err, excerpt(s.text, at))
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

// another reports whether a text holds one more answer behind a place.
func another(text string, at int) bool {
	s := search{text: text, at: at, objectsOnly: true}
	c := s.run()
	return c != nil && c.units() > 0
}
