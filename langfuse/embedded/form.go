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

// The size limits of request bodies in bytes. The messages about them are part of the API.
const (
	smallBody = 1 << 20
	largeBody = 4<<20 + 1<<19 // 4.5 MB, for dataset items and ingestion
)

// form is a JSON object from a client. Its readers collect issues instead of failing, so that one
// answer names every invalid field.
type form struct {
	fields  []field // if a key occurs twice, the last value counts
	issues  []issue
	problem error // why the form could not be parsed
}

type field struct {
	key   string
	value json.RawMessage
	read  bool
}

// form reads the body of a call as a JSON object. If that fails, the form has no fields and err
// returns the reason.
func (c *call) form(limit int64) *form { return c.formInBuffer(new(bytes.Buffer), limit) }

// formInBuffer is form with a given buffer for the body. The form is valid as long as the buffer
// is unchanged.
func (c *call) formInBuffer(buffer *bytes.Buffer, limit int64) *form {
	body, err := readBody(buffer, c.r.Body, limit, c.r.ContentLength)
	switch {
	case err != nil:
		return &form{problem: err}
	case len(bytes.TrimSpace(body)) == 0:
		body = []byte("{}")
	}
	return newForm(body)
}

// newForm parses a body, in which each byte that is not UTF-8 becomes U+FFFD.
func newForm(body json.RawMessage) *form {
	if !utf8.Valid(body) {
		body = json.RawMessage(textutil.ValidUTF8(string(body)))
	}
	if depth := textutil.JSONDepth(body); depth > maxDepth {
		text := fmt.Sprintf("Invalid input: nested deeper than %d", maxDepth)
		return &form{problem: invalidData(issue{Code: "custom", Path: []any{}, Message: text})}
	} else if depth < 0 {
		return &form{problem: &apiError{http.StatusBadRequest, "Invalid JSON"}}
	}
	f := new(form)
	f.parse(body)
	return f
}

// readBody reads a body of at most limit bytes into an empty buffer. The content length may be -1
// for unknown.
func readBody(buffer *bytes.Buffer, r io.Reader, limit, contentLength int64) ([]byte, error) {
	buffer.Grow(int(min(max(0, contentLength), 8<<20)) + bytes.MinRead)
	if _, err := buffer.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, spanError("Failed to read the request body: " + err.Error())
	}
	if int64(buffer.Len()) > limit {
		return nil, &apiError{http.StatusRequestEntityTooLarge,
			fmt.Sprintf("Body exceeded %gmb limit", float64(limit)/(1<<20))}
	}
	return buffer.Bytes(), nil
}

// parse replaces the form by raw, which must be valid JSON or empty. The keys and strings of the
// form share the memory of raw, so raw must not change.
func (f *form) parse(raw json.RawMessage) {
	*f = form{fields: f.fields[:0]}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		f.problem = invalidData(issue{Code: "invalid_type", Path: []any{}, Message: "Invalid input: expected object"})
		return
	}
	for key, value := range textutil.RawJSONMembers(raw) {
		f.fields = append(f.fields, field{key: textutil.UnsafeJSONText(key), value: value})
	}
}

func (f *form) addIssue(code, key, message string) {
	f.issues = append(f.issues, issue{Code: code, Path: []any{key}, Message: message})
}

// checkLength adds an issue if text does not have minimum to maximum characters.
func (f *form) checkLength(key, text string, minimum, maximum int) {
	if n := utf8.RuneCountInString(text); n < minimum || n > maximum {
		f.addIssue("custom", key, fmt.Sprintf("Invalid input: expected %d to %d characters", minimum, maximum))
	}
}

// raw returns the JSON of a field, or nil if it is absent. A null is returned as null.
func (f *form) raw(key string) (value json.RawMessage) {
	for i := range f.fields {
		if f.fields[i].key == key {
			f.fields[i].read, value = true, f.fields[i].value
		}
	}
	return value
}

// has reports whether a field is present and not null.
func (f *form) has(key string) bool {
	raw := f.raw(key)
	return raw != nil && string(raw) != "null"
}

// decode unmarshals a field into v, and adds an issue if that fails. It reports whether the field
// is present and not null.
func (f *form) decode(key string, v any, expected string) bool {
	if !f.has(key) {
		return false
	}
	if json.Unmarshal(f.raw(key), v) != nil {
		f.addIssue("invalid_type", key, "Invalid input: expected "+expected)
	}
	return true
}

// text returns an optional string; absent and null are "".
func (f *form) text(key string) string {
	raw := f.raw(key)
	if len(raw) > 0 && raw[0] == '"' && utf8.Valid(raw) {
		return textutil.UnsafeJSONText(raw)
	}
	if raw == nil {
		return ""
	}
	var s string
	f.decode(key, &s, "string")
	return s
}

