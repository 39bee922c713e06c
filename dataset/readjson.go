package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
)

// json reads a list of items, or an object that has the list under "items", one
// item at a time, so that the file never stands in memory. What is no JSON ends it:
// nobody knows where the next item begins then.
func (d *decoder) json(in *bufio.Reader) {
	source := &lineReader{budgetReader: budgetReader{in: in, left: d.limit}, line: 1}
	s := &stream{json.NewDecoder(source), source}
	err := d.document(s)
	line := source.lineOf(s.InputOffset())
	var syntax *json.SyntaxError
	switch {
	case err == nil || errors.Is(err, errStopped):
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		d.fail(line, d.problem(line, "", "the file ends in the middle of the JSON"))
	case errors.Is(err, errBudget):
		d.fail(line, d.tooLong(line))
	case errors.As(err, &syntax):
		d.fail(line, d.problem(line, "", "is not JSON: %v", syntax))
	case errors.As(err, new(*SyntaxError)):
		d.fail(line, err)
	default:
		d.fail(line, fmt.Errorf("reading %s: %w", d.name, err))
	}
}

// errStopped means that the consumer wants no more.
var errStopped = errors.New("stopped")

func (d *decoder) document(s *stream) error {
	first, err := s.Token()
	switch {
	case errors.Is(err, io.EOF):
		return d.problem(1, "", "the file is empty: expected a list of items")
	case err != nil:
		return err
	case first == json.Delim('['):
		err = d.list(s)
	case first == json.Delim('{'):
		err = d.envelope(s)
	default:
		return d.problem(s.source.line, "", "expected a list of items, or an object with the list under \"items\"")
	}
	if err != nil {
		return err
	}
	if _, err := s.Token(); !errors.Is(err, io.EOF) {
		return d.problem(s.source.lineOf(s.InputOffset()), "", "there is more after the end of the JSON; a file with one object per line is named .jsonl")
	}
	return nil
}

// list reads the items up to the closing bracket.
func (d *decoder) list(s *stream) error {
	for s.More() {
		raw, line, err := d.value(s)
		if err != nil {
			return err
		}
		if !d.object(raw, line) {
			return errStopped
		}
	}
	_, err := s.Token()
	return err
}

// envelope finds the list under "items" and passes over everything else.
func (d *decoder) envelope(s *stream) error {
	found := false
	for s.More() {
		key, err := s.Token()
		var begin any
		switch {
		case err != nil:
		case key != "items":
			_, _, err = d.value(s)
		default:
			begin, err = s.Token()
			if err == nil && (found || begin != json.Delim('[')) {
				err = d.problem(s.source.lineOf(s.InputOffset()), "items", "expected one list")
			}
			if found = true; err == nil {
				err = d.list(s)
			}
		}
		if err != nil {
			return err
		}
	}
	_, err := s.Token()
	if err == nil && !found {
		err = d.problem(s.source.lineOf(s.InputOffset()), "items",
			"is missing: expected a list of items, or an object with the list under \"items\"")
	}
	return err
}

// stream is the JSON of a file.
type stream struct {
	*json.Decoder
	source *lineReader
}

// value reads the next value, and returns its line.
func (d *decoder) value(s *stream) (raw json.RawMessage, line int, err error) {
	s.source.left = d.limit
	err = s.Decode(&raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && !strings.HasPrefix(syntax.Error(), "expected comma") {
		rest, _ := io.ReadAll(s.Buffered()) // it begins with the value, and tells the place
		return nil, 0, d.notAnObject(rest, s.source.lineOf(s.InputOffset()), json.Unmarshal(rest, new(any)))
	}
	if err == nil && len(raw) > d.limit {
		err = errBudget
	}
	return raw, s.source.lineOf(s.InputOffset() - int64(len(raw))), err
}

// lineReader knows on which line a place of what was read stands. Places are asked
// for in their order.
type lineReader struct {
	budgetReader
	read int64   // bytes
	ends []int64 // places of line ends behind the last place that was asked for
	line int     // of that place
}

func (l *lineReader) Read(p []byte) (int, error) {
	n, err := l.budgetReader.Read(p)
	for i, c := range p[:n] {
		if c == '\n' {
			l.ends = append(l.ends, l.read+int64(i))
		}
	}
	l.read += int64(n)
	return n, err
}

func (l *lineReader) lineOf(place int64) int {
	for len(l.ends) > 0 && l.ends[0] < place {
		l.ends, l.line = l.ends[1:], l.line+1
	}
	return l.line
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
	var n json.Number
	if json.Unmarshal(raw, &s) != nil && json.Unmarshal(raw, &n) != nil {
		return "", wrong(f, "expected a string")
	}
	return cmp.Or(s, n.String()), nil
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
