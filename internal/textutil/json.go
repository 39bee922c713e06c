package textutil

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
)

// JSONMembers returns the keys of a JSON object and their values, parts of raw, in their
// order; repeated keys too. Of anything that is no object there are none. Raw must be
// valid JSON in UTF-8: what comes of other bytes is not said, but it ends, and does not panic.
// Time is linear.
func JSONMembers(raw []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		for key, value := range RawJSONMembers(raw) {
			if !yield(JSONText(key), value) {
				return
			}
		}
	}
}

// RawJSONMembers is JSONMembers with the keys as they are written, parts of raw too.
func RawJSONMembers(raw []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		raw := skip(raw, ' ')
		if len(raw) == 0 || raw[0] != '{' {
			return
		}
		for rest := raw[1:]; ; {
			rest = skip(rest, ',')
			if len(rest) == 0 || rest[0] != '"' {
				return
			}
			end := valueEnd(rest)
			key := rest[:end]
			rest = skip(rest[end:], ':')
			end = valueEnd(rest)
			if !yield(key, json.RawMessage(rest[:end])) {
				return
			}
			rest = rest[end:]
		}
	}
}

// JSONElements returns the values of a JSON list, as JSONMembers does those of an object.
func JSONElements(raw []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		raw := skip(raw, ' ')
		if len(raw) == 0 || raw[0] != '[' {
			return
		}
		for rest := raw[1:]; ; {
			rest = skip(rest, ',')
			if len(rest) == 0 || rest[0] == ']' {
				return
			}
			end := valueEnd(rest)
			if !yield(json.RawMessage(rest[:end])) {
				return
			}
			rest = rest[end:]
		}
	}
}

// JSONScalar returns the string, number or word that raw begins with, and what follows it.
func JSONScalar(raw []byte) (value, rest []byte) {
	end := valueEnd(raw)
	return raw[:end], raw[end:]
}

// AppendJSONMembers appends a JSON object to b, each value as f appends it; a member of which
// f says that it is not kept is left out. Anything that is no object is appended as it
// is. Raw is as in JSONMembers.
func AppendJSONMembers(b, raw []byte, f func(b []byte, key string, value json.RawMessage) (more []byte, kept bool)) []byte {
	return appended(b, raw, '{', '}', RawJSONMembers(raw), f)
}

// AppendJSONElements does with a list what AppendJSONMembers does with an object.
func AppendJSONElements(b, raw []byte, f func(b []byte, value json.RawMessage) (more []byte, kept bool)) []byte {
	elements := func(yield func([]byte, json.RawMessage) bool) {
		for value := range JSONElements(raw) {
			if !yield(nil, value) {
				return
			}
		}
	}
	return appended(b, raw, '[', ']', elements, func(b []byte, _ string, value json.RawMessage) ([]byte, bool) { return f(b, value) })
}

// appended writes what is between the brackets anew.
func appended(b, raw []byte, opening, closing byte, all iter.Seq2[[]byte, json.RawMessage],
	f func(b []byte, key string, value json.RawMessage) ([]byte, bool)) []byte {
	if text := skip(raw, ' '); len(text) == 0 || text[0] != opening {
		return append(b, raw...)
	}
	b = append(b, opening)
	empty := true
	for key, value := range all {
		before := len(b)
		if !empty {
			b = append(b, ',')
		}
		name := ""
		if key != nil {
			b, name = append(append(b, key...), ':'), JSONText(key)
		}
		more, kept := f(b, name, value)
		if b = more[:before]; kept {
			b, empty = more, false
		}
	}
	return append(b, closing)
}

// JSONText returns the text of a JSON string; "" for any other value.
func JSONText(raw []byte) (text string) {
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : n-1])
	}
	_ = json.Unmarshal(raw, &text) // another value leaves it empty
	return text
}

// AppendJSONText appends a text as encoding/json writes it.
func AppendJSONText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || strings.IndexByte(`"\<>&`, c) >= 0 {
			quoted, err := json.Marshal(text)
			if err != nil { // a text can always be written
				panic(err)
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// skip returns what follows white space and the other byte.
func skip(raw []byte, other byte) []byte {
	for i, c := range raw {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' && c != other {
			return raw[i:]
		}
	}
	return nil
}

// valueEnd returns where the value ends that raw begins with; at least 1 where there
// is anything.
func valueEnd(raw []byte) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i += stringEnd(raw[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return max(i, min(1, len(raw)))
			}
		case ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return max(i, 1)
			}
			continue
		default:
			continue // of a number, true, false or null, which end before one of the others
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(raw)
}

// stringEnd returns where the string ends that raw begins with.
func stringEnd(raw []byte) int {
	for i := plainEnd(raw, 1); i < len(raw); i = plainEnd(raw, i+1) {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}
