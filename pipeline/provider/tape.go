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

// Tape is a cassette that is being recorded. It is safe for concurrent use;
// only one process may write it.
type Tape struct {
	path   string
	source Recording

	mu    sync.Mutex
	file  *os.File
	size  int64          // bytes in whole lines
	asked map[string]int // how often each request was begun
	err   error          // the first error of writing: nothing is written after it
}

// CreateTape begins a cassette, a new file that only its owner may read. A file
// that exists is refused with exit code 64: a recording that somebody paid for
// is not overwritten. Exit code 74 if it cannot be written. Close it.
func CreateTape(path string, source Recording) (*Tape, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, fileError(path, 0, errors.New("it already exists and is not overwritten: give another name or remove it"))
	}
	if err != nil {
		return nil, writeError(path, err)
	}
	tape := &Tape{path: path, source: source, file: file, asked: map[string]int{}}
	if err := tape.write(firstLine{Cassette: version, Recording: source}); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return tape, nil
}

// ContinueTape continues with a cassette of the same source, as the resumption of a
// run does. A last line that a killed recording left unfinished is removed; any
// other damage, and another source, is an error of exit code 64. Close it.
func ContinueTape(path string, source Recording) (tape *Tape, err error) {
	file, err := openRegular(path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	found, err := scan(file, path, maxLine)
	if err != nil {
		return nil, err
	}
	if found.source != source {
		return nil, fileError(path, 0, fmt.Errorf("it holds %s/%s and not %s/%s: record into another file",
			found.source.Provider, found.source.Model, source.Provider, source.Model))
	}
	tape = &Tape{path: path, source: source, file: file, size: found.end, asked: map[string]int{}}
	for key, answers := range found.answers {
		tape.asked[key] = answers[len(answers)-1].n
	}
	if err := file.Truncate(found.end); err != nil {
		return nil, writeError(path, err)
	}
	if !found.newline {
		tape.writeLine(nil)
	}
	return tape, tape.err
}

// Close finishes the cassette. It returns the first error of writing too, so
// that nobody takes an incomplete recording for a whole one.
func (t *Tape) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := errors.Join(t.file.Sync(), t.file.Close())
	if t.err == nil && err != nil {
		t.err = writeError(t.path, err)
	}
	return t.err
}

// begin counts a request and returns its line, without the answer. It fails if
// the cassette cannot be written any more: what is not recorded is not paid for.
func (t *Tape) begin(req pipeline.Request) (recordedCall, error) {
	text, key, err := canonical(t.source.Model, req)
	if err != nil {
		return recordedCall{}, writeError(t.path, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return recordedCall{}, t.err
	}
	t.asked[key]++
	return recordedCall{Key: key, N: t.asked[key], Request: text}, nil
}

// write appends a value as a line.
func (t *Tape) write(value any) error {
	line, err := textutil.MarshalJSON(value)
	if err == nil && len(line) >= maxLine {
		err = fmt.Errorf("an exchange of %d bytes is longer than a cassette holds", len(line))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.err != nil:
	case err != nil:
		t.err = writeError(t.path, err)
	default:
		t.writeLine(line)
	}
	return t.err
}

// writeLine appends a line with its line feed in one piece, and takes back what
// was written of one that did not fit. The caller holds mu.
func (t *Tape) writeLine(line []byte) {
	written, err := t.file.WriteAt(append(line, '\n'), t.size)
	if err != nil {
		t.err = writeError(t.path, errors.Join(err, t.file.Truncate(t.size)))
		return
	}
	t.size += int64(written)
}

// Recording is what was recorded: one model of one provider.
type Recording struct {
	Provider string `json:"provider"` // "openai"
	Model    string `json:"model"`    // as it was asked for
}

// version is that of the format.
const version = 1

// firstLine is that of a cassette.
type firstLine struct {
	Cassette int `json:"cassette"`
	Recording
}

// request is what a key stands for.
type request struct {
	Model string `json:"model"`
	pipeline.Request
}

// keyOf is the SHA-256 of a request as it is written.
func keyOf(request []byte) string { return fmt.Sprintf("%x", sha256.Sum256(request)) }

// recordedCall is any other line. At least one of Response and Error is set.
type recordedCall struct {
	Key      string             `json:"key"`
	N        int                `json:"n"` // from 1, among equal requests
	Request  json.RawMessage    `json:"request"`
	Response *pipeline.Response `json:"response,omitempty"`
	Error    *failure           `json:"error,omitempty"`
}

// canonical returns a request as it is written, and its key: compact JSON with
// the fields in the order above and the schema's own order, because that order
// is part of what a model sees. Bytes that are not UTF-8 are written as \ufffd.
func canonical(model string, req pipeline.Request) (text json.RawMessage, key string, err error) {
	text, err = textutil.MarshalJSON(request{model, req})
	if err != nil {
		return nil, "", fmt.Errorf("writing the request as JSON: %w", err)
	}
	return text, keyOf(text), nil
}

// decode reads the line of an exchange with model and checks that it is whole:
// the key must be that of the request as it is in the line.
func decode(line []byte, model string) (x recordedCall, err error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&x); err != nil {
		return x, fmt.Errorf("this is not an exchange: %w", err)
	}
	if of, _ := json.Marshal(model); !bytes.HasPrefix(x.Request, fmt.Appendf(nil, `{"model":%s,`, of)) { // else it is another one, or written otherwise
		var asked struct {
			Model string `json:"model"`
		}
		if err := json.Unmarshal(x.Request, &asked); err != nil {
			return x, fmt.Errorf("the request cannot be read: %w", err)
		}
		if asked.Model != model {
			return x, fmt.Errorf("the request is for the model %.60q and the cassette for %.60q", asked.Model, model)
		}
	}
	switch {
	case dec.More():
		return x, errors.New("something follows the exchange")
	case x.Key != keyOf(x.Request):
		return x, errors.New("the key is not that of the request: one of them was changed")
	case x.N < 1 || x.Response == nil && x.Error == nil || x.Error != nil && x.Error.Class == outcome.OK:
		return x, errors.New("it has no number from 1, no response or error, or an error without a class")
	}
	return x, nil
}

