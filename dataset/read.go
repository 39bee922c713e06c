package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// Format is a file format of items.
type Format string

// The formats.
const (
	// JSONL has one item, a JSON object, on each line.
	JSONL Format = "jsonl"
	// JSON is a list of items, or an object with the list under "items".
	JSON Format = "json"
	// CSV has a header row; see Read for the columns.
	CSV Format = "csv"
)

// FormatOf returns the format of a file by the extension of its name: .jsonl or .ndjson, .json,
// .csv, in upper or lower case. The error for other names lists the formats.
func FormatOf(name string) (Format, error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".jsonl", ".ndjson":
		return JSONL, nil
	case ".json":
		return JSON, nil
	case ".csv":
		return CSV, nil
	}
	return "", unknownFormat(name)
}

func unknownFormat(name string) error {
	return cli.Usage("%q tells no format of items: use .jsonl, .json or .csv", name)
}

// MaxItem is the maximum size of an item (a line, a list element, a row) in bytes. Larger ones
// are refused.
const MaxItem = 64 << 20

// ReadFile yields the items of a file as Read does; the extension determines the format. The
// file is open only while the sequence is consumed, which may be repeated, unless the file is a
// pipe. Devices are refused. Reading stops when ctx is done.
func ReadFile(ctx context.Context, path string) iter.Seq2[Located, error] {
	return func(yield func(Located, error) bool) {
		format, err := FormatOf(path)
		if err != nil {
			yield(Located{}, err)
			return
		}
		f, err := files.Open(ctx, path)
		if err != nil {
			yield(Located{}, fmt.Errorf("reading items: %w", err))
			return
		}
		defer f.Close() // only read, so that nothing can be lost
		Read(f, format, path)(yield)
	}
}

// Read yields the items of r one by one; name is the name of the file in problems. The sequence
// can be consumed once.
//
// Keys of an item: id, input, expectedOutput (expected_output, expected), metadata,
// sourceTraceId, sourceObservationId (also in snake case). document_text instead of input makes
// an input of that text alone. Keys that Langfuse adds (status, createdAt, …) are ignored. Any
// other key goes into the metadata under its own name, with a warning. A missing id is derived
// from the input (DeriveID). A null value counts as absent. A repeated key is a problem.
//
// JSONL: one object per line; blank lines are skipped. JSON: a list of such objects, or an
// object with the list under "items". CSV: a header row with the same names in any case; input,
// expected output and metadata contain JSON; metadata.NAME and unknown columns contain text
// that becomes a string in the metadata; an empty cell is absent; "\r\n" inside a cell becomes
// "\n".
//
// A byte order mark and CRLF are accepted. Memory: the ids, to find duplicates, and one item at
// a time; for JSON the whole file, of at most 256 MiB.
//
// An error is a *SyntaxError with file and line. Reading continues after it if the next item
// can be found, so that all problems can be listed (see Problems); in a JSON list, it cannot be
// found after invalid JSON. After any other error, which is one of the reader, and after an
// item above MaxItem, the sequence ends.
func Read(r io.Reader, format Format, name string) iter.Seq2[Located, error] {
	return readItems(r, format, name, MaxItem)
}

// readItems is Read with a given maximum size of an item.
func readItems(r io.Reader, format Format, name string, limit int) iter.Seq2[Located, error] {
	return func(yield func(Located, error) bool) {
		read := map[Format]recordReader{JSONL: readJSONL, JSON: readJSON, CSV: readCSV}[format]
		if read == nil {
			yield(Located{}, unknownFormat(string(format)))
			return
		}
		in := bufio.NewReaderSize(r, 64<<10)
		// The byte order mark of UTF-8 is no part of an item. An error is repeated by later reads.
		if mark, _ := in.Peek(3); bytes.HasPrefix(mark, []byte("\xef\xbb\xbf")) {
			_, _ = in.Discard(3)
		}
		lines := map[string]int{} // of each id
		read(in, limit, func(r record, err error) bool {
			var located Located
			if err == nil {
				located, err = r.item(lines)
			}
			for _, one := range cli.Unjoin(err) {
				if syntaxErr, ok := errors.AsType[*SyntaxError](one); ok {
					syntaxErr.File, syntaxErr.Line = name, cmp.Or(syntaxErr.Line, r.line)
				} else {
					one = fmt.Errorf("reading %s: %w", name, one)
				}
				if !yield(Located{}, one) {
					return false
				}
			}
			located.File, located.Line = name, r.line
			return err != nil || yield(located, nil)
		})
	}
}

// recordReader passes the records of a file to yield, or the error of a record that cannot be read,
// until yield returns false. An error that is not a *SyntaxError is the last.
type recordReader func(in *bufio.Reader, limit int, yield func(record, error) bool)

