package answer

import (
	"fmt"
	"strings"
)

// quoted reads a text in double or single quotes and writes it in double ones.
// Raw control characters and escapes that JSON does not know are escaped. A
// single quote ends its text only where a comma, a colon, a closing bracket or
// the end of everything follows; any other is an apostrophe.
func (s *scanner) quoted() error {
	quote := s.text[s.pos]
	if quote == '\'' {
		s.repaired("single quotes were read as double quotes")
	}
	s.pos++
	s.out = append(s.out, '"')
	plain := s.pos // the first byte that is not yet written
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == quote && (quote == '"' || s.endsText()):
			s.out = append(append(s.out, s.text[plain:s.pos]...), '"')
			s.pos++
			return nil
		case c == '\\':
			s.out = append(s.out, s.text[plain:s.pos]...)
			if err := s.escape(); err != nil {
				return err
			}
			plain = s.pos
		case c == '"': // in single quotes
			s.out = append(append(s.out, s.text[plain:s.pos]...), '\\', '"')
			s.pos++
			plain = s.pos
		case c < 0x20:
			s.out = append(s.out, s.text[plain:s.pos]...)
			s.repaired("raw line breaks and control characters in texts were escaped")
			s.out = fmt.Appendf(s.out, `\u%04x`, c)
			s.pos++
			plain = s.pos
		default:
			s.pos++
		}
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
		s.pos = len(s.text)
		return errCut
	}
	switch c := rest[1]; {
	case strings.IndexByte(`"\/bfnrt`, c) >= 0:
		s.out = append(s.out, rest[:2]...)
		s.pos += 2
	case c == 'u' && len(rest) >= 6 && isHex(rest[2:6]):
		s.out = append(s.out, rest[:6]...)
		s.pos += 6
	case c == 'u' && len(rest) < 6 && isHex(rest[2:]):
		s.pos = len(s.text)
		return errCut
	case c == '\'':
		s.repaired(`\' was read as '`)
		s.out = append(s.out, '\'')
		s.pos += 2
	default:
		s.repaired("backslashes that escape nothing were kept as text")
		s.out = append(s.out, '\\', '\\')
		s.pos++
	}
	return nil
}

func isHex(digits string) bool {
	for i := range len(digits) {
		c := digits[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return false
		}
	}
	return true
}
