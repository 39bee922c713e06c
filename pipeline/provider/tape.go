package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Tape is a cassette that is being recorded. It is safe for concurrent use, but only one
// process may write it.
type Tape struct {
	path   string
	source Recording

	mu   sync.Mutex
	file *os.File
	// calls holds the calls of earlier processes, and nil for a request of this one.
	calls map[callID]*linePosition
	// next holds the first number that may be free, for requests of the trial n.
	next map[callID]int
	err  error // the first error of writing; nothing is written after it
}

// callID identifies a call: the n-th of equal requests, from 1.
type callID struct {
	key string
	n   int
}

// CreateTape creates a cassette, a new file that only its owner may read. An existing file is
// refused with exit code 64, so that a paid recording is not overwritten. Exit code 74 means
// that the file cannot be written. The caller must close the tape.
func CreateTape(path string, source Recording) (*Tape, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, fileError(path, 0, errors.New("it already exists and is not overwritten: give another name or remove it"))
	}
	if err != nil {
		return nil, writeError(path, err)
	}
	tape := &Tape{path: path, source: source, file: file, calls: map[callID]*linePosition{}, next: map[callID]int{}}
	if err := tape.write(tapeHeader{Cassette: tapeVersion, Recording: source}); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return tape, nil
}

// ContinueTape continues a cassette of the same source when a run is resumed. It removes an
// incomplete last line of a killed recording; any other damage, and another source, is an error
// of exit code 64. The caller must close the tape.
func ContinueTape(path string, source Recording) (*Tape, error) {
	file, err := openRegular(path, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil, err
	}
	index, err := scanTape(file, path, maxLine)
	if err == nil && index.source != source {
		err = fileError(path, 0, fmt.Errorf("it holds %s/%s and not %s/%s: record into another file",
			index.source.Provider, index.source.Model, source.Provider, source.Model))
	}
	if err == nil {
		writeErr := file.Truncate(index.end)
		if writeErr == nil && !index.newline {
			_, writeErr = file.WriteString("\n")
		}
		if writeErr != nil {
			err = writeError(path, writeErr)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	tape := &Tape{path: path, source: source, file: file, calls: map[callID]*linePosition{}, next: map[callID]int{}}
	for key, answers := range index.answers {
		for i, at := range answers {
			tape.calls[callID{key, at.n}] = &answers[i]
		}
	}
	return tape, nil
}

// Close finishes the cassette. It also returns the first error of writing, so that an
// incomplete recording is noticed.
func (t *Tape) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := errors.Join(t.file.Sync(), t.file.Close())
	if t.err == nil && err != nil {
		t.err = writeError(t.path, err)
	}
	return t.err
}

// begin numbers a request, by its trial and past other equal requests, and returns its line. That has
// the answer if an earlier process got one: no outcome has it, or it would not be asked for again.
// begin fails if the cassette cannot be written, so that no unrecorded request is paid for.
func (t *Tape) begin(req pipeline.Request, trial pipeline.Trial) (recordedCall, error) {
	text, key, err := canonical(t.source.Model, req)
	if err != nil {
		return recordedCall{}, writeError(t.path, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return recordedCall{}, t.err
	}
	first := callID{key, trial.Number}
	id := callID{key, max(trial.Number, t.next[first])}
	at, exists := t.calls[id]
	for ; exists && (at == nil || trial.SkipCache); at, exists = t.calls[id] {
		id.n++
	}
	t.calls[id] = nil
	if !trial.SkipCache { // which leaves recorded answers for others
		t.next[first] = id.n + 1
	}
	if at != nil && !at.failed {
		return readCall(t.path, *at, key)
	}
	return recordedCall{Key: key, N: id.n, Request: text}, nil
}

// write appends a value as a line, in one write. ContinueTape removes a line that was written in part.
func (t *Tape) write(value any) error {
	line, err := textutil.MarshalJSON(value)
	if err == nil && len(line) >= maxLine {
		err = fmt.Errorf("an exchange of %d bytes is longer than a cassette holds", len(line))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && err == nil {
		_, err = t.file.Write(append(line, '\n'))
	}
	if t.err == nil && err != nil {
		t.err = stoppingError{writeError(t.path, err)}
	}
	return t.err
}

// Recording identifies the recorded model.
type Recording struct {
	Provider string `json:"provider"` // "openai"
	Model    string `json:"model"`    // the requested name
}

// tapeVersion is the version of the format.
const tapeVersion = 1

// tapeHeader is the first line of a cassette.
type tapeHeader struct {
	Cassette int `json:"cassette"`
	Recording
}

// keyedRequest is the JSON that a key is computed from.
type keyedRequest struct {
	Model string `json:"model"`
	pipeline.Request
}

// requestKey returns the SHA-256 of a request as written.
func requestKey(request []byte) string { return fmt.Sprintf("%x", sha256.Sum256(request)) }

// recordedCall is any other line. At least one of Response and Error is set.
type recordedCall struct {
	Key      string             `json:"key"`
	N        int                `json:"n"` // from 1, among equal requests; the last line of a number counts
	Request  json.RawMessage    `json:"request"`
	Response *pipeline.Response `json:"response,omitempty"`
	Error    *recordedError     `json:"error,omitempty"`
}

// canonical returns a request as written, and its key. The request is compact JSON with the
// fields in the order of the types and the order of keys of the schema, because a model sees
// that order. Bytes that are not UTF-8 are written as \ufffd.
func canonical(model string, req pipeline.Request) (text json.RawMessage, key string, err error) {
	text, err = textutil.MarshalJSON(keyedRequest{model, req})
	if err != nil {
		return nil, "", fmt.Errorf("writing the request as JSON: %w", err)
	}
	return text, requestKey(text), nil
}

// decodeCall reads the line of a call and checks it: the key must be that of the request in the
// line. A call to another model is never found, because the key depends on the model.
func decodeCall(line []byte) (x recordedCall, err error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&x); err != nil {
		return x, fmt.Errorf("this is not an exchange: %w", err)
	}
	switch {
	case dec.More():
		return x, errors.New("something follows the exchange")
	case x.Key != requestKey(x.Request):
		return x, errors.New("the key is not that of the request: one of them was changed")
	case x.N < 1 || x.Response == nil && x.Error == nil || x.Error != nil && x.Error.Class == outcome.OK:
		return x, errors.New("it has no number from 1, no response or error, or an error without a class")
	}
	return x, nil
}

const (
	// maxLine is the longest line, in bytes: more than the longest request and answer, with their escapes.
	maxLine = 1 << 30
	// maxHeader is more than the first line has, in bytes.
	maxHeader = 64 << 10
)

// linePosition is the place of a call in a cassette.
type linePosition struct {
	n, line int
	offset  int64 // in bytes
	length  int
	failed  bool // the call has an error
}

// tapeIndex holds the positions of all calls of a cassette.
type tapeIndex struct {
	source  Recording
	answers map[string][]linePosition // by key, ordered by n
	// end is the offset after the last good line, and newline whether that line has a line
	// feed.
	end     int64
	newline bool
	// truncated is set if the last line is incomplete, as after a killed recording.
	truncated error
}

// scanTape reads and checks a cassette line by line, with one line of at most limit bytes in
// memory. Empty lines are skipped. An error has exit code 64.
func scanTape(r io.Reader, path string, limit int) (*tapeIndex, error) {
	x := &tapeIndex{answers: map[string][]linePosition{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, limit)
	lines.Split(x.splitLine)
	number := 1
	for ; lines.Scan(); number++ {
		line := lines.Bytes()
		x.newline = bytes.HasSuffix(line, []byte("\n"))
		if problem := x.add(bytes.TrimRight(line, "\r\n"), number); problem != nil {
			problem = fileError(path, number, problem)
			if x.newline || number == 1 {
				return nil, problem
			}
			x.truncated, x.newline = problem, true // the line before has one
			break
		}
		x.end += int64(len(line))
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fileError(path, number, fmt.Errorf("it is longer than %d bytes, which no exchange is", limit))
	case err != nil:
		return nil, fileError(path, number, err)
	}
	if x.end == 0 {
		return nil, fileError(path, 0, errors.New("it is empty: nothing was recorded"))
	}
	return x, nil
}

// add adds one line. Of the lines of one number, the last counts: the request was asked again.
func (x *tapeIndex) add(line []byte, number int) error {
	var first tapeHeader
	switch {
	case number == 1 && (json.Unmarshal(line, &first) != nil || first.Cassette == 0 || first.Model == ""):
		return errors.New(`this is not a cassette: its first line must be such as {"cassette":1,"provider":"openai","model":"gpt-4o"}`)
	case number == 1 && first.Cassette != tapeVersion:
		return fmt.Errorf("the format is version %d, this program knows version %d: record again", first.Cassette,
			tapeVersion)
	case number == 1:
		x.source = first.Recording
		return nil
	case len(bytes.TrimSpace(line)) == 0:
		return nil
	}
	call, err := decodeCall(line)
	if err != nil {
		return err
	}
	position := linePosition{call.N, number, x.end, len(line), call.Error != nil}
	answers := x.answers[call.Key]
	i, again := slices.BinarySearchFunc(answers, call.N, func(p linePosition, n int) int { return cmp.Compare(p.n, n) })
	if again {
		answers[i] = position
	} else {
		x.answers[call.Key] = slices.Insert(answers, i, position)
	}
	return nil
}

// splitLine is bufio.ScanLines, except that it keeps the line feed, and cuts a first line that is too long
// for a header, so that a large file of another kind does not fill the memory.
func (x *tapeIndex) splitLine(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if end := 1 + bytes.IndexByte(data, '\n'); end > 0 {
		return end, data[:end], nil
	}
	if atEOF && len(data) > 0 || x.end == 0 && len(data) > maxHeader {
		return len(data), data, nil
	}
	return 0, nil, nil
}
