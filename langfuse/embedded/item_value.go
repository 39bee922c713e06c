package embedded

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"io"
	"strings"
)

// value is a JSON value of a dataset item on its way into the store. Without
// set the request did not speak of it.
type value struct {
	set  bool
	json sql.NullString
}

func (v value) over(old sql.NullString) sql.NullString {
	if !v.set {
		return old
	}
	return v.json
}

// readValue reads a field the way Langfuse does: null is no value, control
// characters are taken out of strings, the empty string clears the value, and
// a string at the top that is JSON is stored as what it says.
func readValue(f *form, key string) value {
	if !f.has(key) {
		return value{}
	}
	decoded, err := decodeJSON(f.raw(key))
	if err != nil {
		f.add("invalid_type", key, "Invalid JSON value")
		return value{}
	}
	decoded = stripControls(decoded)
	if text, isText := decoded.(string); isText {
		decoded = parsedText(text)
	}
	if decoded == nil {
		return value{set: true}
	}
	text, err := encodeJSON(decoded)
	if err != nil {
		f.add("invalid_type", key, "Invalid JSON value")
		return value{}
	}
	return value{set: true, json: sql.NullString{String: text, Valid: true}}
}

func parsedText(text string) any {
	if text == "" {
		return nil
	}
	if depth([]byte(text)) > maxDepth {
		return text
	}
	if decoded, err := decodeJSON([]byte(text)); err == nil {
		return decoded
	}
	return text
}

// maxDepth is how deep JSON may nest. The encoder refuses what the decoder took
// once it stands deeper inside of an answer, so a page with it could never be
// read again.
const maxDepth = 1000

// depth returns how deep lists and objects nest in JSON.
func depth(raw []byte) int {
	deepest, level, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			level++
			deepest = max(deepest, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return deepest
}

// stripControls takes C0 and C1 control characters out of all strings, keys
// excepted; tab, line feed, form feed and carriage return stay. Its depth is
// bounded by the decoder.
func stripControls(v any) any {
	switch node := v.(type) {
	case string:
		return strings.Map(func(r rune) rune {
			if (r < 0x20 && r != '\t' && r != '\n' && r != '\f' && r != '\r') || (r >= 0x7f && r <= 0x9f) {
				return -1
			}
			return r
		}, node)
	case []any:
		for i := range node {
			node[i] = stripControls(node[i])
		}
	case map[string]any:
		for key := range node {
			node[key] = stripControls(node[key])
		}
	}
	return v
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

// encodeJSON writes compact JSON without escaping for HTML.
func encodeJSON(v any) (string, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}
