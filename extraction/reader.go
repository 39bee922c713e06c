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

// maxProblems bounds how many problems and warnings one document collects, so
// that hostile input cannot fill the memory with messages.
const maxProblems = 20

// reader collects what is wrong with a JSON value while it is taken apart, so
// that a person sees every problem at once.
type reader struct {
	problems []error
	warnings []string
	valid    bool     // what is read is UTF-8
	room     []member // for the next objects
	texts    strings.Builder
	dropped  int
}

// text returns a string that shares its memory with others.
func (r *reader) text(b []byte) string {
	if r.texts.Cap()-r.texts.Len() < len(b) {
		r.texts = strings.Builder{}
		r.texts.Grow(max(1024, len(b)))
	}
	from := r.texts.Len()
	r.texts.Write(b)
	return r.texts.String()[from:]
}

func (r *reader) problem(path, format string, args ...any) {
	if len(r.problems) == maxProblems {
		r.dropped++
		return
	}
	r.problems = append(r.problems, fmt.Errorf("%s: %s", name(path), fmt.Sprintf(format, args...)))
}

func (r *reader) warn(format string, args ...any) {
	if len(r.warnings) < maxProblems {
		r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
	}
}

func (r *reader) err() error {
	if r.dropped > 0 {
		r.problems = append(r.problems, fmt.Errorf("and %d more problems", r.dropped))
		r.dropped = 0
	}
	return errors.Join(r.problems...)
}

// fields is one JSON object with the path that leads to it.
type fields struct {
	r       *reader
	path    string
	at      int // its place in the list of that path, or -1
	from    int // how much of the reader's room others had
	members []member
}

// member is one key of an object. Of a repeated one the last counts.
type member struct {
	key   []byte
	value json.RawMessage
	asked bool // somebody took it, or one of the same key
}

// object opens a JSON object; anything else is a problem and reads as empty.
func (r *reader) object(path string, raw []byte) fields {
	return r.element(path, -1, raw)
}

// element opens an object that is an element of a list.
func (r *reader) element(list string, at int, raw []byte) fields {
	f := fields{r: r, path: list, at: at, from: len(r.room)}
	if !r.valid && !utf8.Valid(raw) { // the first object holds all others
		r.problem(f.where(), "is not valid UTF-8; convert the source first")
		return f
	}
	r.valid = true
	if cap(r.room)-len(r.room) < 8 { // most objects have fewer
		r.room = make([]member, 0, max(16, min(2*cap(r.room), 128)))
	}
	from := len(r.room)
	switch ok := textutil.ReadJSONObject(raw, r.member); {
	case ok:
		f.members = slices.Clip(r.room[from:])
	case len(bytes.TrimSpace(raw)) == 0:
		r.problem(f.where(), "is missing")
	default:
		r.problem(f.where(), "expected an object, got %s", describe(raw))
	}
	return f
}

// member adds one to those of the object that is read.
func (r *reader) member(key []byte, value json.RawMessage) bool {
	text := key[1 : len(key)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text = []byte(textutil.JSONText(key))
	}
	r.room = append(r.room, member{key: text, value: value})
	return true
}

// value returns that of a key; nil where it is not there.
func (f fields) value(key string) (value json.RawMessage) {
	for i := range f.members {
		if m := &f.members[i]; string(m.key) == key {
			m.asked, value = true, m.value
		}
	}
	return value
}

// take returns the first of the named keys that is present and not null.
func (f fields) take(keys []string) (string, json.RawMessage) {
	var found json.RawMessage
	var at string
	for _, key := range keys {
		if raw := f.value(key); found == nil && raw != nil && !isNull(raw) {
			at, found = key, raw
		}
	}
	return at, found
}

func (f fields) raw(key string) json.RawMessage {
	_, raw := f.take([]string{key})
	return raw
}

// text reads a string. A number is accepted as it is written: models write
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
	f.r.problem(f.join(key), "expected a string, got %s", describe(raw))
	return ""
}

// string reads a string, or null, which is the empty one. The value has been
// parsed already, so that one without escapes is what stands between its quotes.
func (r *reader) string(raw json.RawMessage) (string, bool) {
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return r.text(raw[1 : n-1]), true
	}
	var text string // only here: it is allocated where it stands
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

// label is text of at most MaxLabel bytes.
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
	_, raw := f.take([]string{key})
	if raw == nil {
		return 0
	}
	n, err := strconv.Atoi(string(raw)) // of what is JSON
	if err != nil {
		f.r.problem(f.join(key), "expected a whole number, got %s", describe(raw))
	}
	return n
}

// list returns nil for an absent or null list and a non-nil slice otherwise.
func (f fields) list(key string) []json.RawMessage {
	_, raw := f.take([]string{key})
	if raw == nil {
		return nil
	}
	if raw[0] != '[' {
		f.r.problem(f.join(key), "expected a list, got %s", describe(raw))
		return nil
	}
	return slices.AppendSeq(make([]json.RawMessage, 0, min(len(raw)/48, 64)+4), textutil.JSONElements(raw))
}

// texts reads a list of labels.
func (f fields) texts(key string) []string {
	var texts []string
	for i, raw := range f.list(key) {
		s, ok := f.r.string(raw)
		switch {
		case !ok:
			f.r.problem(f.index(key, i), "expected a string, got %s", describe(raw))
		case len(s) > MaxLabel:
			f.r.tooLong(f.index(key, i), s)
		default:
			texts = append(texts, s)
		}
	}
	return texts
}

// done names the keys that nothing asked for, and gives the room back: those within the object
// are done.
func (f fields) done() {
	f.r.room = f.r.room[:min(f.from, len(f.r.room))]
	var unknown []string
	for _, m := range f.members {
		if !m.asked {
			unknown = append(unknown, strconv.Quote(string(m.key)))
		}
	}
	if len(unknown) == 0 {
		return
	}
	slices.Sort(unknown)
	unknown = slices.Compact(unknown)
	f.r.warn("%s: unknown keys are kept but not used: %s", name(f.where()), textutil.Cut(strings.Join(unknown, ", "), MaxLabel))
}

// where is the path that leads to the object.
func (f fields) where() string {
	if f.at < 0 {
		return f.path
	}
	return f.path + "[" + strconv.Itoa(f.at) + "]"
}

func (f fields) join(key string) string {
	if path := f.where(); path != "" {
		return path + "." + key
	}
	return key
}

func (f fields) index(key string, i int) string { return f.join(key) + "[" + strconv.Itoa(i) + "]" }

// name is how a path is written in a message; the top has none.
func name(path string) string {
	if path == "" {
		return "extraction"
	}
	return path
}

// isNull looks at a value that is JSON.
func isNull(raw []byte) bool { return raw[0] == 'n' }

// kinds of JSON values by their first byte; all others are numbers.
var kinds = map[byte]string{
	'{': "an object", '[': "a list", '"': "a string", 't': "a boolean", 'f': "a boolean", 'n': "null",
}

// describe names the kind of a JSON value, for messages.
func describe(raw []byte) string {
	trimmed := bytes.TrimSpace(raw)
	switch {
	case len(trimmed) == 0:
		return "nothing"
	case !textutil.ValidJSON(trimmed):
		return "text that is not JSON"
	}
	return cmp.Or(kinds[trimmed[0]], "a number")
}
