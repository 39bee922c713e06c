package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/wholefile"
)

// The limits of a dataset.
const (
	maxLine  = 16 << 20 // bytes
	maxCases = 100_000
)

// Options say how strictly cases are read. The zero value is usable.
type Options struct {
	// Strict also demands the grammars of caseId (slug--slug--digits--8hex)
	// and packId (YYYY-MM-DD--slug--8hex) of regression records.
	Strict bool
}

// Read reads files of cases, one JSON object a line, until ctx is done. The error has exit code 64
// and lists everything that is wrong in all of them, with file and line; ids
// must be unique over all files.
func Read(ctx context.Context, opt Options, paths ...string) ([]Case, error) {
	r := &caseReader{opt: opt, seen: map[string]string{}}
	for _, path := range paths {
		f, err := wholefile.Open(ctx, path)
		if err != nil {
			r.problems.Add(&dataset.SyntaxError{File: path, Msg: "reading the cases: " + reason(err)})
			continue
		}
		r.file(path, f)
		if err := f.Close(); err != nil {
			r.problems.Add(err)
		}
	}
	return r.result()
}

// Parse reads one text of cases; see Read. Path stands for it in messages.
func Parse(opt Options, path string, text io.Reader) ([]Case, error) {
	r := &caseReader{opt: opt, seen: map[string]string{}}
	r.file(path, text)
	return r.result()
}

// reason is why a file cannot be opened, without its name.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

type caseReader struct {
	opt      Options
	seen     map[string]string // where an id stands
	cases    []Case
	problems dataset.Problems
}

func (r *caseReader) result() ([]Case, error) {
	if err := r.problems.Err(); err != nil {
		return nil, err
	}
	if len(r.cases) == 0 {
		return nil, &dataset.SyntaxError{File: "the datasets", Msg: "there is no case in them"}
	}
	return r.cases, nil
}

func (r *caseReader) file(path string, text io.Reader) {
	in := bufio.NewScanner(text)
	in.Buffer(make([]byte, 0, 64<<10), maxLine)
	number := 0
	for in.Scan() {
		number++
		line := bytes.TrimSpace(in.Bytes())
		if number == 1 {
			line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")))
		}
		if len(line) == 0 {
			continue
		}
		r.line(path, number, bytes.Clone(line))
	}
	if err := in.Err(); err != nil {
		msg := err.Error()
		if errors.Is(err, bufio.ErrTooLong) {
			msg = fmt.Sprintf("longer than %d bytes", maxLine)
		}
		r.problems.Add(&dataset.SyntaxError{File: path, Line: number + 1, Msg: msg})
	}
}

func (r *caseReader) line(path string, number int, line []byte) {
	bad := func(format string, args ...any) {
		r.problems.Add(&dataset.SyntaxError{File: path, Line: number, Msg: fmt.Sprintf(format, args...)})
	}
	if len(r.cases) == maxCases {
		bad("there are more than %d cases", maxCases)
		return
	}
	if !utf8.Valid(line) {
		bad("it is not valid UTF-8: convert the file first")
		return
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil || fields == nil {
		bad("expected one JSON object")
		return
	}
	if key := twice(line); key != "" {
		bad("the key %s is there twice", key)
	}
	c := decodeCase(fields, r.opt, bad)
	c.File, c.Line = path, number
	if first, twice := r.seen[c.CaseID]; twice && c.CaseID != "" {
		bad("duplicate caseId %q: it is that of %s already", c.CaseID, first)
	}
	r.seen[c.CaseID] = fmt.Sprintf("%s line %d", path, number)
	r.cases = append(r.cases, c)
}
