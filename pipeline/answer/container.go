package answer

import "strings"

// enter passes an opening bracket, unless it is nested too deeply.
func (s *scanner) enter(depth int) error {
	if depth >= MaxDepth {
		return s.fail("the answer is nested deeper than %d levels", MaxDepth)
	}
	s.pos++
	return nil
}

// separator reads what stands before the next member or element: nothing,
// commas, or the closing bracket. It reports whether the container ended.
func (s *scanner) separator(closing byte, first bool) (done bool, err error) {
	commas := 0
	for {
		if err := s.skip(); err != nil {
			return false, err
		}
		if s.text[s.pos] != ',' {
			break
		}
		commas++
		s.pos++
	}
	c := s.text[s.pos]
	wanted := 1
	if first || c == closing {
		wanted = 0
	}
	switch {
	case commas > wanted:
		s.repaired("needless commas were removed")
	case commas < wanted && c == '{' && closing == ']':
		s.repaired("missing commas between objects were added")
	case commas < wanted:
		return false, s.unexpected("a comma or " + string(closing))
	}
	if c == closing {
		s.pos++
		return true, nil
	}
	return false, nil
}

// members reads an object and calls member for every key, which has to read the
// value. The key, strict JSON, is valid until the value is read.
func (s *scanner) members(depth int, member func(key []byte) error) error {
	if err := s.enter(depth); err != nil {
		return err
	}
	for first := true; ; first = false {
		done, err := s.separator('}', first)
		if done || err != nil {
			return err
		}
		if err := s.readKey(); err != nil {
			return err
		}
		if err := s.skip(); err != nil {
			return err
		}
		if s.text[s.pos] != ':' {
			return s.unexpected("a colon behind the key")
		}
		s.pos++
		if err := member(s.key); err != nil {
			return err
		}
	}
}

// elements reads a list and calls element where one begins.
func (s *scanner) elements(depth int, element func() error) error {
	if err := s.enter(depth); err != nil {
		return err
	}
	for first := true; ; first = false {
		done, err := s.separator(']', first)
		if done || err != nil {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

// readKey reads a key, quoted or a bare word as in JavaScript.
func (s *scanner) readKey() error {
	out := s.out
	s.out = s.key[:0]
	err := s.rawKey()
	s.key, s.out = s.out, out
	return err
}

func (s *scanner) rawKey() error {
	c := s.text[s.pos]
	if c == '"' || c == '\'' {
		return s.quoted()
	}
	if c != '_' && c != '$' && !('a' <= c && c <= 'z') && !('A' <= c && c <= 'Z') {
		return s.unexpected("a key in double quotes or }")
	}
	word, err := s.token()
	if err != nil {
		return err
	}
	s.repaired("keys without quotes were quoted")
	s.out = append(append(append(s.out, '"'), word...), '"')
	return nil
}

// startsWith reports whether a value of this kind comes next; white space is
// passed.
func (s *scanner) startsWith(brackets string) bool {
	return s.skip() == nil && strings.IndexByte(brackets, s.text[s.pos]) >= 0
}
