package answers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"extraction-experiment/dataset"
)

// The limits of a file of questions.
const (
	MaxLine      = 1 << 20 // bytes
	MaxQuestions = 100_000
)

// Read reads questions from JSONL, one object per line; blank lines are
// skipped, a byte order mark and CRLF are tolerated. name stands for the file
// in messages.
//
// A row needs a text id and a text question. A duplicate id, a field of the
// wrong type, a key that is no field, a weight that is negative or no number, and
// a file without any question are errors: all of them are returned at once, each
// a *dataset.SyntaxError with its line (exit code 64). Warnings name terms that
// can never be found, and weights of 0.
func Read(r io.Reader, name string) (questions []Question, warnings []string, err error) {
	reader := &reader{name: name, lines: map[string]int{}}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 0, 64<<10), MaxLine)
	line := 0
	for scanner.Scan() {
		line++
		raw := scanner.Bytes()
		if line == 1 {
			raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
		}
		if len(bytes.TrimSpace(raw)) > 0 {
			reader.row(line, raw)
		}
		if len(reader.questions) > MaxQuestions {
			reader.fail(line, "", "there are more than %d questions", MaxQuestions)
			break
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		reader.fail(line+1, "", "the line is longer than %d bytes", MaxLine)
	case err != nil:
		return nil, nil, fmt.Errorf("reading %s: line %d: %w", name, line+1, err)
	case reader.problems.Len() == 0 && len(reader.questions) == 0:
		reader.fail(0, "", `there is no question in it; a line is an object such as {"id":"q001","question":"…","must_include":["2023"]}`)
	}
	if err := reader.problems.Err(); err != nil {
		return nil, nil, err
	}
	return reader.questions, reader.warnings, nil
}

type reader struct {
	name      string
	lines     map[string]int // of each id
	questions []Question
	warnings  []string
	problems  dataset.Problems
}

func (r *reader) fail(line int, path, format string, args ...any) {
	r.problems.Add(&dataset.SyntaxError{File: r.name, Line: line, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// row reads one line.
func (r *reader) row(line int, raw []byte) {
	if !utf8.Valid(raw) {
		r.fail(line, "", "is not valid UTF-8")
		return
	}
	values, err := readObject(raw)
	if err != nil {
		r.fail(line, "", "is no JSON object: %v", err)
		return
	}
	q := Question{}
	before := r.problems.Len()
	q.ID = r.text(line, values, "id")
	q.Question = r.text(line, values, "question")
	for _, p := range q.Expected.read(values, "id", "question") {
		r.fail(line, p.field, "%s", p.msg)
	}
	if first, taken := r.lines[q.ID]; taken && q.ID != "" {
		r.fail(line, "id", "%q is the id of line %d already", q.ID, first)
	}
	if r.problems.Len() > before {
		return
	}
	r.lines[q.ID] = line
	for _, text := range q.Odd() {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: line %d: %s", r.name, line, text))
	}
	r.questions = append(r.questions, q)
}

// text reads a text that must be there.
func (r *reader) text(line int, values map[string]json.RawMessage, field string) string {
	raw, ok := values[field]
	var text string
	switch {
	case !ok:
		r.fail(line, field, "is missing")
	case json.Unmarshal(raw, &text) != nil || bytes.Equal(raw, []byte("null")):
		r.fail(line, field, "expected a text, found %s", excerpt(string(raw), 60))
	case strings.TrimSpace(text) == "":
		r.fail(line, field, "is empty")
	}
	return text
}
