package extraction

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// maxProblems is the maximum number of problems, and of warnings, of one document, so that
// hostile input cannot fill the memory with messages.
const maxProblems = 20

// reader decodes a JSON value and collects its problems, so that a user sees all of them at
// once.
type reader struct {
	problems        []error
	warnings        []string
	valid           bool     // the input is valid UTF-8
	members         []member // memory for the members of objects
	textBuffer      strings.Builder
	droppedProblems int
}

// text returns a string that shares its memory with others, to save allocations.
func (r *reader) text(b []byte) string {
	if r.textBuffer.Cap()-r.textBuffer.Len() < len(b) {
		r.textBuffer = strings.Builder{}
		r.textBuffer.Grow(max(1024, len(b)))
	}
	start := r.textBuffer.Len()
	r.textBuffer.Write(b)
	return r.textBuffer.String()[start:]
}

func (r *reader) problem(path, format string, args ...any) {
	if len(r.problems) == maxProblems {
		r.droppedProblems++
		return
	}
	r.problems = append(r.problems, fmt.Errorf("%s: %s", cmp.Or(path, "extraction"), fmt.Sprintf(format, args...)))
}

func (r *reader) warn(format string, args ...any) {
	if len(r.warnings) < maxProblems {
		r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
	}
}

func (r *reader) err() error {
	if r.droppedProblems > 0 {
		r.problems = append(r.problems, fmt.Errorf("and %d more problems", r.droppedProblems))
		r.droppedProblems = 0
	}
	return errors.Join(r.problems...)
}

// fields is a JSON object with its path.
type fields struct {
	r             *reader
	path          string
	pos           int // index in the list at path, or -1
	membersBefore int // length of reader.members before this object
	members       []member
}

// member is a member of an object. The last value of a repeated key counts.
type member struct {
	key      []byte
	value    json.RawMessage
	used     bool // a key that was used
	repeated bool // a used key that an earlier member has, too
}

// object reads a JSON object. Anything else is a problem and reads as an empty object.
func (r *reader) object(path string, raw []byte) fields {
	return r.element(path, -1, raw)
}

// element reads an object that is an element of a list.
func (r *reader) element(list string, index int, raw []byte) fields {
	f := fields{r: r, path: list, pos: index, membersBefore: len(r.members)}
	if !r.valid && !utf8.Valid(raw) { // the first object contains all others
		r.problem(f.where(), "is not valid UTF-8; convert the source first")
		return f
	}
	r.valid = true
	if cap(r.members)-len(r.members) < 8 { // most objects have fewer
		r.members = make([]member, 0, max(16, min(2*cap(r.members), 128)))
	}
	start := len(r.members)
	switch ok := textutil.ReadJSONObject(raw, r.member); {
	case ok:
		f.members = slices.Clip(r.members[start:])
	case len(bytes.TrimSpace(raw)) == 0:
		r.problem(f.where(), "is missing")
	default:
		r.problem(f.where(), "expected an object, got %s", kindOf(raw))
	}
	return f
}

// member adds a member of the current object.
func (r *reader) member(key []byte, value json.RawMessage) bool {
	text := key[1 : len(key)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text = []byte(textutil.JSONText(key))
	}
	r.members = append(r.members, member{key: text, value: value})
	return true
}

// value returns the value of a key, or nil.
func (f fields) value(key string) (value json.RawMessage) {
	for i := range f.members {
		if m := &f.members[i]; string(m.key) == key {
			m.used, m.repeated, value = true, value != nil, m.value
		}
	}
	return value
}

// take returns the first of the keys that is present and not null, with its value.
func (f fields) take(keys []string) (string, json.RawMessage) {
	var found json.RawMessage
	var foundKey string
	for _, key := range keys {
		if raw := f.value(key); found == nil && raw != nil && raw[0] != 'n' { // null alone begins so
			foundKey, found = key, raw
		}
	}
	return foundKey, found
}

func (f fields) raw(key string) json.RawMessage {
	_, raw := f.take([]string{key})
	return raw
}

