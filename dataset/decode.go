package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
)

// maxJSONFile is the maximum size of a JSON file in bytes. The whole file is in memory.
const maxJSONFile = 256 << 20

// readJSON reads a list of items, or an object that has the list under "items". Invalid JSON ends
// it, since the next item cannot be found then.
func readJSON(in *bufio.Reader, limit int, yield func(record, error) bool) {
	text, err := io.ReadAll(io.LimitReader(in, maxJSONFile+1))
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
		if len(raw) > limit {
			yield(record{line: line}, tooLong(limit))
			return
		}
		if !yield(readObject(raw, line)) {
			return
		}
	}
	if err == nil {
		err = checkList(text, list, lists)
	}
	if err != nil {
		yield(record{line: 1}, err)
	}
}

// checkList returns an error if the JSON file, apart from its items, is not a list or an object
// with a list.
func checkList(text, list []byte, lists int) error {
	trimmed := bytes.TrimSpace(text)
	switch {
	case len(text) > maxJSONFile:
		return problem("", "the file is larger than %d MiB: write a line for each item, as .jsonl", maxJSONFile>>20)
	case len(trimmed) == 0:
		return problem("", "the file is empty: expected a list of items")
	case !textutil.ValidJSON(text):
		hint := ""
		if _, more := textutil.CutJSON(trimmed); len(more) > 0 {
			hint = "; a file with one object per line is named .jsonl"
		}
		return notAnObject(text, 1, json.Unmarshal(text, new(any)), hint)
	case trimmed[0] == '[', trimmed[0] == '{' && lists == 1 && list[0] == '[':
		return nil
	}
	return problem("", "expected a list of items, or an object with one list of them under \"items\"")
}

// readJSONL reads one object from each line.
func readJSONL(in *bufio.Reader, limit int, yield func(record, error) bool) {
	lines, line := bufio.NewScanner(in), 1
	lines.Buffer(nil, limit)
	for ; lines.Scan(); line++ {
		if len(bytes.TrimSpace(lines.Bytes())) > 0 && !yield(readObject(lines.Bytes(), line)) {
			return
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		yield(record{line: line}, tooLong(limit))
	} else if err != nil {
		yield(record{}, fmt.Errorf("line %d: %w", line, err))
	}
}

func tooLong(limit int) error { return problem("", "the item is larger than %d MiB", limit>>20) }

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
			problems = append(problems, problem(f, "is given twice, as %q and as %q", given[f], key))
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
			problems = append(problems, problem(f, "expected a string"))
		}
		return cmp.Or(s, n.String())
	}
	document := values[fieldText]
	if document != nil && document[0] != '"' {
		problems = append(problems, problem(fieldText, "expected a string"))
	}
	item = Item{
		ID: text(fieldID), Input: values[fieldInput], Expected: values[fieldExpected], Metadata: values[fieldMetadata],
		SourceTraceID: text(fieldTrace), SourceObservationID: text(fieldObservation),
	}
	if document != nil && item.Input != nil {
		problems = append(problems, problem(fieldText, "is given together with input: put the text into the input"))
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
		return problem(fieldMetadata, "must be an object to take the keys %q, which do not belong to an item", names)
	}
	for _, name := range names {
		if _, exists := merged[name]; exists {
			return problem(fieldMetadata, "has the key %q already, which also stands beside the metadata", name)
		}
		merged[name] = more[name]
	}
	item.Metadata, err = textutil.MarshalJSON(merged)
	return err
}

// column is the key that the cells below a header have in the item; after metadataPrefix, it is a key of the
// metadata.
type column string

const metadataPrefix = "metadata."

// isJSON reports whether the cells hold JSON, not text.
func (c column) isJSON() bool {
	return slices.Contains([]field{fieldInput, fieldExpected, fieldMetadata}, field(c))
}

