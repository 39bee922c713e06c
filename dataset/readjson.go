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

	"extraction-experiment/internal/textutil"
)

// maxJSONFile is the maximum size of a JSON file in bytes. The whole file is in memory.
const maxJSONFile = 256 << 20

// json reads a list of items, or an object that has the list under "items". Invalid JSON ends
// it, since the next item cannot be found then.
func (d *decoder) json(in io.Reader) {
	text, readErr := io.ReadAll(io.LimitReader(in, maxJSONFile+1))
	lists, list := 0, text
	for key, value := range textutil.JSONMembers(text) {
		if key == "items" {
			list, lists = value, lists+1
		}
	}
	line, counted := 1, 0
	for raw := range textutil.JSONElements(list) { // ends at invalid JSON, which checkList reports
		offset := cap(text) - cap(raw) // offset of raw, a part of text
		line += bytes.Count(text[counted:offset], []byte("\n"))
		counted = offset
		switch {
		case len(raw) > d.limit:
			d.fail(line, d.tooLong(line))
			return
		case !d.object(raw, line):
			return
		}
	}
	if readErr != nil {
		d.fail(line, fmt.Errorf("reading %s: %w", d.name, readErr))
	} else if err := d.checkList(text, list, lists); err != nil {
		d.fail(line, err)
	}
}

// checkList returns an error if the JSON file, apart from its items, is not a list or an object
// with a list.
func (d *decoder) checkList(text, list []byte, lists int) error {
	trimmed := bytes.TrimSpace(text)
	switch {
	case len(text) > maxJSONFile:
		return d.problem(1, "", "the file is larger than %d MiB: write a line for each item, as .jsonl", maxJSONFile>>20)
	case len(trimmed) == 0:
		return d.problem(1, "", "the file is empty: expected a list of items")
	case !textutil.ValidJSON(text):
		problem := d.notAnObject(text, 1, json.Unmarshal(text, new(any)))
		if _, more := textutil.CutJSON(trimmed); len(more) > 0 {
			problem.Msg += "; a file with one object per line is named .jsonl"
		}
		return problem
	case trimmed[0] == '[', trimmed[0] == '{' && lists == 1 && list[0] == '[':
		return nil
	}
	return d.problem(1, "", "expected a list of items, or an object with one list of them under \"items\"")
}

// jsonl reads one object from each line.
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

// field is a value of an item, by its name in files.
type field string

const (
	fieldID          field = "id"
	fieldInput       field = "input"
	fieldText        field = "document_text"
	fieldExpected    field = "expectedOutput"
	fieldMetadata    field = "metadata"
	fieldTrace       field = "sourceTraceId"
	fieldObservation field = "sourceObservationId"
	fieldServer      field = "" // added by Langfuse to items that it returns
)

// fields maps the keys in files to fields. Other keys go into the metadata.
var fields = map[string]field{
	"id": fieldID, "input": fieldInput, "document_text": fieldText, "metadata": fieldMetadata,
	"expectedOutput": fieldExpected, "expected_output": fieldExpected, "expected": fieldExpected,
	"sourceTraceId": fieldTrace, "source_trace_id": fieldTrace,
	"sourceObservationId": fieldObservation, "source_observation_id": fieldObservation,
	"status": fieldServer, "datasetId": fieldServer, "datasetName": fieldServer,
	"createdAt": fieldServer, "updatedAt": fieldServer, "mediaReferences": fieldServer,
}

// fieldProblem returns a problem inside one item, without file and line.
func fieldProblem(path field, format string, args ...any) error {
	return &SyntaxError{Path: string(path), Msg: fmt.Sprintf(format, args...)}
}

// decodeItem makes an item from the keys and values of one object or row, and from further
// metadata. The error joins all problems.
func decodeItem(values, metadata map[string]json.RawMessage) (Located, error) {
	var (
		located  Located
		problems []error
		given    = map[field]string{}
		byField  = map[field]json.RawMessage{}
		unknown  []string
	)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		raw := values[key]
		f, known := fields[key]
		switch {
		case !known:
			metadata[key] = raw
			unknown = append(unknown, key)
		case textutil.AbsentJSON(bytes.TrimSpace(raw)):
		case f == fieldServer:
			if key == "status" && string(raw) != `"ACTIVE"` {
				located.Warnings = append(located.Warnings, fmt.Sprintf("status: %s is not used, the item counts as active", raw))
			}
		case given[f] != "":
			problems = append(problems, fieldProblem(f, "is given twice, as %q and as %q", given[f], key))
		default:
			given[f], byField[f] = key, raw
		}
	}
	item, more := newItem(byField)
	located.Item = item
	if err := errors.Join(append(slices.Concat(problems, more), addMetadata(&located.Item, metadata))...); err != nil {
		return Located{}, err
	}
	if len(unknown) > 0 {
		located.Warnings = append(located.Warnings, fmt.Sprintf("the keys %q do not belong to an item and were put into its metadata", unknown))
	}
	return located, checkID(&located)
}

// newItem makes an item from the values of its fields.
func newItem(values map[field]json.RawMessage) (item Item, problems []error) {
	text := func(f field) (s string) { // also reads the digits of a number, so that 7 and "7" are the same id
		var n json.Number
		if raw := values[f]; raw != nil && json.Unmarshal(raw, &s) != nil && json.Unmarshal(raw, &n) != nil {
			problems = append(problems, fieldProblem(f, "expected a string"))
		}
		return cmp.Or(s, n.String())
	}
	document := values[fieldText]
	if document != nil && document[0] != '"' {
		problems = append(problems, fieldProblem(fieldText, "expected a string"))
	}
	item = Item{
		ID: text(fieldID), Input: values[fieldInput], Expected: values[fieldExpected], Metadata: values[fieldMetadata],
		SourceTraceID: text(fieldTrace), SourceObservationID: text(fieldObservation),
	}
	if document != nil && item.Input != nil {
		problems = append(problems, fieldProblem(fieldText, "is given together with input: put the text into the input"))
	} else if document != nil {
		item.Input = slices.Concat([]byte(`{"document_text":`), document, []byte("}"))
	}
	return item, problems
}

// addMetadata adds keys to the metadata.
func addMetadata(item *Item, more map[string]json.RawMessage) (err error) {
	if len(more) == 0 {
		return nil
	}
	merged, names := map[string]json.RawMessage{}, slices.Sorted(maps.Keys(more))
	if item.Metadata != nil && json.Unmarshal(item.Metadata, &merged) != nil {
		return fieldProblem(fieldMetadata, "must be an object to take the keys %q, which do not belong to an item", names)
	}
	for _, name := range names {
		if _, exists := merged[name]; exists {
			return fieldProblem(fieldMetadata, "has the key %q already, which also stands beside the metadata", name)
		}
		merged[name] = more[name]
	}
	item.Metadata, err = textutil.MarshalJSON(merged)
	return err
}
