package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"time"
)

// The sizes of request bodies, by route; the texts are part of the contract.
const (
	smallBody = 1 << 20
	largeBody = 4<<20 + 1<<19 // 4.5 MB, for dataset items and ingestion
)

// form is a JSON object from outside. Its readers collect issues instead of
// failing, so that one answer names every field that is wrong.
type form struct {
	fields map[string]json.RawMessage
	read   map[string]bool
	issues []issue
}

// readForm reads the body of a call as one JSON object.
func readForm(c *call, limit int64) (*form, error) {
	body, err := readBody(c, limit)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	f, err := newForm(body)
	var malformed *json.SyntaxError
	if errors.As(err, &malformed) {
		return nil, plain(http.StatusBadRequest, "Invalid JSON")
	}
	if depth(body) > maxDepth {
		return nil, badData(issue{Code: "custom", Path: []any{}, Message: fmt.Sprintf("Invalid input: nested deeper than %d", maxDepth)})
	}
	if err != nil {
		return nil, badData(issue{Code: "invalid_type", Path: []any{}, Message: "Invalid input: expected object"})
	}
	return f, nil
}

func readBody(c *call, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		text := "Body exceeded 1mb limit"
		if limit == largeBody {
			text = "Body exceeded 4.5mb limit"
		}
		return nil, plain(http.StatusRequestEntityTooLarge, text)
	}
	if err != nil {
		return nil, plain(http.StatusBadRequest, "Invalid body")
	}
	return body, nil
}

func newForm(raw json.RawMessage) (*form, error) {
	f := &form{read: map[string]bool{}}
	if err := json.Unmarshal(raw, &f.fields); err != nil {
		return nil, err
	}
	if f.fields == nil {
		return nil, errors.New("null is not an object")
	}
	return f, nil
}

func (f *form) add(code, key, message string) {
	f.issues = append(f.issues, issue{Code: code, Path: []any{key}, Message: message})
}

// raw returns a field as it came, nil where it is absent. null is returned.
func (f *form) raw(key string) json.RawMessage {
	f.read[key] = true
	return f.fields[key]
}

// has says whether a field is there and not null.
func (f *form) has(key string) bool {
	raw := f.raw(key)
	return raw != nil && string(raw) != "null"
}

// text returns a string that may be absent or null.
func (f *form) text(key string) string {
	if !f.has(key) {
		return ""
	}
	var s string
	if json.Unmarshal(f.fields[key], &s) != nil {
		f.add("invalid_type", key, "Invalid input: expected string")
	}
	return s
}

// must returns a string that has to be there; it may be empty.
func (f *form) must(key string) string {
	if !f.has(key) {
		f.add("invalid_type", key, "Invalid input: expected string, received undefined")
		return ""
	}
	return f.text(key)
}

// texts returns a list of strings that may be absent.
func (f *form) texts(key string) []string {
	if !f.has(key) {
		return nil
	}
	var list []string
	if json.Unmarshal(f.fields[key], &list) != nil {
		f.add("invalid_type", key, "Invalid input: expected array of strings")
	}
	return list
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

// only reports every field that no reader has asked for.
func (f *form) only() {
	var extra []string
	for key := range f.fields {
		if !f.read[key] {
			extra = append(extra, clip(key, 100))
		}
	}
	if len(extra) == 0 {
		return
	}
	sort.Strings(extra)
	f.issues = append(f.issues, issue{Code: "unrecognized_keys", Path: []any{}, Keys: extra,
		Message: "Unrecognized keys: " + clip(joined(extra), 400)})
}

// err returns the 400 for the issues, or nil.
func (f *form) err() error {
	if len(f.issues) == 0 {
		return nil
	}
	return badData(f.issues...)
}

func joined(list []string) string {
	text, err := json.Marshal(list)
	if err != nil {
		return ""
	}
	return string(text)
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

// iso writes milliseconds as the API writes instants.
func iso(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