// readCSV reads a header row and one item from each further row.
func readCSV(in *bufio.Reader, limit int, yield func(record, error) bool) {
	// Each row has a limit, since an open quote would read the rest of the file into memory.
	budget := &io.LimitedReader{R: in, N: int64(limit)}
	r := csv.NewReader(budget)
	r.ReuseRecord, r.Comma = true, separator(in)
	header, err := r.Read()
	if err == io.EOF {
		err = problem("", "the file is empty: expected a header row such as id,input,expected_output,metadata")
	}
	columns, headerErr := columnsOf(header)
	if err := cmp.Or(csvProblem(err), headerErr); err != nil {
		yield(record{line: 1}, err)
		return
	}
	line := 1
	for {
		budget.N = int64(limit)
		cells, err := r.Read()
		if len(cells) > 0 {
			line, _ = r.FieldPos(0)
		} else {
			line++ // an unreadable row has no position
		}
		row, isSyntax := record{line: line}, true
		switch {
		case budget.N <= 0:
			yield(row, problem("", "the row is larger than %d MiB: is a quote left open?", limit>>20))
			return
		case err == io.EOF:
			return
		case err != nil:
			err = csvProblem(err)
			_, isSyntax = errors.AsType[*SyntaxError](err)
		default:
			row.values, row.metadata, err = readRow(columns, cells)
		}
		if !yield(row, err) || !isSyntax {
			return
		}
	}
}

// separator returns the comma, or if the header has none, the separator that spreadsheets of
// some countries write.
func separator(in *bufio.Reader) rune {
	_, _ = in.Peek(1)                  // an error is repeated by later reads
	start, _ := in.Peek(in.Buffered()) // what the first read returned
	header, _, _ := bytes.Cut(start, []byte("\n"))
	for _, c := range ",;\t" {
		if bytes.ContainsRune(header, c) {
			return c
		}
	}
	return ','
}

func columnsOf(header []string) ([]column, error) {
	columns := make([]column, 0, len(header))
	seen := map[column]bool{}
	for i, name := range header {
		name = strings.TrimSpace(name)
		c := columnOf(name)
		switch {
		case invalidUTF8([]byte(name)) >= 0:
			return nil, problem("", "the header of column %d is not valid UTF-8; convert the file to UTF-8", i+1)
		case name == "":
			return nil, problem("", "column %d has no header", i+1)
		case seen[c]:
			return nil, problem("", "the column %q appears twice", name)
		}
		seen[c] = true
		columns = append(columns, c)
	}
	return columns, nil
}

// columnOf returns the column of a header. Known names may be in any case.
func columnOf(name string) column {
	if n := len(metadataPrefix); len(name) > n && strings.EqualFold(name[:n], metadataPrefix) {
		return column(metadataPrefix + name[n:])
	}
	for known, f := range fields {
		switch {
		case f == fieldServer && name == known:
			return column(name)
		case f != fieldServer && strings.EqualFold(name, known):
			return column(f)
		}
	}
	return column(metadataPrefix + name)
}

// readRow returns the values of a row, and those that belong to the metadata. The error joins all bad cells.
func readRow(columns []column, cells []string) (values, metadata map[string]json.RawMessage, err error) {
	values, metadata = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	var problems []error
	for i, cell := range cells {
		c := columns[i]
		if cell == "" || c.isJSON() && strings.TrimSpace(cell) == "" {
			continue
		}
		raw, err := c.value(cell)
		problems = append(problems, err)
		if name, isMetadata := strings.CutPrefix(string(c), metadataPrefix); isMetadata {
			metadata[name] = raw
		} else {
			values[name] = raw
		}
	}
	return values, metadata, errors.Join(problems...)
}

func (c column) value(cell string) (json.RawMessage, error) {
	switch {
	case invalidUTF8([]byte(cell)) >= 0:
		return nil, problem(field(c), "is not valid UTF-8; convert the file to UTF-8")
	case !c.isJSON():
		return textutil.MarshalJSON(cell)
	case !json.Valid([]byte(cell)):
		hint := ""
		if field(c) == fieldInput {
			hint = "; a plain text belongs into a column document_text"
		}
		return nil, problem(field(c), "the cell is not JSON%s", hint)
	}
	return json.RawMessage(cell), nil
}

// csvProblem describes an error in a row. It returns errors of the reader as they are.
func csvProblem(err error) error {
	parseErr, isSyntax := errors.AsType[*csv.ParseError](err)
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		return problem("", "the row and the header have different numbers of cells")
	case isSyntax:
		return problemAt(parseErr.StartLine, "is not CSV: %v (line %d, column %d)",
			parseErr.Err, parseErr.Line, parseErr.Column)
	}
	return err
}
