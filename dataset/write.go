package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
)

// Writer writes items in a format that Read reads back. Input, expected output
// and metadata keep their values, not their white space; in CSV a cell that is
// an empty string reads back as absent. Not safe for concurrent use.
type Writer struct {
	format Format
	out    *bufio.Writer
	csv    *csv.Writer
	items  int
}

// NewWriter begins a file of items; it must be closed, also after no items.
func NewWriter(w io.Writer, format Format) (*Writer, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	writer := &Writer{format: format, out: out, csv: csv.NewWriter(out)}
	switch format {
	case CSV:
		header := []string{"id", "input", "expected_output", "metadata", "source_trace_id", "source_observation_id"}
		return writer, writer.csv.Write(header)
	case JSON, JSONL:
		return writer, nil
	}
	return nil, unknownFormat(string(format))
}

// Write adds one item. Errors: those of the underlying writer, and values that
// are not JSON, of which nothing is written.
func (w *Writer) Write(item Item) error {
	write := w.object
	if w.format == CSV {
		write = w.row
	}
	if err := write(item); err != nil {
		return fmt.Errorf("writing item %q: %w", item.ID, err)
	}
	w.items++
	return nil
}

func (w *Writer) object(item Item) error {
	raw, err := Marshal(item)
	if err != nil {
		return err
	}
	switch {
	case w.format == JSONL:
		_, err = fmt.Fprintf(w.out, "%s\n", raw)
	case w.items == 0:
		_, err = fmt.Fprintf(w.out, "[\n%s", raw)
	default:
		_, err = fmt.Fprintf(w.out, ",\n%s", raw)
	}
	return err
}

func (w *Writer) row(item Item) error {
	record := []string{item.ID}
	for _, raw := range [][]byte{item.Input, item.Expected, item.Metadata} {
		var cell bytes.Buffer
		if len(raw) > 0 { // absent is the empty cell
			if err := json.Compact(&cell, raw); err != nil {
				return err
			}
		}
		record = append(record, cell.String())
	}
	return w.csv.Write(append(record, item.SourceTraceID, item.SourceObservationID))
}

// Close ends the file. It does not close the underlying writer.
func (w *Writer) Close() error {
	var err error
	switch {
	case w.format == CSV:
		w.csv.Flush()
		err = w.csv.Error()
	case w.format == JSON && w.items == 0:
		_, err = w.out.WriteString("[]\n")
	case w.format == JSON:
		_, err = w.out.WriteString("\n]\n")
	}
	if err = cmp.Or(err, w.out.Flush()); err != nil {
		return fmt.Errorf("writing items: %w", err)
	}
	return nil
}
