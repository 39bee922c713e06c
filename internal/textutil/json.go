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

// JSONMembers returns the keys of a JSON object and their values, parts of raw, in their
// order; repeated keys too. Of anything that is not an object there are none, and of what is no
// JSON those before the fault. Raw must be UTF-8. Time is linear.
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
	return func(yield func([]byte, json.RawMessage) bool) { ReadJSONObject(raw, yield) }
}

// ReadJSONObject hands the members of a JSON object out as RawJSONMembers does, until member
// returns false, and reports whether raw is one JSON object and all of it was handed out. What
// is handed out is valid, also before something that is not.
func ReadJSONObject(raw []byte, member func(key []byte, value json.RawMessage) bool) bool {
	return handOut(raw, '{', '}', member)
}

// handOut hands the parts of an object or list out, and reports whether raw is one.
func handOut(raw []byte, opening, closing byte, part func(key []byte, value json.RawMessage) bool) bool {
	s := scanner{raw: raw}
	begin := s.space(0)
	if s.at(begin) != opening {
		return false
	}
	end := s.list(begin, closing, part)
	return end >= 0 && s.space(end) == len(raw)
}

// JSONElements returns the values of a JSON list, as JSONMembers does those of an object.
func JSONElements(raw []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		handOut(raw, '[', ']', func(_ []byte, value json.RawMessage) bool { return yield(value) })
	}
}

// CutJSON returns the value that raw begins with, and what follows it; all of it where it is
// no value. Raw begins with no white space.
func CutJSON(raw []byte) (value, rest []byte) {
	s := scanner{raw: raw}
	end := s.value(0)
	if end < 0 {
		end = len(raw)
	}
	return raw[:end], raw[end:]
}

// JSONText returns the text of a JSON string; "" for any other value.
func JSONText(raw []byte) string {
	return strings.Clone(JSONTextIn(raw))
}

// JSONTextIn is JSONText for bytes that nobody changes as long as the text is used: it may be
// a part of them.
func JSONTextIn(raw []byte) string {
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return TextIn(raw[1 : n-1])
	}
	var text string
	_ = json.Unmarshal(raw, &text) // another value leaves it empty
	return text
}

// TextIn is string(raw), but a part of raw: nobody may change that as long as the text is used.
func TextIn(raw []byte) string { return unsafe.String(unsafe.SliceData(raw), len(raw)) }

// maxDepth is how deep encoding/json lets values nest.
const maxDepth = 10_000

// ValidJSON is json.Valid, several times as fast.
func ValidJSON(raw []byte) bool {
	s := scanner{raw: raw}
	return s.whole()
}

// JSONDepth returns how deep objects and lists nest in a JSON text, 0 without any; -1 where it
// is not valid.
func JSONDepth(raw []byte) int {
	s := scanner{raw: raw}
	if !s.whole() {
		return -1
	}
	return s.deepest
}

// CompactJSON is json.Compact, but what has no white space between its tokens comes back as
// it is, not as a copy. The error is that of encoding/json.
func CompactJSON(raw []byte) ([]byte, error) {
	s := scanner{raw: raw}
	switch {
	case !s.whole():
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

// scanner checks a JSON text. Its methods take the place of what they read, and return
// the place after it, or -1 where it is not JSON.
type scanner struct {
	raw            []byte
	depth, deepest int
	spaces         bool // there is white space between tokens
}

func (s *scanner) whole() bool {
	end := s.value(s.space(0))
	return end >= 0 && s.space(end) == len(s.raw)
}

// at returns the byte at a place; 0, which begins no token, past the end and at -1.
func (s *scanner) at(i int) byte {
	if uint(i) < uint(len(s.raw)) {
		return s.raw[i]
	}
	return 0
}

// space passes over white space, of which there mostly is none.
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

// list reads an object or array. Its members or elements go to part, unless that is nil;
// where part returns false it ends.
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
		from := i
		if closing == '}' {
			i = s.key(i)
		}
		begin := i
		if i = s.value(i); i < 0 {
			return -1
		}
		if part != nil {
			key := s.raw[from:begin]
			if key = key[:bytes.LastIndexByte(key, '"')+1]; !part(key, s.raw[begin:i]) { // without the colon
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

// key reads a key and the colon after it.
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

// plainEnd returns the first place from i on of a quote, a backslash or a control
// character, or the end. It looks at eight bytes at a time.
func plainEnd(raw []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(raw); i += 8 {
		eight := binary.LittleEndian.Uint64(raw[i:])
		quote, slash := eight^ones*'"', eight^ones*'\\'
		// The lowest top bit that is set is that of a byte looked for; those above it need not be.
		if found := ((quote-ones)&^quote | (slash-ones)&^slash | (eight-ones*' ')&^eight) & tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(raw) && raw[i] >= ' ' && raw[i] != '"' && raw[i] != '\\' {
		i++
	}
	return i
}

// escape reads what follows a backslash, and returns the place of its last byte.
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

// digits reads one or more.
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
