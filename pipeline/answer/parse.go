package answer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"extraction-experiment/extraction"
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
		return Result{}, &Error{Problems: []string{fmt.Sprintf("the answer has %d bytes, at most %d are read", len(text), MaxText)}}
	}
	var repairs []string
	if !utf8.ValidString(text) {
		repairs = append(repairs, "bytes that are not UTF-8 were replaced")
		text = strings.ToValidUTF8(text, string(utf8.RuneError))
	}
	if strings.Trim(text, " \t\r\n\ufeff") == "" {
		return Result{}, &Error{Problems: []string{"the answer is empty: answer with one JSON object"}}
	}
	s := search{text: text, at: afterThoughts(text), restarts: maxRestarts}
	c := s.run()
	if c == nil {
		return Result{}, &Error{Problems: []string{s.nothing()}}
	}
	if c.err != nil && !c.cut() {
		return Result{}, &Error{Problems: []string{s.located(c)}}
	}
	return finish(text, c, append(repairs, c.repairs...))
}

// finish turns the chosen candidate into a result.
func finish(text string, c *candidate, repairs []string) (Result, error) {
	if len(c.problems) > 0 {
		return Result{}, &Error{Problems: c.problems}
	}
	if len(c.lists) > 0 && !c.cut() && !(c.entities.found && c.relationships.found) {
		return Result{}, &Error{Problems: []string{fmt.Sprintf(`the answer has a list under the key %s, and one of the two lists is missing: the keys must be "entities" and "relationships", in English and spelled so`, strings.Join(c.lists, ", "))}}
	}
	if c.cut() && c.units() == 0 && !(c.entities.closed && c.relationships.closed) {
		return Result{}, &Error{Problems: []string{"the answer was cut off before its first entity was complete: answer with the JSON object alone and more briefly, or allow more tokens"}, Truncated: true}
	}
	raw := []byte{'{'}
	for _, l := range []*list{&c.entities, &c.relationships} {
		if !l.found {
			continue
		}
		if len(raw) > 1 {
			raw = append(raw, ',')
		}
		raw = append(append(raw, '"'), l.name...)
		raw = append(append(raw, `":`...), l.json()...)
	}
	raw = append(raw, '}')
	e, warnings, err := extraction.DecodeExtraction(raw)
	if err != nil {
		return Result{}, &Error{Problems: each(err)}
	}
	result := Result{Extraction: e, Truncated: c.cut(), Warnings: append(c.warnings, warnings...), Repairs: repairs}
	if result.Truncated {
		result.Warnings = append(result.Warnings, fmt.Sprintf("the answer was cut off: %d complete entities and %d complete relationships were kept", len(e.Entities), len(e.Relationships)))
		c.end = len(text)
	}
	result.Repairs = append(result.Repairs, around(text, c)...)
	if another(text, c.end) {
		result.Warnings = append(result.Warnings, "the answer holds more than one JSON object with entities or relationships; the first was read")
	}
	return result, nil
}

// around names what stands before and behind the answer.
func around(text string, c *candidate) []string {
	var repairs []string
	before, after := text[:c.start], text[c.end:]
	if strings.HasPrefix(before, "\ufeff") {
		repairs = append(repairs, "a byte order mark was removed")
	}
	fenced := strings.Contains(before, "```")
	if fenced {
		repairs = append(repairs, "a code fence was removed")
	}
	for _, language := range []string{"```json\n", "```JSON\n", "```\n", "```"} {
		before = strings.TrimSuffix(strings.TrimRight(before, " \t"), language)
		after = strings.Replace(after, "```", "", 1)
	}
	if strings.Trim(before, " \t\r\n\ufeff") != "" {
		repairs = append(repairs, "text before the JSON was left out")
	}
	if strings.TrimSpace(after) != "" {
		repairs = append(repairs, "text behind the JSON was left out")
	}
	return repairs
}

// each takes joined errors apart.
func each(err error) []string {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	var problems []string
	for _, one := range joined.Unwrap() {
		problems = append(problems, one.Error())
	}
	return problems
}
