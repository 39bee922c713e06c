package dataset

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// json reads a list of items, or an object that has the list under "items".
// Elements are cut out by counting brackets and decoded one at a time, so that
// the file never stands in memory, and a bad element hides none after it.
func (d *decoder) json(in *bufio.Reader) {
	s := &scanner{in: in, limit: d.limit, line: 1}
	err := d.document(s)
	switch {
	case err == nil || errors.Is(err, errStopped):
	case errors.Is(err, io.EOF):
		d.fail(s.line, d.problem(s.line, "", "the file ends in the middle of the JSON"))
	case errors.As(err, new(*SyntaxError)):
		d.fail(s.line, err)
	default:
		d.fail(s.line, fmt.Errorf("reading %s: %w", d.name, err))
	}
}

// errStopped means that the consumer wants no more.
var errStopped = errors.New("stopped")

func (d *decoder) document(s *scanner) error {
	first, err := s.next()
	if errors.Is(err, io.EOF) {
		return d.problem(1, "", "the file is empty: expected a list of items")
	}
	if err != nil {
		return err
	}
	switch first {
	case '[':
		err = d.list(s)
	case '{':
		err = d.envelope(s)
	default:
		return d.problem(s.line, "", "expected a list of items, or an object with the list under \"items\"")
	}
	if err != nil {
		return err
	}
	if _, err := s.next(); err == nil {
		return d.problem(s.line, "", "there is more after the end of the JSON; a file with one object per line is named .jsonl")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// list reads the elements up to the closing bracket.
func (d *decoder) list(s *scanner) error {
	var buf []byte
	for n := 0; ; n++ {
		c, err := s.next()
		if err != nil {
			return err
		}
		if c == ']' && n == 0 {
			return nil
		}
		line := s.line
		var long bool
		buf, long, err = s.value(c, buf[:0])
		if err != nil {
			return err
		}
		goOn := false
		switch {
		case long:
			goOn = d.fail(line, d.tooLong(line))
		case len(buf) == 0:
			return d.problem(line, "", "expected an item, found %q", c)
		default:
			goOn = d.object(buf, line)
		}
		if !goOn {
			return errStopped
		}
		if end, err := d.separator(s, ']'); err != nil || end {
			return err
		}
	}
}

// envelope finds the list under "items" and passes over everything else.
func (d *decoder) envelope(s *scanner) error {
	found := false
	for n := 0; ; n++ {
		c, err := s.next()
		if err != nil {
			return err
		}
		if c == '}' && n == 0 {
			break
		}
		key, err := d.key(s, c)
		if err != nil {
			return err
		}
		if c, err = s.next(); err != nil {
			return err
		}
		if key == "items" && c == '[' && !found {
			found = true
			err = d.list(s)
		} else if err = d.skip(s, c, key); err == nil && key == "items" {
			err = d.problem(s.line, "items", "expected one list")
		}
		if err != nil {
			return err
		}
		end, err := d.separator(s, '}')
		if err != nil {
			return err
		}
		if end {
			break
		}
	}
	if !found {
		return d.problem(s.line, "items", "is missing: expected a list of items, or an object with the list under \"items\"")
	}
	return nil
}

// skip passes over the value of a key that is not wanted.
func (d *decoder) skip(s *scanner, c byte, key string) error {
	value, _, err := s.value(c, nil)
	if err == nil && len(value) == 0 {
		return d.problem(s.line, key, "expected a value, found %q", c)
	}
	return err
}

// key reads the name of a member and the colon behind it.
func (d *decoder) key(s *scanner, c byte) (string, error) {
	if c != '"' {
		return "", d.problem(s.line, "", "expected a key in double quotes, found %q", c)
	}
	raw, long, err := s.value(c, nil)
	if err != nil {
		return "", err
	}
	var key string
	if long || json.Unmarshal(raw, &key) != nil {
		return "", d.problem(s.line, "", "a key is not a JSON string")
	}
	if c, err = s.next(); err != nil {
		return "", err
	}
	if c != ':' {
		return "", d.problem(s.line, "", "expected a colon after the key %q, found %q", key, c)
	}
	return key, nil
}

// separator reads a comma, or the end of a list or object.
func (d *decoder) separator(s *scanner, end byte) (bool, error) {
	c, err := s.next()
	if err != nil {
		return false, err
	}
	if c != ',' && c != end {
		return false, d.problem(s.line, "", "expected a comma or %q, found %q", end, c)
	}
	return c == end, nil
}
