package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// errCut says that the text ended inside a value.
var errCut = errors.New("the text ends inside a value")

// syntaxError says what was not understood, and at which byte.
type syntaxError struct {
	at      int
	message string
}

func (e *syntaxError) Error() string { return e.message }

// value is a value of a text, as strict JSON in scanner.out[start:end]. The
// containers that can matter have what they hold, of which the last may not be
// whole.
type value struct {
	kind             byte // the opening bracket, or 0
	start, end       int
	keyStart, keyEnd int // of a member: its key between the quotes
	inner            []value
	whole            bool // read to its end
}

// What matters are objects around the lists, and of a list the elements with
// their fields.
const (
	keptObjects = maxWrapped + 1
	keptInList  = 2
)

// scanner reads something near JSON and writes it as strict JSON to out. It
// looks at every byte once, apart from the white space behind a single quote.
type scanner struct {
	text     string
	pos      int
	out      []byte
	values   int
	repaired bool // something was not JSON
}

func (s *scanner) fail(format string, args ...any) error {
	return &syntaxError{at: s.pos, message: fmt.Sprintf(format, args...)}
}

// unexpected says what was awaited and what stands there.
func (s *scanner) unexpected(awaited string) error {
	r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
	return s.fail("expected %s, found %q", awaited, r)
}

// value reads one value and writes it; kept levels of what it holds are kept.
func (s *scanner) value(depth, kept int) (v value, err error) {
	if err := s.skip(); err != nil {
		return v, err
	}
	if s.values++; s.values > MaxValues {
		return v, s.fail("the answer has more than %d values", MaxValues)
	}
	v.start = len(s.out)
	switch c := s.text[s.pos]; c {
	case '{', '[':
		v.kind = c
		err = s.container(&v, depth, kept)
	case '"', '\'':
		err = s.quoted()
	default:
		err = s.literal()
	}
	v.end, v.whole = len(s.out), err == nil
	return v, err
}

// container reads an object or a list.
func (s *scanner) container(v *value, depth, kept int) error {
	if depth >= MaxDepth {
		return s.fail("the answer is nested deeper than %d levels", MaxDepth)
	}
	if v.kind == '[' {
		kept = min(kept, keptInList)
	}
	closing := v.kind + 2 // in ASCII, of both kinds
	s.out = append(s.out, v.kind)
	s.pos++
	for first := true; ; first = false {
		done, err := s.separator(closing, first)
		if err != nil {
			return err
		}
		if done {
			s.out = append(s.out, closing)
			return nil
		}
		if !first {
			s.out = append(s.out, ',')
		}
		keyStart, keyEnd := 0, 0
		if v.kind == '{' {
			keyStart = len(s.out) + 1
			if err := s.key(); err != nil {
				return err
			}
			keyEnd = len(s.out) - 2
		}
		inner, err := s.value(depth+1, kept-1)
		inner.keyStart, inner.keyEnd = keyStart, keyEnd
		if kept > 0 {
			v.inner = append(v.inner, inner)
		}
		if err != nil {
			return err
		}
	}
}

// separator reads what stands before the next member or element: nothing,
// commas, or the closing bracket. It reports whether the container ended.
func (s *scanner) separator(closing byte, first bool) (done bool, err error) {
	commas := 0
	for ; ; commas++ {
		if err := s.skip(); err != nil {
			return false, err
		}
		if s.text[s.pos] != ',' {
			break
		}
		s.pos++
	}
	c := s.text[s.pos]
	switch {
	case commas > 1, commas == 1 && (first || c == closing):
		s.repaired = true
	case commas == 0 && !first && c != closing:
		return false, s.unexpected("a comma or " + string(closing))
	}
	if c == closing {
		s.pos++
	}
	return c == closing, nil
}

// key reads a key and the colon.
func (s *scanner) key() error {
	if c := s.text[s.pos]; c != '"' && c != '\'' {
		return s.unexpected("a key in double quotes or }")
	}
	if err := s.quoted(); err != nil {
		return err
	}
	if err := s.skip(); err != nil {
		return err
	}
	if s.text[s.pos] != ':' {
		return s.unexpected("a colon behind the key")
	}
	s.pos++
	s.out = append(s.out, ':')
	return nil
}

