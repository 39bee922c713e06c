package answer

import (
	"bytes"
	"cmp"
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

// errCut means that the text ended inside a value.
var errCut = errors.New("the text ends inside a value")

// scanner reads almost valid JSON and writes it as strict JSON to out. It reads every byte
// once, except for white space after a single quote, and stops at text that it does not
// understand.
type scanner struct {
	text    string
	pos     int
	out     []byte
	closers []byte // closing brackets of the containers around pos
	values  int

	completeLen, completeDepth int // bytes of out that are complete, and the number of containers open there
}

// completeJSON returns the complete part of the output and closes its containers. An element of a list
// is kept as a whole or not at all.
func (s *scanner) completeJSON() []byte {
	closers := s.closers[:s.completeDepth]
	slices.Reverse(closers)
	return append(s.out[:s.completeLen], closers...)
}

// markComplete records that the output so far is complete, unless it ends within an element of a list.
func (s *scanner) markComplete() {
	if list := bytes.IndexByte(s.closers, ']'); list < 0 || list == len(s.closers)-1 {
		s.completeLen, s.completeDepth = len(s.out), len(s.closers)
	}
}

// unexpected returns an error with the expected and the actual text.
func (s *scanner) unexpected(expected string) error {
	r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
	return fmt.Errorf("expected %s, found %q", expected, r)
}

// value reads one value and writes it.
func (s *scanner) value() error {
	if err := s.skipSpace(); err != nil {
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
	if len(s.closers) >= maxDepth {
		return fmt.Errorf("the answer is nested deeper than %d levels", maxDepth)
	}
	closing := opening + 2 // true for both kinds in ASCII
	s.out, s.closers = append(s.out, opening), append(s.closers, closing)
	s.pos++
	for first := true; ; first = false {
		s.markComplete()
		if err := s.separator(closing, first); err != nil {
			return err
		}
		if s.text[s.pos] == closing {
			s.pos++
			s.out, s.closers = append(s.out, closing), s.closers[:len(s.closers)-1]
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

// separator reads the commas before the next member or element. It stops before the closing
// bracket.
func (s *scanner) separator(closing byte, first bool) error {
	err, comma := s.skipSpace(), first
	for ; err == nil && s.text[s.pos] == ','; comma = true {
		s.pos++
		err = s.skipSpace()
	}
	if err == nil && !comma && s.text[s.pos] != closing {
		err = s.unexpected("a comma or " + string(closing))
	}
	return err
}

// key reads a key and the colon.
func (s *scanner) key() error {
	if c := s.text[s.pos]; c != '"' && c != '\'' {
		return s.unexpected("a key in double quotes or }")
	}
	if err := s.quoted(); err != nil {
		return err
	}
	if err := s.skipSpace(); err != nil {
		return err
	}
	if s.text[s.pos] != ':' {
		return s.unexpected("a colon behind the key")
	}
	s.pos++
	s.out = append(s.out, ':')
	return nil
}

// skipSpace skips comments and white space, including no-break spaces, byte order marks and joiners.
// It returns errCut at the end of the text.
func (s *scanner) skipSpace() error {
	for s.pos < len(s.text) {
		rest := s.text[s.pos:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case strings.HasPrefix(rest, "//"):
			s.skipComment("\n")
		case strings.HasPrefix(rest, "/*"):
			s.skipComment("*/")
		case unicode.IsSpace(r) || unicode.Is(unicode.Cf, r):
			s.pos += size
		default:
			return nil
		}
	}
	return errCut
}

// skipComment skips a comment; one without an end extends to the end of the text.
func (s *scanner) skipComment(end string) {
	_, after, _ := strings.Cut(s.text[s.pos+2:], end)
	s.pos = len(s.text) - len(after)
}

// literals maps words of Python and JavaScript to JSON.
var literals = map[string]string{
	"True": "true", "False": "false", "None": "null", "undefined": "null",
	"NaN": "null", "nan": "null", "Infinity": "null", "-Infinity": "null", "inf": "null", "-inf": "null",
}

// literal reads a word or a number: the letters, digits and signs that follow. At the end of
// the text it may be cut.
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
	output := cmp.Or(literals[token], token)
	switch {
	case token == "":
		return s.unexpected("a value")
	case !json.Valid([]byte(output)):
		return fmt.Errorf("expected a value, found %q: write texts in double quotes", brief(token))
	}
	s.pos += end
	s.out = append(s.out, output...)
	return nil
}

// quoted reads a text in double or single quotes and writes it in double quotes. It escapes raw
// control characters and backslashes of unknown escapes. A single quote ends its text only
// before a comma, a colon, a closing bracket or the end of the input; any other is an
// apostrophe.
func (s *scanner) quoted() error {
	quote := s.text[s.pos]
	s.pos++
	s.out = append(s.out, '"')
	unwritten := s.pos // the first byte that has not been written
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		ends := c == quote && (quote == '"' || s.endsText())
		if c >= 0x20 && c != '\\' && c != '"' && !ends {
			s.pos++
			continue
		}
		s.out = append(s.out, s.text[unwritten:s.pos]...)
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
			s.out = fmt.Appendf(s.out, `\u%04x`, c)
			s.pos++
		}
		unwritten = s.pos
	}
	return errCut
}

// endsText reports whether the single quote at pos can end a text.
func (s *scanner) endsText() bool {
	rest := strings.TrimLeft(s.text[s.pos+1:], " \t\r\n")
	return rest == "" || strings.IndexByte(",:}]", rest[0]) >= 0
}

// escape reads a backslash and the rest of its escape.
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
		s.out = append(s.out, '\'')
	default:
		s.out = append(s.out, '\\', '\\')
		size = 1
	}
	s.pos += size
	return nil
}

// brief cuts a word from outside to a length that fits into a message.
func brief(word string) string { return textutil.Cut(word, 80) }
