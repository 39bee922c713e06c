package dataset

import (
	"bufio"
	"encoding/csv"
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
	if _, err := ParseFormat(string(format)); err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	return &Writer{format: format, out: out, csv: csv.NewWriter(out)}, nil
}

// Write adds one item. Errors: those of the underlying writer, and values that
// are not JSON, of which nothing is written.
func (w *Writer) Write(item Item) error {
	var err error
	switch w.format {
	case CSV:
		err = w.row(item)
	default:
		err = w.object(item)
	}
	if err != nil {
		return fmt.Errorf("writing item %q: %w", item.ID, err)
	}
	w.items++
	return nil
}

func (w *Writer) object(item Item) error {
	raw, err := marshal(item)
	if err != nil {
		return err
	}
	before, after := "", "\n"
	if w.format == JSON {
		before, after = ",\n", ""
		if w.items == 0 {
			before = "[\n"
		}
	}
	for _, part := range []string{before, string(raw), after} {
		if _, err := w.out.WriteString(part); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) row(item Item) error {
	record := []string{item.ID}
	for _, raw := range [][]byte{item.Input, item.Expected, item.Metadata} {
		cell, err := compact(raw)
		if err != nil {
			return err
		}
		record = append(record, cell)
	}
	if w.items == 0 {
		if err := w.header(); err != nil {
			return err
		}
	}
	return w.csv.Write(append(record, item.SourceTraceID, item.SourceObservationID))
}

func (w *Writer) header() error {
	return w.csv.Write([]string{"id", "input", "expected_output", "metadata", "source_trace_id", "source_observation_id"})
}

// Close ends the file. It does not close the underlying writer.
func (w *Writer) Close() error {
	if err := w.end(); err != nil {
		return fmt.Errorf("writing items: %w", err)
	}
	return nil
}

func (w *Writer) end() error {
	switch {
	case w.format == JSON && w.items == 0:
		_, err := w.out.WriteString("[]\n")
		if err != nil {
			return err
		}
	case w.format == JSON:
		_, err := w.out.WriteString("\n]\n")
		if err != nil {
			return err
		}
	case w.format == CSV:
		if w.items == 0 {
			if err := w.header(); err != nil {
				return err
			}
		}
		w.csv.Flush()
		if err := w.csv.Error(); err != nil {
			return err
		}
	}
	return w.out.Flush()
}
