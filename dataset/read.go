package dataset

import (
	"bufio"
	"bytes"
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
		d := &decoder{name: name, limit: limit, seen: map[string]int{}, yield: yield}
		in := bufio.NewReaderSize(r, 64<<10)
		// The byte order mark of UTF-8 is no part of an item. An error is repeated by later reads.
		if mark, _ := in.Peek(3); bytes.HasPrefix(mark, []byte("\xef\xbb\xbf")) {
			_, _ = in.Discard(3)
		}
		switch format {
		case JSONL:
			d.jsonl(in)
		case JSON:
			d.json(in)
		case CSV:
			d.csv(in)
		default:
			yield(Located{}, unknownFormat(string(format)))
		}
	}
}

// decoder decodes the items of one file.
type decoder struct {
	name  string
	limit int            // maximum size of an item in bytes
	seen  map[string]int // line of each id
	yield func(Located, error) bool
}

func (d *decoder) problem(line int, path, format string, args ...any) *SyntaxError {
	return &SyntaxError{File: d.name, Line: line, Path: path, Msg: fmt.Sprintf(format, args...)}
}

// fail yields each error that err joins, and reports whether to continue. Problems inside an
// item get their file and line here.
func (d *decoder) fail(line int, err error) bool {
	for _, problem := range cli.Unjoin(err) {
		if syntaxErr, ok := errors.AsType[*SyntaxError](problem); ok && syntaxErr.Line == 0 {
			syntaxErr.File, syntaxErr.Line = d.name, line
		}
		if !d.yield(Located{}, problem) {
			return false
		}
	}
	return true
}

// object decodes a JSON item that begins at a line.
func (d *decoder) object(raw []byte, line int) bool {
	if offset := invalidUTF8(raw); offset >= 0 {
		badLine := line + bytes.Count(raw[:offset], []byte("\n"))
		return d.fail(line, d.problem(badLine, "", "byte 0x%02x is not valid UTF-8; convert the file to UTF-8", raw[offset]))
	}
	values, repeated := map[string]json.RawMessage{}, ""
	if !textutil.ReadJSONObject(bytes.Clone(raw), func(key []byte, value json.RawMessage) bool {
		name := textutil.JSONText(key)
		if values[name] != nil {
			repeated = name
		}
		values[name] = value
		return true
	}) {
		return d.fail(line, d.notAnObject(raw, line, json.Unmarshal(raw, &values)))
	}
	if repeated != "" {
		return d.fail(line, d.problem(line, "", "the key %q is given twice", repeated))
	}
	return d.values(values, map[string]json.RawMessage{}, line)
}

// values decodes an item, adds its place, and refuses a duplicate id.
func (d *decoder) values(values, metadata map[string]json.RawMessage, line int) bool {
	located, err := decodeItem(values, metadata)
	if err != nil {
		return d.fail(line, err)
	}
	located.File, located.Line = d.name, line
	if first, duplicate := d.seen[located.ID]; duplicate {
		if located.DerivedID {
			return d.fail(line, d.problem(line, "", "has the same input as line %d and no id: "+
				"a row or line is a whole item; give both an id", first))
		}
		return d.fail(line, d.problem(line, "id", "%q is the id of line %d already: a row or line is a whole item", located.ID, first))
	}
	d.seen[located.ID] = line
	return d.yield(located, nil)
}

func (d *decoder) notAnObject(raw []byte, line int, err error) *SyntaxError {
	if syntaxErr, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := raw[:min(int(syntaxErr.Offset), len(raw))]
		badLine := line + bytes.Count(before, []byte("\n"))
		column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
		return d.problem(badLine, "", "is not JSON: %v (column %d)", syntaxErr, column)
	}
	return d.problem(line, "", "expected an object such as {\"id\":…,\"input\":…,\"expectedOutput\":…}")
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
