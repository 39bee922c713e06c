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
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
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

// FormatOf derives the format from the extension of a file name: .jsonl or .ndjson, .json,
// .csv, in upper or lower case. The error names what is accepted.
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

// MaxItem is the size, in bytes, above which an item (a line, a list element, a
// row) is refused.
const MaxItem = 64 << 20

// ReadFile reads the items of a file; its name tells the format. The file is
// open only while the sequence is consumed, and can be read again, if it is not a pipe.
// Devices are refused; reading stops when ctx is done.
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
		defer f.Close() // only read: nothing can be lost
		Read(f, format, path)(yield)
	}
}

// Read reads items one by one; name stands for the file in problems. The
// sequence can be consumed once.
//
// Keys of an item: id, input, expectedOutput (expected_output, expected),
// metadata, sourceTraceId, sourceObservationId (also in snake case);
// document_text in place of input makes an input of that text alone; what
// Langfuse adds (status, createdAt, …) is ignored. Any other key is put into
// the metadata under its own name and named in a warning. A missing id is
// derived from the input (DeriveID). A null value counts as absent.
//
// JSONL: one object per line; blank lines are skipped. JSON: a list of such
// objects, or an object with the list under "items". CSV: a header row with
// the same names in any case; input, expected output and metadata hold JSON;
// metadata.NAME and unknown columns hold text that becomes a string in the
// metadata; an empty cell is absent; "\r\n" inside a cell becomes "\n".
//
// A byte order mark and CRLF are tolerated. One item is in memory at a time, of JSON the
// file of at most 256 MiB, beside the ids, for finding duplicates.
//
// An error is a *SyntaxError with file and line; reading goes on after it
// wherever the next item can be found, so that all problems can be listed (see
// Problems); in a JSON list it cannot, after what is not JSON. After any other error
// (of the reader), and an item above MaxItem, the sequence ends.
func Read(r io.Reader, format Format, name string) iter.Seq2[Located, error] {
	return readItems(r, format, name, MaxItem)
}

// readItems is Read with another limit for the size of an item.
func readItems(r io.Reader, format Format, name string, limit int) iter.Seq2[Located, error] {
	return func(yield func(Located, error) bool) {
		d := &decoder{name: name, limit: limit, seen: map[string]int{}, yield: yield}
		in := bufio.NewReaderSize(r, 64<<10)
		if err := d.skipMark(in); err != nil {
			d.fail(0, err)
			return
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

// decoder turns the raw items of one file into located ones.
type decoder struct {
	name  string
	limit int            // bytes of an item
	seen  map[string]int // line of each id
	yield func(Located, error) bool
}

// skipMark passes over the byte order mark of UTF-8 and refuses those of
// UTF-16.
func (d *decoder) skipMark(in *bufio.Reader) error {
	mark, err := in.Peek(3)
	if err != nil && err != io.EOF {
		return fmt.Errorf("reading %s: %w", d.name, err)
	}
	switch {
	case bytes.HasPrefix(mark, []byte("\xef\xbb\xbf")):
		_, err = in.Discard(3)
		return err
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")):
		return d.problem(1, "", "is UTF-16; convert the file to UTF-8")
	}
	return nil
}

func (d *decoder) problem(line int, path, format string, args ...any) *SyntaxError {
	return &SyntaxError{File: d.name, Line: line, Path: path, Msg: fmt.Sprintf(format, args...)}
}

// fail yields an error and tells whether to go on. Problems inside an item get
// their file and line here; one item with several problems yields several.
func (d *decoder) fail(line int, err error) bool {
	for _, one := range cli.Separate(err) {
		if inner, ok := errors.AsType[*SyntaxError](one); ok && inner.Line == 0 {
			inner.File, inner.Line = d.name, line
		}
		if !d.yield(Located{}, one) {
			return false
		}
	}
	return true
}

// object decodes one raw JSON item that begins at a line.
func (d *decoder) object(raw []byte, line int) bool {
	if at := invalidUTF8(raw); at >= 0 {
		bad := line + bytes.Count(raw[:at], []byte("\n"))
		return d.fail(line, d.problem(bad, "", "byte 0x%02x is not valid UTF-8; convert the file to UTF-8", raw[at]))
	}
	values := map[string]json.RawMessage{}
	if !textutil.ReadJSONObject(bytes.Clone(raw), func(key []byte, value json.RawMessage) bool {
		values[textutil.JSONText(key)] = value
		return true
	}) {
		return d.fail(line, d.notAnObject(raw, line, json.Unmarshal(raw, &values)))
	}
	return d.values(values, map[string]json.RawMessage{}, line)
}

// values finishes an item: identity, duplicates, place.
func (d *decoder) values(values, metadata map[string]json.RawMessage, line int) bool {
	located, err := decodeItem(values, metadata)
	if err != nil {
		return d.fail(line, err)
	}
	located.File, located.Line = d.name, line
	if first, taken := d.seen[located.ID]; taken {
		if located.DerivedID {
			return d.fail(line, d.problem(line, "", "has the same input as line %d and no id: give both an id", first))
		}
		return d.fail(line, d.problem(line, "id", "%q is the id of line %d already", located.ID, first))
	}
	d.seen[located.ID] = line
	return d.yield(located, nil)
}

func (d *decoder) notAnObject(raw []byte, line int, err error) *SyntaxError {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := raw[:min(int(syntax.Offset), len(raw))]
		bad := line + bytes.Count(before, []byte("\n"))
		column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
		return d.problem(bad, "", "is not JSON: %v (column %d)", syntax, column)
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

// SyntaxError is a part of a file of items that cannot be used.
type SyntaxError struct {
	File string
	Line int    // from 1; 0 when the whole file is meant
	Path string // which value ("expectedOutput.entities[2].name"); may be empty
	Msg  string
}

// Error gives file, line, path and message: "x.jsonl: line 7: input: …".
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

// ExitCode is that of malformed input.
func (e *SyntaxError) ExitCode() int { return 64 }

// maxProblems bounds how many problems are kept of one file.
const maxProblems = 100

// Problems collects what is wrong with a file, so that a person sees all problems at once;
// the first hundred are kept, and the rest is counted. The zero value is ready to use.
type Problems struct {
	kept []error
	more int
}

// Add takes one more problem; nil is ignored.
func (p *Problems) Add(err error) {
	switch {
	case err == nil:
	case len(p.kept) < maxProblems:
		p.kept = append(p.kept, err)
	default:
		p.more++
	}
}

// Len returns how many problems there were, kept or not.
func (p *Problems) Len() int { return len(p.kept) + p.more }

// Err returns nil when there were none, else an error that lists them one per
// line and has the exit code of malformed input.
func (p *Problems) Err() error {
	if p.Len() == 0 {
		return nil
	}
	all := append([]error(nil), p.kept...)
	if p.more > 0 {
		all = append(all, fmt.Errorf("and %d more problems", p.more))
	}
	return &cli.Error{Code: cli.ExitUsage, Err: errors.Join(all...)}
}
