package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errCut says that the text ended inside a value.
var errCut = errors.New("the text ends inside a value")

// syntaxError says what was not understood, and at which byte.
type syntaxError struct {
	at      int
	message string
}

func (e *syntaxError) Error() string { return e.message }

// scanner reads something near JSON and writes it as strict JSON to out. It
// looks at every byte once, apart from the white space behind a single quote.
type scanner struct {
	text    string
	pos     int
	out     []byte
	key     []byte   // the last key, as strict JSON
	unknown []string // keys of the last unit that nobody asked for, some
	values  int
	repairs []string
}

// repaired remembers a kind of repair, once.
func (s *scanner) repaired(what string) {
	for _, known := range s.repairs {
		if known == what {
			return
		}
	}
	s.repairs = append(s.repairs, what)
}

func (s *scanner) fail(format string, args ...any) error {
	return &syntaxError{at: s.pos, message: fmt.Sprintf(format, args...)}
}

// unexpected says what was awaited and what stands there.
func (s *scanner) unexpected(awaited string) error {
	r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
	return s.fail("expected %s, found %q", awaited, r)
}

// skip passes white space, control characters and comments; errCut at the end
// of the text.
func (s *scanner) skip() error {
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			s.pos++
		case c < 0x20 || c == 0x7f:
			s.repaired("control characters were removed")
			s.pos++
		case c == '#' || c == '/':
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
	rest := s.text[s.pos:]
	end, closing := -1, 0
	switch {
	case rest[0] == '#' || strings.HasPrefix(rest, "//"):
		end, closing = strings.IndexByte(rest, '\n'), 1
	case strings.HasPrefix(rest, "/*"):
		end, closing = strings.Index(rest[2:], "*/"), 4
	case len(rest) > 1:
		return s.unexpected("JSON")
	}
	if end < 0 {
		s.pos = len(s.text)
		return errCut
	}
	s.repaired("comments were removed")
	s.pos += end + closing
	return nil
}

// value reads one value and writes it.
func (s *scanner) value(depth int) error {
	if err := s.skip(); err != nil {
		return err
	}
	if s.values++; s.values > MaxValues {
		return s.fail("the answer has more than %d values", MaxValues)
	}
	switch c := s.text[s.pos]; {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"' || c == '\'':
		return s.quoted()
	case c == '-' || c == '+' || c == '.' || '0' <= c && c <= '9':
		return s.number()
	case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
		return s.word()
	default:
		return s.unexpected("a value")
	}
}

func (s *scanner) object(depth int) error {
	s.out = append(s.out, '{')
	first := true
	err := s.members(depth, func(key []byte) error {
		if !first {
			s.out = append(s.out, ',')
		}
		first = false
		s.out = append(append(s.out, key...), ':')
		return s.value(depth + 1)
	})
	s.out = append(s.out, '}')
	return err
}

func (s *scanner) array(depth int) error {
	s.out = append(s.out, '[')
	first := true
	err := s.elements(depth, func() error {
		if !first {
			s.out = append(s.out, ',')
		}
		first = false
		return s.value(depth + 1)
	})
	s.out = append(s.out, ']')
	return err
}

// token takes the letters, digits and signs that follow. One that the text ends
// with may have lost its end.
func (s *scanner) token() (string, error) {
	start := s.pos
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		if c != '_' && c != '$' && c != '+' && c != '-' && c != '.' && !('0' <= c && c <= '9') && !('a' <= c && c <= 'z') && !('A' <= c && c <= 'Z') {
			return s.text[start:s.pos], nil
		}
		s.pos++
	}
	return "", errCut
}

// word reads the literals of JSON, Python and JavaScript.
func (s *scanner) word() error {
	start := s.pos
	word, err := s.token()
	if err != nil {
		return err
	}
	written := ""
	switch word {
	case "true", "false", "null":
		s.out = append(s.out, word...)
		return nil
	case "True", "TRUE":
		written = "true"
	case "False", "FALSE":
		written = "false"
	case "None", "NULL", "Null", "undefined", "nil", "NaN", "nan", "Infinity", "inf":
		written = "null"
	default:
		s.pos = start
		return s.fail("expected a value, found the bare word %q: write texts in double quotes", shown(word))
	}
	s.repaired(word + " was read as " + written)
	s.out = append(s.out, written...)
	return nil
}

// number reads a number; one that JSON does not allow (007, +1, .5) is kept as
// the text of its spelling.
func (s *scanner) number() error {
	start := s.pos
	token, err := s.token()
	if err != nil {
		return err
	}
	if json.Valid([]byte(token)) {
		s.out = append(s.out, token...)
		return nil
	}
	if f, err := strconv.ParseFloat(token, 64); err == nil || f != 0 {
		if f != f || strings.ContainsAny(token, "iI") { // NaN, -Infinity
			s.repaired(token + " was read as null")
			s.out = append(s.out, "null"...)
			return nil
		}
		s.repaired("numbers that JSON does not allow were read as text")
		s.out = append(append(append(s.out, '"'), token...), '"')
		return nil
	}
	s.pos = start
	return s.fail("expected a number, found %q: write texts in double quotes", shown(token))
}

// shown is a hostile word as a message can hold it.
func shown(word string) string {
	const most = 80
	if len(word) <= most {
		return word
	}
	end := most
	for end > 0 && !utf8.RuneStart(word[end]) {
		end--
	}
	return word[:end] + "…"
}