// required returns a string that must be present; it may be empty.
func (f *form) required(key string) string {
	if !f.has(key) {
		f.addIssue("invalid_type", key, "Invalid input: expected string, received undefined")
	}
	return f.text(key)
}

// oneOf returns an optional string that must be one of the options; absent is "".
func (f *form) oneOf(key string, options ...string) string {
	s := f.text(key)
	if f.has(key) && !slices.Contains(options, s) {
		f.addIssue("invalid_value", key, "Invalid option: expected one of "+strings.Join(options, "|"))
	}
	return s
}

// texts returns an optional list of strings.
func (f *form) texts(key string) (list []string) {
	f.decode(key, &list, "array of strings")
	return list
}

// nullText returns an optional string; absent and null are invalid.
func (f *form) nullText(key string) sql.NullString {
	return sql.NullString{String: f.text(key), Valid: f.has(key)}
}

// nullJSON returns the JSON of a field; absent and null are invalid.
func (f *form) nullJSON(key string) sql.NullString {
	if !f.has(key) {
		return sql.NullString{}
	}
	return sql.NullString{String: string(f.raw(key)), Valid: true}
}

// nullNumber returns an optional number; absent and null are invalid.
func (f *form) nullNumber(key string) (n sql.NullFloat64) {
	n.Valid = f.decode(key, &n.Float64, "number")
	return n
}

// readValue reads a field as Langfuse does: it returns nil for null, removes control characters
// from strings, and returns an invalid value for an empty string, which clears the stored value.
// A string that contains JSON is parsed if it is the whole value.
func readValue(f *form, key string) *sql.NullString {
	if !f.has(key) {
		return nil
	}
	decoded := stripControls(parseIfJSON(string(f.raw(key))))
	if text, isText := decoded.(string); isText {
		decoded = parseIfJSON(text)
	}
	if decoded == nil || decoded == "" {
		return &sql.NullString{}
	}
	text, _ := textutil.MarshalJSON(decoded) // what was decoded can be encoded
	return &sql.NullString{String: string(text), Valid: true}
}

// stripControls removes C0 and C1 control characters from all strings, but not from keys. Tab,
// line feed, form feed and carriage return stay. The decoder limits the depth.
func stripControls(v any) any {
	return mapLeaves("", v, func(_ string, leaf any) any {
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

// instant returns an optional timestamp in milliseconds and whether it is present and valid.
func (f *form) instant(key string) (int64, bool) {
	s := f.text(key)
	if s == "" {
		return 0, false
	}
	ms, valid := parseInstant(s)
	if !valid {
		f.addIssue("invalid_format", key, "Invalid ISO datetime")
	}
	return ms, valid
}

// rejectUnknown adds an issue for the fields that have not been read.
func (f *form) rejectUnknown() *form {
	var unknown []string
	for _, field := range f.fields {
		if !field.read {
			unknown = append(unknown, field.key)
		}
	}
	if len(unknown) > 0 {
		f.issues = append(f.issues, unknownKeys(unknown))
	}
	return f
}

// err returns a 400 error with all issues, or nil.
func (f *form) err() error {
	if f.problem != nil || len(f.issues) == 0 {
		return f.problem
	}
	return invalidData(f.issues...)
}

// update runs work in a transaction, unless the form has issues.
func (s *Server) update(f *form, work func(*transaction) error) error {
	if err := f.err(); err != nil {
		return err
	}
	return s.store.update(work)
}

// parseInstant parses RFC 3339, or a date, which means midnight UTC, into milliseconds.
func parseInstant(s string) (int64, bool) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// mapLeaves replaces, in place, every value in decoded JSON that is neither list nor object by
// the result of change. The key is "" except for members of objects.
func mapLeaves(key string, v any, change func(key string, leaf any) any) any {
	switch node := v.(type) {
	case []any:
		for i := range node {
			node[i] = mapLeaves("", node[i], change)
		}
	case map[string]any:
		for key := range node {
			node[key] = mapLeaves(key, node[key], change)
		}
	default:
		return change(key, v)
	}
	return v
}

// maxDepth is the greatest nesting depth of JSON that is stored. The encoder would refuse a value
// that the decoder accepted if it is nested deeper inside an answer, and a page with it could never
// be read.
const maxDepth = 1000

// storable reports whether raw is valid JSON within maxDepth.
func storable(raw []byte) bool {
	depth := textutil.JSONDepth(raw)
	return depth >= 0 && depth <= maxDepth
}

// decodeJSON decodes exactly one value and keeps numbers as they are written.
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

// parseIfJSON returns the decoded value of a text that is storable JSON, and any other text
// unchanged.
func parseIfJSON(text string) any {
	if storable([]byte(text)) {
		if decoded, err := decodeJSON([]byte(text)); err == nil {
			return decoded
		}
	}
	return text
}
