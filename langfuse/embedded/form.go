package embedded

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// The sizes of request bodies, by route; the texts are part of the contract.
const (
	smallBody = 1 << 20
	largeBody = 4<<20 + 1<<19 // 4.5 MB, for dataset items and ingestion
)

// form is a JSON object from outside. Its readers collect issues instead of
// failing, so that one answer names every field that is wrong.
type form struct {
	fields  []field // if a key occurs twice, the last counts
	issues  []issue
	problem error // why there are no fields
}

type field struct {
	key   string
	value json.RawMessage
	read  bool
}

// form reads the body of a call as one JSON object. One that is none has no
// fields, and err says why.
func (c *call) form(limit int64) *form { return c.formIn(new(bytes.Buffer), limit) }

// formIn is form with a buffer for the body, whose texts are those of the form.
func (c *call) formIn(buffer *bytes.Buffer, limit int64) *form {
	body, err := readBody(buffer, c.r.Body, limit, c.r.ContentLength)
	switch {
	case err != nil:
		return &form{problem: err}
	case len(bytes.TrimSpace(body)) == 0:
		body = []byte("{}")
	}
	return newForm(body)
}

func newForm(body json.RawMessage) *form {
	if depth := textutil.JSONDepth(body); depth > maxDepth {
		text := fmt.Sprintf("Invalid input: nested deeper than %d", maxDepth)
		return &form{problem: badData(issue{Code: "custom", Path: []any{}, Message: text})}
	} else if depth < 0 {
		return &form{problem: &fault{http.StatusBadRequest, "Invalid JSON"}}
	}
	f := new(form)
	f.open(body)
	return f
}

// readBody reads a body up to a limit, into an empty buffer, of what is said to have that
// many bytes; -1 is unknown.
func readBody(into *bytes.Buffer, r io.Reader, limit, said int64) ([]byte, error) {
	into.Grow(int(min(max(0, said), 8<<20)) + bytes.MinRead)
	if _, err := into.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, spanFault("Failed to read the request body: " + err.Error())
	}
	if int64(into.Len()) > limit {
		return nil, &fault{http.StatusRequestEntityTooLarge, fmt.Sprintf("Body exceeded %gmb limit", float64(limit)/(1<<20))}
	}
	return into.Bytes(), nil
}

// open reads what is known to be JSON, or is absent, in place of what the form was
// before. Keys and texts of the form are parts of it, so that it must not change.
func (f *form) open(raw json.RawMessage) {
	*f = form{fields: f.fields[:0]}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		f.problem = badData(issue{Code: "invalid_type", Path: []any{}, Message: "Invalid input: expected object"})
		return
	}
	for key, value := range textutil.RawJSONMembers(raw) {
		f.fields = append(f.fields, field{key: textutil.JSONTextIn(key), value: value})
	}
}

func (f *form) add(code, key, message string) {
	f.issues = append(f.issues, issue{Code: code, Path: []any{key}, Message: message})
}

// sized wants a text of so many characters, unless something else is wrong with the field.
func (f *form) sized(key, text string, low, high int) {
	if n := utf8.RuneCountInString(text); (n < low || n > high) && !f.failed(key) {
		f.add("custom", key, fmt.Sprintf("Invalid input: expected %d to %d characters", low, high))
	}
}

// failed says whether an issue names a field.
func (f *form) failed(key string) bool {
	return slices.ContainsFunc(f.issues, func(found issue) bool { return len(found.Path) > 0 && found.Path[0] == key })
}

// raw returns a field as it came, nil where it is absent. null is returned.
func (f *form) raw(key string) (value json.RawMessage) {
	for i := range f.fields {
		if f.fields[i].key == key {
			f.fields[i].read, value = true, f.fields[i].value
		}
	}
	return value
}

// has says whether a field is there and not null.
func (f *form) has(key string) bool {
	raw := f.raw(key)
	return raw != nil && string(raw) != "null"
}

// into reads a field that may be absent or null; the bool says whether it is there.
func (f *form) into(key string, v any, kind string) bool {
	if !f.has(key) {
		return false
	}
	if json.Unmarshal(f.raw(key), v) != nil {
		f.add("invalid_type", key, "Invalid input: expected "+kind)
	}
	return true
}

// elements returns the values of a list, which has to be there.
func (f *form) elements(key string) []json.RawMessage {
	raw := f.raw(key)
	if len(raw) == 0 || raw[0] != '[' {
		f.add("invalid_type", key, "Invalid input: expected array")
		return nil
	}
	return slices.Collect(textutil.JSONElements(raw))
}

// text returns a string that may be absent or null.
func (f *form) text(key string) string {
	raw := f.raw(key)
	if len(raw) > 0 && raw[0] == '"' && utf8.Valid(raw) {
		return textutil.JSONTextIn(raw)
	}
	if raw == nil {
		return ""
	}
	var s string
	f.into(key, &s, "string")
	return s
}

