package textutil

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"iter"
	"math/bits"
	"strings"
	"unsafe"
)

// JSONMembers yields the keys of a JSON object and their values, which are parts of raw, in
// their order and including repeated keys. It yields nothing if raw is not an object, and the
// members before the fault if raw is invalid. raw must be UTF-8. Time is linear.
func JSONMembers(raw []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		ReadJSONObject(raw, func(key []byte, value json.RawMessage) bool { return yield(JSONText(key), value) })
	}
}

// RawJSONMembers is JSONMembers with the keys as they are written, which are also parts of raw.
func RawJSONMembers(raw []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) { ReadJSONObject(raw, yield) }
}

// ReadJSONObject calls member with the members of a JSON object, as RawJSONMembers yields them,
// until member returns false. It reports whether raw is one JSON object and member was called
// with all of it. Keys and values are valid, even if invalid text follows.
func ReadJSONObject(raw []byte, member func(key []byte, value json.RawMessage) bool) bool {
	return readParts(raw, '{', '}', member)
}

// readParts calls part with the parts of an object or list, and reports whether raw is one and
// all its parts were read.
func readParts(raw []byte, opening, closing byte, part func(key []byte, value json.RawMessage) bool) bool {
	s := scanner{raw: raw}
	start := s.space(0)
	if s.at(start) != opening {
		return false
	}
	end := s.list(start, closing, part)
	return end >= 0 && s.space(end) == len(raw)
}

// JSONElements yields the values of a JSON list, under the same rules as JSONMembers.
func JSONElements(raw []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		readParts(raw, '[', ']', func(_ []byte, value json.RawMessage) bool { return yield(value) })
	}
}

// CutJSON splits raw into the value at its beginning and the rest. If there is no valid value,
// it returns all of raw as the value. raw must not begin with white space.
func CutJSON(raw []byte) (value, rest []byte) {
	s := scanner{raw: raw}
	end := s.value(0)
	if end < 0 {
		end = len(raw)
	}
	return raw[:end], raw[end:]
}

// AbsentJSON reports whether raw is empty or null, which counts as no value.
func AbsentJSON(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// JSONText returns the text of a JSON string, or "" for any other value.
func JSONText(raw []byte) string {
	return strings.Clone(UnsafeJSONText(raw))
}

// UnsafeJSONText is JSONText without a copy if possible. The result may share the memory of raw,
// which must not change while the result is used.
func UnsafeJSONText(raw []byte) string {
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return UnsafeString(raw[1 : n-1])
	}
	var text string
	_ = json.Unmarshal(raw, &text) // other values leave it empty
	return text
}

// UnsafeString is string(raw) without a copy. raw must not change while the result is used.
func UnsafeString(raw []byte) string { return unsafe.String(unsafe.SliceData(raw), len(raw)) }

// maxDepth is the maximum nesting of encoding/json.
const maxDepth = 10_000

// ValidJSON is json.Valid, but several times as fast.
func ValidJSON(raw []byte) bool {
	s := scanner{raw: raw}
	return s.isValid()
}

// JSONDepth returns the nesting depth of objects and lists in a JSON text, 0 without any; -1 if
// it is invalid.
func JSONDepth(raw []byte) int {
	s := scanner{raw: raw}
	if !s.isValid() {
		return -1
	}
	return s.deepest
}

// CompactJSON is json.Compact, but returns raw itself, not a copy, if it has no white space
// between tokens. The error is that of encoding/json.
func CompactJSON(raw []byte) ([]byte, error) {
	s := scanner{raw: raw}
	switch {
	case !s.isValid():
		return nil, json.Compact(new(bytes.Buffer), raw)
	case !s.spaces:
		return raw, nil
	}
	b := make([]byte, 0, len(raw))
	for i := s.spaceFrom(0); i < len(raw); i = s.spaceFrom(i) {
		end := i + 1
		if raw[i] == '"' {
			end = s.text(i)
		} else {
			for end < len(raw) && raw[end] > ' ' && raw[end] != '"' {
				end++
			}
		}
		b, i = append(b, raw[i:end]...), end
	}
	return b, nil
}

// scanner checks a JSON text. Its methods take the index of what they read, and return the
// index after it, or -1 if it is invalid.
type scanner struct {
	raw            []byte
	depth, deepest int
	spaces         bool // there is white space between tokens
}

func (s *scanner) isValid() bool {
	end := s.value(s.space(0))
	return end >= 0 && s.space(end) == len(s.raw)
}

