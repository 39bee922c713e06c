package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// errCut says that the text ended inside a value.
var errCut = errors.New("the text ends inside a value")

// scanner reads something near JSON and writes it as strict JSON to out. It
// looks at every byte once, apart from the white space after a single quote,
// and stops at what it does not understand.
type scanner struct {
	text     string
	pos      int
	out      []byte
	open     []byte // the brackets that close the containers around pos
	values   int
	repaired bool // something was not JSON

	complete, within int // bytes of out that can be kept, and how many of the containers are open there
}

// json returns what was written as far as it is complete, with what is open there closed. An
// element of a list is kept as a whole, or not at all.
func (s *scanner) json() []byte {
	open := s.open[:s.within]
	slices.Reverse(open)
	return append(s.out[:s.complete], open...)
}

// mark remembers that all that is written so far is complete, which is not so within an
// element of a list.
func (s *scanner) mark() {
	if list := bytes.IndexByte(s.open, ']'); list < 0 || list == len(s.open)-1 {
		s.complete, s.within = len(s.out), len(s.open)
	}
}

// unexpected says what was awaited and what is there.
func (s *scanner) unexpected(awaited string) error {
	r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
	return fmt.Errorf("expected %s, found %q", awaited, r)
}

// value reads one value and writes it.
func (s *scanner) value() error {
	if err := s.skip(); err != nil {
		return err
	}
	if s.values++; s.values > maxValues {
		return fmt.Errorf("the answer has more than %d values", maxValues)
	}
	switch c := s.text[s.pos]; c {
	case '{', '[':
		return s.container(c)
	case '"', '\'':
		return s.quoted()
	}
	return s.literal()
}

// container reads an object or a list.
func (s *scanner) container(opening byte) error {
	if len(s.open) >= maxDepth {
		return fmt.Errorf("the answer is nested deeper than %d levels", maxDepth)
	}
	closing := opening + 2 // in ASCII, of both kinds
	s.out, s.open = append(s.out, opening), append(s.open, closing)
	s.pos++
	for first := true; ; first = false {
		s.mark()
		if err := s.separator(closing, first); err != nil {
			return err
		}
		if s.text[s.pos] == closing {
			s.pos++
			s.out, s.open = append(s.out, closing), s.open[:len(s.open)-1]
			return nil
		}
		if !first {
			s.out = append(s.out, ',')
		}
		if opening == '{' {
			if err := s.key(); err != nil {
				return err
			}
		}
		if err := s.value(); err != nil {
			return err
		}
	}
}

// separator reads what precedes the next member or element: nothing,
// commas, or the closing bracket.
func (s *scanner) separator(closing byte, first bool) error {
	err, commas := s.skip(), 0
	for ; err == nil && s.text[s.pos] == ','; commas++ {
		s.pos++
		err = s.skip()
	}
	if err != nil {
		return err
	}
	ends := s.text[s.pos] == closing
	if commas == 0 && !first && !ends {
		return s.unexpected("a comma or " + string(closing))
	}
	s.repaired = s.repaired || commas > 1 || commas == 1 && (first || ends)
	return nil
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

// skip passes white space, also no-break spaces, byte order marks and joiners, and
// comments; errCut at the end of the text.
func (s *scanner) skip() error {
	for s.pos < len(s.text) {
		rest := s.text[s.pos:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case strings.HasPrefix(rest, "//"):
			s.comment("\n")
		case strings.HasPrefix(rest, "/*"):
			s.comment("*/")
		case unicode.IsSpace(r) || unicode.Is(unicode.Cf, r):
			s.pos += size
		default:
			return nil
		}
	}
	return errCut
}

// comment passes a comment with its end; one without an end takes the rest of the text.
func (s *scanner) comment(end string) {
	_, after, _ := strings.Cut(s.text[s.pos+2:], end)
	s.pos = len(s.text) - len(after)
	s.repaired = true
}

// literals are the words of Python and JavaScript.
var literals = map[string]string{
	"True": "true", "False": "false", "None": "null", "undefined": "null",
	"NaN": "null", "nan": "null", "Infinity": "null", "-Infinity": "null", "inf": "null", "-inf": "null",
}

// literal reads a word or a number: the letters, digits and signs that follow. One
// that the text ends with may have lost its end.
func (s *scanner) literal() error {
	rest := s.text[s.pos:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("_$+-.", r))
	})
	if end < 0 {
		s.pos = len(s.text)
		return errCut
	}
	token := rest[:end]
	written, known := literals[token]
	switch {
	case token == "":
		return s.unexpected("a value")
	case known:
		s.repaired = true
	case json.Valid([]byte(token)):
		written = token
	default:
		return fmt.Errorf("expected a value, found %q: write texts in double quotes", shown(token))
	}
	s.pos += end
	s.out = append(s.out, written...)
	return nil
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
		default: // a control character, or a double quote in single quotes
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
	rest, size := s.text[s.pos:], 2
	if strings.HasPrefix(rest, `\u`) {
		size = 6
	}
	if len(rest) < size {
		return errCut
	}
	_, notHex := strconv.ParseUint(rest[2:size], 16, 32)
	switch {
	case size == 6 && notHex == nil, strings.IndexByte(`"\/bfnrt`, rest[1]) >= 0:
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