// skip passes white space and comments; errCut at the end of the text.
func (s *scanner) skip() error {
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			s.pos++
		case c == '/':
			if err := s.comment(); err != nil {
				return err
			}
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s.text[s.pos:])
			if !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) {
				return nil
			}
			s.pos += size // no-break spaces, byte order marks, joiners
		default:
			return nil
		}
	}
	return errCut
}

func (s *scanner) comment() error {
	rest, end := s.text[s.pos:], "\n"
	switch {
	case strings.HasPrefix(rest, "/*"):
		end = "*/"
	case !strings.HasPrefix(rest, "//"):
		return s.unexpected("JSON")
	}
	body, _, closed := strings.Cut(rest[2:], end)
	if !closed {
		s.pos = len(s.text)
		return errCut
	}
	s.repaired = true
	s.pos += 2 + len(body) + len(end)
	return nil
}

// literals are the words of JSON, Python and JavaScript.
var literals = map[string]string{
	"true": "true", "True": "true", "false": "false", "False": "false", "null": "null", "None": "null", "undefined": "null",
	"NaN": "null", "nan": "null", "Infinity": "null", "-Infinity": "null", "inf": "null", "-inf": "null",
}

// literal reads a word or a number.
func (s *scanner) literal() error {
	start := s.pos
	token, err := s.token()
	if err != nil {
		return err
	}
	written, known := literals[token]
	switch {
	case token == "":
		return s.unexpected("a value")
	case known:
		s.repaired = s.repaired || written != token
	case json.Valid([]byte(token)):
		written = token
	default:
		s.pos = start
		return s.fail("expected a value, found %q: write texts in double quotes", shown(token))
	}
	s.out = append(s.out, written...)
	return nil
}

// token takes the letters, digits and signs that follow. One that the text ends
// with may have lost its end.
func (s *scanner) token() (string, error) {
	rest := s.text[s.pos:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("_$+-.", r))
	})
	if end < 0 {
		s.pos = len(s.text)
		return "", errCut
	}
	s.pos += end
	return rest[:end], nil
}

// quoted reads a text in double or single quotes and writes it in double ones.
// Raw control characters and escapes that JSON does not know are escaped. A
// single quote ends its text only where a comma, a colon, a closing bracket or
// the end of everything follows; any other is an apostrophe.
func (s *scanner) quoted() error {
	quote := s.text[s.pos]
	s.repaired = s.repaired || quote == '\''
	s.pos++
	s.out = append(s.out, '"')
	plain := s.pos // the first byte that is not yet written
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		ends := c == quote && (quote == '"' || s.endsText())
		if c >= 0x20 && c != '\\' && c != '"' && !ends {
			s.pos++
			continue
		}
		s.out = append(s.out, s.text[plain:s.pos]...)
		switch {
		case ends:
			s.out = append(s.out, '"')
			s.pos++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c == '"': // in single quotes
			s.out = append(s.out, '\\', '"')
			s.pos++
		default:
			s.repaired = true
			s.out = fmt.Appendf(s.out, `\u%04x`, c)
			s.pos++
		}
		plain = s.pos
	}
	return errCut
}

// endsText reports whether the single quote here can end a text.
func (s *scanner) endsText() bool {
	rest := strings.TrimLeft(s.text[s.pos+1:], " \t\r\n")
	return rest == "" || strings.IndexByte(",:}]", rest[0]) >= 0
}

// escape reads a backslash and what belongs to it.
func (s *scanner) escape() error {
	rest := s.text[s.pos:]
	if len(rest) < 2 {
		return errCut
	}
	size := 2
	if rest[1] == 'u' {
		size = 6
	}
	digits := rest[2:min(size, len(rest))]
	_, notHex := strconv.ParseUint(digits, 16, 32)
	switch {
	case rest[1] == 'u' && len(rest) < size && (digits == "" || notHex == nil):
		return errCut
	case rest[1] == 'u' && notHex == nil, strings.IndexByte(`"\/bfnrt`, rest[1]) >= 0:
		s.out = append(s.out, rest[:size]...)
	case rest[1] == '\'':
		s.repaired = true
		s.out = append(s.out, '\'')
	default:
		s.repaired = true
		s.out = append(s.out, '\\', '\\')
		size = 1
	}
	s.pos += size
	return nil
}

// shown is a hostile word as a message can hold it.
func shown(word string) string { return textutil.Cut(word, 80) }