// at returns the byte at an index, or 0, which begins no token, for an index out of range.
func (s *scanner) at(i int) byte {
	if uint(i) < uint(len(s.raw)) {
		return s.raw[i]
	}
	return 0
}

// space skips white space. Most calls find none.
func (s *scanner) space(i int) int {
	if i < len(s.raw) && s.raw[i] > ' ' {
		return i
	}
	return s.spaceFrom(i)
}

func (s *scanner) spaceFrom(i int) int {
	for i < len(s.raw) && (s.raw[i] == ' ' || s.raw[i] == '\n' || s.raw[i] == '\t' || s.raw[i] == '\r') {
		s.spaces = true
		i++
	}
	return i
}

func (s *scanner) value(i int) int {
	switch c := s.at(i); c {
	case '"':
		return s.text(i)
	case '{':
		return s.list(i, '}', nil)
	case '[':
		return s.list(i, ']', nil)
	case 't':
		return s.word(i, "true")
	case 'f':
		return s.word(i, "false")
	case 'n':
		return s.word(i, "null")
	default:
		return s.number(i)
	}
}

// list reads an object or array, and calls part, if not nil, with its members or elements. If
// part returns false, list returns -1.
func (s *scanner) list(i int, closing byte, part func(key []byte, value json.RawMessage) bool) int {
	if s.depth++; s.depth > maxDepth {
		return -1
	}
	s.deepest = max(s.deepest, s.depth)
	if i = s.space(i + 1); s.at(i) == closing {
		s.depth--
		return i + 1
	}
	for {
		start := i
		if closing == '}' {
			i = s.key(i)
		}
		valueStart := i
		if i = s.value(i); i < 0 {
			return -1
		}
		if part != nil {
			key := s.raw[start:valueStart]
			if key = key[:bytes.LastIndexByte(key, '"')+1]; !part(key, s.raw[valueStart:i]) { // without the colon
				return -1
			}
		}
		switch i = s.space(i); s.at(i) {
		case closing:
			s.depth--
			return i + 1
		case ',':
			i = s.space(i + 1)
		default:
			return -1
		}
	}
}

// key reads a key with the colon after it.
func (s *scanner) key(i int) int {
	if s.at(i) != '"' {
		return -1
	}
	if i = s.text(i); i < 0 {
		return -1
	}
	if i = s.space(i); s.at(i) != ':' {
		return -1
	}
	return s.space(i + 1)
}

func (s *scanner) word(i int, word string) int {
	if end := i + len(word); end <= len(s.raw) && string(s.raw[i:end]) == word {
		return end
	}
	return -1
}

func (s *scanner) text(i int) int {
	for i = plainEnd(s.raw, i+1); ; i = plainEnd(s.raw, i+1) {
		switch s.at(i) {
		case '"':
			return i + 1
		case '\\':
			if i = s.escape(i + 1); i < 0 {
				return -1
			}
		default:
			return -1
		}
	}
}

// plainEnd returns the first index from i on of a quote, a backslash or a control character, or
// the length of raw. It tests eight bytes at a time.
func plainEnd(raw []byte, i int) int {
	const lowBits, highBits = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(raw); i += 8 {
		word := binary.LittleEndian.Uint64(raw[i:])
		quote, slash := word^lowBits*'"', word^lowBits*'\\'
		// The lowest bit set in found belongs to the first matching byte; higher bits may be
		// false matches.
		if found := ((quote-lowBits)&^quote | (slash-lowBits)&^slash | (word-lowBits*' ')&^word) & highBits; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(raw) && raw[i] >= ' ' && raw[i] != '"' && raw[i] != '\\' {
		i++
	}
	return i
}

// escape reads what follows a backslash, and returns the index of its last byte.
func (s *scanner) escape(i int) int {
	switch s.at(i) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		for range 4 {
			i++
			if !isHex(s.at(i)) {
				return -1
			}
		}
		return i
	}
	return -1
}

func (s *scanner) number(i int) int {
	if s.at(i) == '-' {
		i++
	}
	if s.at(i) == '0' {
		i++
	} else if i = s.digits(i); i < 0 {
		return -1
	}
	if s.at(i) == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if s.at(i)|0x20 == 'e' {
		i++
		if c := s.at(i); c == '+' || c == '-' {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits reads one or more digits.
func (s *scanner) digits(i int) int {
	first := i
	for c := s.at(i); c >= '0' && c <= '9'; c = s.at(i) {
		i++
	}
	if i == first {
		return -1
	}
	return i
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