// maxLine bounds one exchange, in bytes.
const maxLine = 64 << 20

// lineAt is where an exchange is in a cassette.
type lineAt struct {
	n, line int
	offset  int64 // in bytes
	length  int
}

// recorded is what a cassette holds: where each exchange stands.
type recorded struct {
	source  Recording
	answers map[string][]lineAt // by the key, ordered by n
	// end is the offset after the last good line, and newline whether a line
	// feed precedes it.
	end     int64
	newline bool
	// cut is set if the file ends within a line that cannot be read, as a
	// recording that was killed leaves it.
	cut error
}

// scan reads and checks a cassette line by line, with one line of at most limit bytes
// in memory. Empty lines are passed over. An error has exit code 64.
func scan(r io.Reader, path string, limit int) (*recorded, error) {
	x := &recorded{answers: map[string][]lineAt{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, limit)
	lines.Split(keepLineFeed)
	number := 1
	for ; lines.Scan(); number++ {
		line := lines.Bytes()
		x.newline = bytes.HasSuffix(line, []byte("\n"))
		if problem := x.add(bytes.TrimRight(line, "\r\n"), number); problem != nil {
			problem = fileError(path, number, problem)
			if x.newline || number == 1 {
				return nil, problem
			}
			x.cut, x.newline = problem, true // of the line before
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
	for _, answers := range x.answers {
		slices.SortStableFunc(answers, func(a, b lineAt) int { return cmp.Compare(a.n, b.n) })
	}
	return x, nil
}

// add takes in one line.
func (x *recorded) add(line []byte, number int) error {
	var first firstLine
	switch {
	case number == 1 && (json.Unmarshal(line, &first) != nil || first.Cassette == 0 || first.Model == ""):
		return errors.New(`this is not a cassette: its first line must be such as {"cassette":1,"provider":"openai","model":"gpt-4o"}`)
	case number == 1 && first.Cassette != version:
		return fmt.Errorf("the format is version %d, this program knows version %d: record again", first.Cassette, version)
	case number == 1:
		x.source = first.Recording
		return nil
	case len(bytes.TrimSpace(line)) == 0:
		return nil
	}
	found, err := decode(line, x.source.Model)
	if err != nil {
		return err
	}
	x.answers[found.Key] = append(x.answers[found.Key], lineAt{found.N, number, x.end, len(line)})
	return nil
}

// keepLineFeed is bufio.ScanLines, but for the line feed, which stays.
func keepLineFeed(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if end := 1 + bytes.IndexByte(data, '\n'); end > 0 {
		return end, data[:end], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
