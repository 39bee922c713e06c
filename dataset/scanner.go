package dataset

import "bufio"

// scanner cuts JSON values out of a stream without understanding them: it
// knows strings, brackets and lines.
type scanner struct {
	in    *bufio.Reader
	limit int // bytes of a value
	line  int
}

// next returns the next byte that is not white space.
func (s *scanner) next() (byte, error) {
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n':
			s.line++
		case ' ', '\t', '\r':
		default:
			return c, nil
		}
	}
}

// value appends the value that begins with c, which was read already. Of a
// value larger than the limit nothing more is kept, but it is read to its end.
// Where no value can begin (a comma, a closing bracket) it returns nothing.
func (s *scanner) value(c byte, buf []byte) (value []byte, long bool, err error) {
	depth, quoted, escaped := 0, false, false
	for {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth < 0 || depth == 0 && !quoted && isEnd(c) {
			return buf, long, s.in.UnreadByte()
		}
		if c == '\n' {
			s.line++
		}
		if long = long || len(buf) >= s.limit; !long {
			buf = append(buf, c)
		}
		if depth == 0 && !quoted && (c == '"' || c == '}' || c == ']') {
			return buf, long, nil
		}
		if c, err = s.in.ReadByte(); err != nil {
			return buf, long, err
		}
	}
}

// isEnd tells the bytes at which a number, true, false or null ends.
func isEnd(c byte) bool {
	return c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n'
}
