package dataset

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Format is a way to write items into a file.
type Format string

// The formats.
const (
	// JSONL is one item, a JSON object, per line.
	JSONL Format = "jsonl"
	// JSON is a list of items, or an object with the list under "items".
	JSON Format = "json"
	// CSV has a header row; see Read for the columns.
	CSV Format = "csv"
)

// FormatOf tells the format from the end of a file name: .jsonl or .ndjson,
// .json, .csv, in any case. The error names what is accepted.
func FormatOf(name string) (Format, error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".jsonl", ".ndjson":
		return JSONL, nil
	case ".json":
		return JSON, nil
	case ".csv":
		return CSV, nil
	}
	return "", &FormatError{Name: name}
}

// ParseFormat reads the name of a format, as a flag gives it.
func ParseFormat(name string) (Format, error) {
	switch f := Format(strings.ToLower(name)); f {
	case JSONL, JSON, CSV:
		return f, nil
	}
	return "", &FormatError{Name: name}
}

// FormatError says that a name tells no format.
type FormatError struct{ Name string }

func (e *FormatError) Error() string {
	return fmt.Sprintf("%q tells no format of items: use .jsonl, .json or .csv", e.Name)
}

// ExitCode is that of wrong usage.
func (e *FormatError) ExitCode() int { return 64 }
