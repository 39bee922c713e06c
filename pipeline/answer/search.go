package answer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

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
			return s.failed
		}
		c := read(s.text, s.at+i)
		usable := c.recognised() && !(c.bare && s.objectsOnly)
		if usable && c.bare && c.inner(s.text) {
			usable = false
			if s.failed == nil {
				s.failed = s.broken
			}
		}
		if usable && (c.err == nil || c.cut() && (c.units() > 0 || s.failed == nil)) {
			if s.failed != nil {
				c.warn("an earlier JSON object was passed over: " + s.located(s.failed))
			}
			return c
		}
		s.passOver(c, usable)
	}
	return s.failed
}

// passOver decides where to go on behind a candidate that is not the answer.
func (s *search) passOver(c *candidate, usable bool) {
	s.at = max(c.end, c.start+1)
	if usable && s.failed == nil {
		s.failed = c
	}
	if s.broken == nil && c.err != nil {
		s.broken = c
	}
	if !usable && s.strange == nil && len(c.keys) > 0 {
		s.strange = c
	}
	s.objectsOnly = s.objectsOnly || usable || c.err != nil && c.begun
	// Looked through are a list around the answer, and what a stray bracket of
	// the text around swallowed.
	stray := c.err != nil && !c.objects && len(c.keys) == 0
	if (stray || c.wrapped) && !usable && s.restarts > 0 && s.at > c.start+1 {
		s.restarts--
		s.objectsOnly = s.objectsOnly || c.cut() || c.wrapped
		s.at = c.start + 1
	}
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
	start, end := max(0, at-before), min(len(text), at+after)
	for start > 0 && !utf8.RuneStart(text[start]) {
		start--
	}
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	return text[start:end]
}

// afterThoughts returns where the answer of a model that thinks aloud begins.
func afterThoughts(text string) int {
	const opening, closing = "<think>", "</think>"
	trimmed := strings.TrimLeft(text, " \t\r\n\ufeff")
	if !strings.HasPrefix(trimmed, opening) {
		return 0
	}
	if end := strings.Index(text, closing); end >= 0 {
		return end + len(closing)
	}
	return len(text)
}

// another reports whether a text holds one more answer behind a place.
func another(text string, at int) bool {
	s := search{text: text, at: at, restarts: 0, objectsOnly: true}
	c := s.run()
	return c != nil && c.units() > 0
}
