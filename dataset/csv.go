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
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
)

// column is the key that the cells below a header have in the item; after metadataPrefix, it is a key of the
// metadata.
type column string

const metadataPrefix = "metadata."

// isJSON reports whether the cells hold JSON, not text.
func (c column) isJSON() bool {
	return slices.Contains([]field{fieldInput, fieldExpected, fieldMetadata}, field(c))
}

// csv reads a header row and one item from each further row.
func (d *decoder) csv(in *bufio.Reader) {
	// Each row has a limit, since an open quote would read the rest of the file into memory.
	budget := &io.LimitedReader{R: in, N: int64(d.limit)}
	r := csv.NewReader(budget)
	r.ReuseRecord, r.Comma = true, separator(in)
	header, err := r.Read()
	if err == io.EOF {
		err = d.problem(1, "", "the file is empty: expected a header row such as id,input,expected_output,metadata")
	} else if err != nil {
		err = d.csvProblem(err, 1)
	}
	columns, headerErr := d.columns(header)
	if err := cmp.Or(err, headerErr); err != nil {
		d.fail(1, err)
		return
	}
	line := 1
	for {
		budget.N = int64(d.limit)
		record, err := r.Read()
		if len(record) > 0 {
			line, _ = r.FieldPos(0)
		} else {
			line++ // an unreadable row has no position
		}
		switch {
		case budget.N <= 0:
			d.fail(line, d.problem(line, "", "the row is larger than %d MiB: is a quote left open?", d.limit>>20))
			return
		case err == io.EOF:
			return
		case err != nil:
			problem := d.csvProblem(err, line)
			if !d.fail(line, problem) || !errors.As(problem, new(*SyntaxError)) {
				return
			}
		case !d.row(columns, record, line):
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

func (d *decoder) columns(header []string) ([]column, error) {
	columns := make([]column, 0, len(header))
	seen := map[column]bool{}
	for i, name := range header {
		name = strings.TrimSpace(name)
		c := columnOf(name)
		switch {
		case invalidUTF8([]byte(name)) >= 0:
			return nil, d.problem(1, "", "the header of column %d is not valid UTF-8; convert the file to UTF-8", i+1)
		case name == "":
			return nil, d.problem(1, "", "column %d has no header", i+1)
		case seen[c]:
			return nil, d.problem(1, "", "the column %q appears twice", name)
		}
		seen[c] = true
		columns = append(columns, c)
	}
	return columns, nil
}

// columnOf returns the column of a header. Known names may be in any case.
func columnOf(name string) column {
	if key, ok := strings.CutPrefix(name, metadataPrefix); ok && key != "" {
		return column(name)
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

// row makes an item from one record. It reports all bad cells.
func (d *decoder) row(columns []column, record []string, line int) bool {
	values, metadata := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	var problems []error
	for i, cell := range record {
		c := columns[i]
		if cell == "" || c.isJSON() && strings.TrimSpace(cell) == "" {
			continue
		}
		raw, err := c.value(cell)
		name, isMetadata := strings.CutPrefix(string(c), metadataPrefix)
		switch {
		case err != nil:
			problems = append(problems, err)
		case isMetadata:
			metadata[name] = raw
		default:
			values[name] = raw
		}
	}
	if err := errors.Join(problems...); err != nil {
		return d.fail(line, err)
	}
	return d.values(values, metadata, line)
}

func (c column) value(cell string) (json.RawMessage, error) {
	switch {
	case invalidUTF8([]byte(cell)) >= 0:
		return nil, fieldProblem(field(c), "is not valid UTF-8; convert the file to UTF-8")
	case !c.isJSON():
		return textutil.MarshalJSON(cell)
	case !json.Valid([]byte(cell)):
		hint := ""
		if field(c) == fieldInput {
			hint = "; a plain text belongs into a column document_text"
		}
		return nil, fieldProblem(field(c), "the cell is not JSON%s", hint)
	}
	return json.RawMessage(cell), nil
}

// csvProblem describes an error in a row. Errors of the reader are only wrapped.
func (d *decoder) csvProblem(err error, line int) error {
	var parseErr *csv.ParseError
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		return d.problem(line, "", "the row and the header have different numbers of cells")
	case errors.As(err, &parseErr):
		return d.problem(parseErr.StartLine, "", "is not CSV: %v (line %d, column %d)",
			parseErr.Err, parseErr.Line, parseErr.Column)
	}
	return fmt.Errorf("reading %s: %w", d.name, err)
}
