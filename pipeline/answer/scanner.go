package answer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/printable"
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

// shown is a hostile word as a message can hold it.
func shown(word string) string { return printable.Cut(word, 80) }