// text returns a string. A number is accepted and returned as it is written, since models write
// years and identifiers without quotes.
func (f fields) text(keys ...string) string {
	key, raw := f.take(keys)
	if raw == nil {
		return ""
	}
	if s, ok := f.r.string(raw); ok {
		return s
	}
	if raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' {
		return string(raw)
	}
	f.r.problem(f.join(key), "expected a string, got %s", kindOf(raw))
	return ""
}

// string decodes a string; null gives "". Since the value is valid JSON, a string without
// escapes is the text between its quotes.
func (r *reader) string(raw json.RawMessage) (string, bool) {
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return r.text(raw[1 : n-1]), true
	}
	var text string // declared late, since it is allocated
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

// label returns a text of at most MaxLabel bytes; a longer one is a problem.
func (f fields) label(keys ...string) string {
	text := f.text(keys...)
	if len(text) > MaxLabel {
		key, _ := f.take(keys)
		f.r.tooLong(f.join(key), text)
		return ""
	}
	return text
}

func (r *reader) tooLong(path, text string) {
	r.problem(path, "has %d bytes, and no name has more than %d", len(text), MaxLabel)
}

func (f fields) integer(key string) int {
	raw := f.raw(key)
	if raw == nil {
		return 0
	}
	n, err := strconv.Atoi(string(raw)) // valid JSON
	if err != nil {
		f.r.problem(f.join(key), "expected a whole number, got %s", kindOf(raw))
	}
	return n
}

// list returns the elements of a list, or nil if it is absent or null.
func (f fields) list(key string) []json.RawMessage {
	raw := f.raw(key)
	if raw == nil {
		return nil
	}
	if raw[0] != '[' {
		f.r.problem(f.join(key), "expected a list, got %s", kindOf(raw))
		return nil
	}
	return slices.AppendSeq(make([]json.RawMessage, 0, min(len(raw)/48, 64)+4), textutil.JSONElements(raw))
}

// texts returns a list of labels.
func (f fields) texts(key string) []string {
	var texts []string
	for i, raw := range f.list(key) {
		s, ok := f.r.string(raw)
		switch {
		case !ok:
			f.r.problem(f.index(key, i), "expected a string, got %s", kindOf(raw))
		case len(s) > MaxLabel:
			f.r.tooLong(f.index(key, i), s)
		default:
			texts = append(texts, s)
		}
	}
	return texts
}

// done warns of the keys that were not used or are repeated, and frees the memory of the members,
// including those of objects inside, which must be done.
func (f fields) done() {
	f.r.members = f.r.members[:min(f.membersBefore, len(f.r.members))]
	var unknown []string
	for _, m := range f.members {
		switch {
		case !m.used:
			unknown = append(unknown, strconv.Quote(string(m.key)))
		case m.repeated:
			f.r.warn("%s: %s is given twice; the last counts", cmp.Or(f.where(), "extraction"), m.key)
		}
	}
	if len(unknown) == 0 {
		return
	}
	slices.Sort(unknown)
	unknown = slices.Compact(unknown)
	use := "are kept but not used"
	if f.where() == "input" {
		use = "are kept, and only variables of prompts use them"
	}
	f.r.warn("%s: unknown keys %s: %s", cmp.Or(f.where(), "extraction"), use,
		textutil.Cut(strings.Join(unknown, ", "), MaxLabel))
}

// where returns the path of the object.
func (f fields) where() string {
	if f.pos < 0 {
		return f.path
	}
	return f.path + "[" + strconv.Itoa(f.pos) + "]"
}

func (f fields) join(key string) string {
	if path := f.where(); path != "" {
		return path + "." + key
	}
	return key
}

func (f fields) index(key string, i int) string { return f.join(key) + "[" + strconv.Itoa(i) + "]" }

// kinds has the kinds of JSON values by their first byte; all others are numbers.
var kinds = map[byte]string{
	'{': "an object", '[': "a list", '"': "a string", 't': "a boolean", 'f': "a boolean", 'n': "null",
}

// kindOf returns the kind of a JSON value, for messages.
func kindOf(raw []byte) string {
	trimmed := bytes.TrimSpace(raw)
	switch {
	case len(trimmed) == 0:
		return "nothing"
	case !textutil.ValidJSON(trimmed):
		return "text that is not JSON"
	}
	return cmp.Or(kinds[trimmed[0]], "a number")
}
