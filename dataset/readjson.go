package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"extraction-experiment/internal/textutil"
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
	case errors.Is(err, errBudget):
		d.fail(s.line, d.tooLong(s.line))
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

// each calls one with the first byte of every element or member up to the end of
// a list or object.
func (d *decoder) each(s *scanner, end byte, one func(first byte) error) error {
	c, err := s.next()
	if err != nil || c == end {
		return err
	}
	for {
		if err := one(c); err != nil {
			return err
		}
		if c, err = s.next(); err != nil || c == end {
			return err
		}
		if c != ',' {
			return d.problem(s.line, "", "expected a comma or %q, found %q", end, c)
		}
		if c, err = s.next(); err != nil {
			return err
		}
	}
}

// list reads the items up to the closing bracket.
func (d *decoder) list(s *scanner) error {
	var buf []byte
	return d.each(s, ']', func(c byte) (err error) {
		line := s.line
		if buf, err = s.value(c, buf[:0]); err != nil {
			return err
		}
		if len(buf) == 0 {
			return d.problem(line, "", "expected an item, found %q", c)
		}
		if !d.object(buf, line) {
			return errStopped
		}
		return nil
	})
}

// envelope finds the list under "items" and passes over everything else.
func (d *decoder) envelope(s *scanner) error {
	found := false
	err := d.each(s, '}', func(c byte) error {
		key, err := d.key(s, c)
		if err != nil {
			return err
		}
		if c, err = s.next(); err != nil {
			return err
		}
		if key == "items" {
			if found || c != '[' {
				return d.problem(s.line, "items", "expected one list")
			}
			found = true
			return d.list(s)
		}
		value, err := s.value(c, nil)
		if err == nil && len(value) == 0 {
			return d.problem(s.line, key, "expected a value, found %q", c)
		}
		return err
	})
	if err == nil && !found {
		return d.problem(s.line, "items", "is missing: expected a list of items, or an object with the list under \"items\"")
	}
	return err
}

// key reads the name of a member and the colon behind it.
func (d *decoder) key(s *scanner, c byte) (string, error) {
	if c != '"' {
		return "", d.problem(s.line, "", "expected a key in double quotes, found %q", c)
	}
	raw, err := s.value(c, nil)
	if err != nil {
		return "", err
	}
	var key string
	if json.Unmarshal(raw, &key) != nil {
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

// jsonl reads one object per line.
func (d *decoder) jsonl(in *bufio.Reader) {
	lines, line := bufio.NewScanner(in), 1
	lines.Buffer(nil, d.limit)
	for ; lines.Scan(); line++ {
		if len(bytes.TrimSpace(lines.Bytes())) > 0 && !d.object(lines.Bytes(), line) {
			return
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		d.fail(line, d.tooLong(line))
	} else if err != nil {
		d.fail(line, fmt.Errorf("reading %s: line %d: %w", d.name, line, err))
	}
}

func (d *decoder) tooLong(line int) error {
	return d.problem(line, "", "the item is larger than %d MiB", d.limit>>20)
}

// field is one of the values of an item, as files spell its name.
type field string

const (
	fieldID          field = "id"
	fieldInput       field = "input"
	fieldText        field = "document_text"
	fieldExpected    field = "expectedOutput"
	fieldMetadata    field = "metadata"
	fieldTrace       field = "sourceTraceId"
	fieldObservation field = "sourceObservationId"
	fieldServer      field = "" // what Langfuse adds to an item it returns
)

// fields are the names that the fields have in files. What is not here goes into
// the metadata.
var fields = map[string]field{
	"id": fieldID, "input": fieldInput, "document_text": fieldText, "metadata": fieldMetadata,
	"expectedOutput": fieldExpected, "expected_output": fieldExpected, "expected": fieldExpected,
	"sourceTraceId": fieldTrace, "source_trace_id": fieldTrace,
	"sourceObservationId": fieldObservation, "source_observation_id": fieldObservation,
	"status": fieldServer, "datasetId": fieldServer, "datasetName": fieldServer,
	"createdAt": fieldServer, "updatedAt": fieldServer, "mediaReferences": fieldServer,
}

// wrong is a problem inside one item, before file and line are known.
func wrong(path field, format string, args ...any) error {
	return &SyntaxError{Path: string(path), Msg: fmt.Sprintf(format, args...)}
}

// decodeItem makes an item of the keys and values of one object or row, and of
// what else is to stand in its metadata. All problems are returned together.
func decodeItem(values, metadata map[string]json.RawMessage) (Located, error) {
	var (
		located  Located
		problems []error
		given    = map[field]string{}
		unknown  []string
	)
	if metadata == nil {
		metadata = map[string]json.RawMessage{}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		raw := values[key]
		f, known := fields[key]
		switch {
		case !known:
			metadata[key] = raw
			unknown = append(unknown, key)
		case isNull(raw):
		case f == fieldServer:
			if key == "status" && string(raw) != `"ACTIVE"` {
				located.Warnings = append(located.Warnings, fmt.Sprintf("status: %s is not used, the item counts as active", raw))
			}
		case given[f] != "":
			problems = append(problems, wrong(f, "is given twice, as %q and as %q", given[f], key))
		default:
			given[f] = key
			if err := set(&located.Item, f, raw); err != nil {
				problems = append(problems, err)
			}
		}
	}
	if given[fieldInput] != "" && given[fieldText] != "" {
		problems = append(problems, wrong(fieldText, "is given beside input: put the text into the input"))
	}
	if err := errors.Join(append(problems, addMetadata(&located.Item, metadata))...); err != nil {
		return Located{}, err
	}
	if len(unknown) > 0 {
		located.Warnings = append(located.Warnings, fmt.Sprintf("the keys %q are none of an item and were put into its metadata", unknown))
	}
	return located, identify(&located)
}

func set(item *Item, f field, raw json.RawMessage) error {
	var err error
	switch f {
	case fieldID:
		item.ID, err = spelling(f, raw)
	case fieldInput:
		item.Input = raw
	case fieldText:
		if !bytes.HasPrefix(raw, []byte(`"`)) {
			return wrong(f, "expected a string")
		}
		item.Input = slices.Concat([]byte(`{"document_text":`), raw, []byte("}"))
	case fieldExpected:
		item.Expected = raw
	case fieldMetadata:
		item.Metadata = raw
	case fieldTrace:
		item.SourceTraceID, err = spelling(f, raw)
	case fieldObservation:
		item.SourceObservationID, err = spelling(f, raw)
	}
	return err
}

// spelling reads a string; a number stands for its spelling, so that 7 and "7"
// are one id.
func spelling(f field, raw json.RawMessage) (string, error) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String(), nil
	}
	return "", wrong(f, "expected a string")
}

// addMetadata puts more keys into the metadata.
func addMetadata(item *Item, more map[string]json.RawMessage) (err error) {
	if len(more) == 0 {
		return nil
	}
	merged, names := map[string]json.RawMessage{}, slices.Sorted(maps.Keys(more))
	if item.Metadata != nil && json.Unmarshal(item.Metadata, &merged) != nil {
		return wrong(fieldMetadata, "must be an object to take the keys %q, which are none of an item", names)
	}
	for _, name := range names {
		if _, taken := merged[name]; taken {
			return wrong(fieldMetadata, "has the key %q already, which also stands beside the metadata", name)
		}
		merged[name] = more[name]
	}
	item.Metadata, err = Marshal(merged)
	return err
}

func isNull(raw []byte) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

// Marshal writes JSON without escaping for HTML: documents stay readable.
func Marshal(v any) ([]byte, error) {
	return textutil.MarshalJSON(v)
}