// must returns a string that has to be there; it may be empty.
func (f *form) must(key string) string {
	if !f.has(key) {
		f.add("invalid_type", key, "Invalid input: expected string, received undefined")
	}
	return f.text(key)
}

// oneOf returns a string that has to be one of some; an empty one where it is
// absent.
func (f *form) oneOf(key string, known ...string) string {
	s := f.text(key)
	if f.has(key) && !slices.Contains(known, s) && !f.failed(key) {
		f.add("invalid_value", key, "Invalid option: expected one of "+strings.Join(known, "|"))
	}
	return s
}

// texts returns a list of strings that may be absent.
func (f *form) texts(key string) (list []string) {
	f.into(key, &list, "array of strings")
	return list
}

// nullText returns a string that may be null.
func (f *form) nullText(key string) sql.NullString {
	return sql.NullString{String: f.text(key), Valid: f.has(key)}
}

// nullJSON returns a field as the text of its JSON.
func (f *form) nullJSON(key string) sql.NullString {
	if !f.has(key) {
		return sql.NullString{}
	}
	return sql.NullString{String: string(f.raw(key)), Valid: true}
}

// nullNumber returns a number that may be null.
func (f *form) nullNumber(key string) (n sql.NullFloat64) {
	n.Valid = f.into(key, &n.Float64, "number")
	return n
}

// readValue reads a field the way Langfuse does: null is not a value, control
// characters are taken out of strings, the empty string clears the value, and
// a string at the top that is JSON is stored as what it says.
func readValue(f *form, key string) *sql.NullString {
	if !f.has(key) {
		return nil
	}
	decoded := stripControls(parsedText(string(f.raw(key))))
	if text, isText := decoded.(string); isText {
		decoded = parsedText(text)
	}
	if decoded == nil || decoded == "" {
		return &sql.NullString{}
	}
	text, err := textutil.MarshalJSON(decoded)
	if err != nil {
		f.add("invalid_type", key, "Invalid JSON value")
	}
	return &sql.NullString{String: string(text), Valid: true}
}

// stripControls takes C0 and C1 control characters out of all strings, keys
// excepted; tab, line feed, form feed and carriage return stay. Its depth is
// bounded by the decoder.
func stripControls(v any) any {
	return eachLeaf("", v, func(_ string, leaf any) any {
		text, isText := leaf.(string)
		if !isText {
			return leaf
		}
		return strings.Map(func(r rune) rune {
			if (r < 0x20 && r != '\t' && r != '\n' && r != '\f' && r != '\r') || (r >= 0x7f && r <= 0x9f) {
				return -1
			}
			return r
		}, text)
	})
}

// instant returns a timestamp that may be absent, in milliseconds.
func (f *form) instant(key string) (int64, bool) {
	s := f.text(key)
	if s == "" {
		return 0, false
	}
	ms, valid := parseInstant(s)
	if !valid {
		f.add("invalid_format", key, "Invalid ISO datetime")
	}
	return ms, valid
}

// only adds an issue for the fields that no reader has asked for.
func (f *form) only() *form {
	var extra []string
	for _, field := range f.fields {
		if !field.read {
			extra = append(extra, field.key)
		}
	}
	if len(extra) > 0 {
		f.issues = append(f.issues, unrecognized(extra))
	}
	return f
}

// err returns the 400 for the issues, or nil.
func (f *form) err() error {
	if f.problem != nil || len(f.issues) == 0 {
		return f.problem
	}
	return badData(f.issues...)
}

// update works in a transaction, unless something is wrong with the form.
func (s *Server) update(f *form, work func(*transaction) error) error {
	if err := f.err(); err != nil {
		return err
	}
	return s.store.update(work)
}

// parseInstant reads RFC 3339, or a bare date as its midnight in UTC.
func parseInstant(s string) (int64, bool) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// eachLeaf changes what of a decoded JSON value is neither a list nor an object; a member has its key.
func eachLeaf(key string, v any, change func(key string, leaf any) any) any {
	switch node := v.(type) {
	case []any:
		for i := range node {
			node[i] = eachLeaf("", node[i], change)
		}
	case map[string]any:
		for key := range node {
			node[key] = eachLeaf(key, node[key], change)
		}
	default:
		return change(key, v)
	}
	return v
}

// maxDepth is how deep JSON may nest. The encoder refuses what the decoder took
// once it is deeper inside of an answer, so a page with it could never be
// read again.
const maxDepth = 1000

// storable says whether a text is JSON that does not nest deeper.
func storable(raw []byte) bool {
	depth := textutil.JSONDepth(raw)
	return depth >= 0 && depth <= maxDepth
}

// decodeJSON reads one value and keeps numbers as they are written.
func decodeJSON(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	return v, nil
}

// parsedText reads a text that is JSON as what it says; any other stays a text.
func parsedText(text string) any {
	if storable([]byte(text)) {
		if decoded, err := decodeJSON([]byte(text)); err == nil {
			return decoded
		}
	}
	return text
}