// record is an item as it stands in a file: the values of its keys, and further metadata.
type record struct {
	line             int // where it begins
	values, metadata map[string]json.RawMessage
}

// item decodes the record. It refuses an id that another line has, and adds its own to lines.
func (r record) item(lines map[string]int) (Located, error) {
	located, err := decodeItem(r.values, r.metadata)
	if err != nil {
		return located, err
	}
	first, duplicate := lines[located.ID]
	switch {
	case duplicate && located.DerivedID:
		return located, problem("", "has the same input as line %d and no id: a row or line is a whole item; "+
			"give both an id", first)
	case duplicate:
		return located, problem(fieldID, "%q is the id of line %d already: a row or line is a whole item", located.ID, first)
	}
	lines[located.ID] = r.line
	return located, nil
}

// problem returns a problem with a value of an item, or with all of it. readItems adds file and line.
func problem(path field, format string, args ...any) error {
	return &SyntaxError{Path: string(path), Msg: fmt.Sprintf(format, args...)}
}

// problemAt returns a problem at a line, which need not be that where its item begins.
func problemAt(line int, format string, args ...any) error {
	return &SyntaxError{Line: line, Msg: fmt.Sprintf(format, args...)}
}

// readObject reads a JSON item that begins at a line.
func readObject(raw []byte, line int) (record, error) {
	r, repeated := record{line, map[string]json.RawMessage{}, map[string]json.RawMessage{}}, ""
	if offset := invalidUTF8(raw); offset >= 0 {
		return r, problemAt(line+bytes.Count(raw[:offset], []byte("\n")),
			"byte 0x%02x is not valid UTF-8; convert the file to UTF-8", raw[offset])
	}
	if !textutil.ReadJSONObject(bytes.Clone(raw), func(key []byte, value json.RawMessage) bool {
		name := textutil.JSONText(key)
		if r.values[name] != nil {
			repeated = name
		}
		r.values[name] = value
		return true
	}) {
		return r, notAnObject(raw, line, json.Unmarshal(raw, &r.values), "")
	}
	if repeated != "" {
		return r, problem("", "the key %q is given twice", repeated)
	}
	return r, nil
}

// notAnObject describes a text that is not a JSON object. If it is not JSON at all, it adds a hint.
func notAnObject(raw []byte, line int, err error, hint string) error {
	if syntaxErr, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := raw[:min(int(syntaxErr.Offset), len(raw))]
		column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
		return problemAt(line+bytes.Count(before, []byte("\n")), "is not JSON: %v (column %d)%s", syntaxErr, column, hint)
	}
	return problem("", "expected an object such as {\"id\":…,\"input\":…,\"expectedOutput\":…}")
}

func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i, r := range string(b) {
		if r == utf8.RuneError && !bytes.HasPrefix(b[i:], []byte("\uFFFD")) {
			return i
		}
	}
	return -1
}

// SyntaxError describes a part of a file of items that cannot be used.
type SyntaxError struct {
	File string
	Line int    // from 1; 0 for the whole file
	Path string // of the value ("expectedOutput.entities[2].name"); may be empty
	Msg  string
}

// Error returns file, line, path and message: "x.jsonl: line 7: input: …".
func (e *SyntaxError) Error() string {
	text := e.File
	if e.Line > 0 {
		text += fmt.Sprintf(": line %d", e.Line)
	}
	if e.Path != "" {
		text += ": " + e.Path
	}
	return text + ": " + e.Msg
}

// ExitCode returns 64, for malformed input.
func (e *SyntaxError) ExitCode() int { return cli.ExitUsage }

// maxProblems is the number of problems that Problems keeps.
const maxProblems = 100

// Problems collects the problems of a file, so that they can be shown at once. It keeps the
// first hundred and counts the rest. The zero value is ready to use.
type Problems struct {
	kept    []error
	dropped int
}

// Add adds a problem; nil is ignored.
func (p *Problems) Add(err error) {
	switch {
	case err == nil:
	case len(p.kept) < maxProblems:
		p.kept = append(p.kept, err)
	default:
		p.dropped++
	}
}

// Len returns the number of problems, including those not kept.
func (p *Problems) Len() int { return len(p.kept) + p.dropped }

// Err returns nil if there were no problems, or else an error that lists them one per line and
// has the exit code 64 of malformed input.
func (p *Problems) Err() error {
	if p.Len() == 0 {
		return nil
	}
	all := slices.Clone(p.kept)
	if p.dropped > 0 {
		all = append(all, fmt.Errorf("and %d more problems", p.dropped))
	}
	return &cli.Error{Code: cli.ExitUsage, Err: errors.Join(all...)}
}
