package answer

import (
	"encoding/json"
	"strconv"
	"strings"
)

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
