package recorded

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"extraction-experiment/pipeline"
)

// Tape is a cassette that is being recorded. It is safe for concurrent use;
// only one process may write it.
type Tape struct {
	path   string
	source Source

	mu    sync.Mutex
	file  *os.File
	size  int64       // bytes in whole lines
	asked map[key]int // how often each request was begun
	err   error       // the first error of writing: nothing is written after it
}

// Create begins a cassette, a new file that only its owner may read. A file
// that exists is refused with exit code 64: a recording that somebody paid for
// is not overwritten. Exit code 74 if it cannot be written. Close it.
func Create(path string, source Source) (*Tape, error) {
	if source.Model == "" {
		return nil, errors.New("recording: the model's name is missing")
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, &FileError{Path: path, Err: errors.New("it exists already and is not overwritten: give another name or remove it")}
	}
	if err != nil {
		return nil, &WriteError{Path: path, Err: err}
	}
	tape := &Tape{path: path, source: source, file: file, asked: map[key]int{}}
	if err := tape.write(header{Cassette: version, Source: source}); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return tape, nil
}

// Continue goes on with a cassette of the same source, as the resumption of a
// run does. A last line that a killed recording left unfinished is removed; any
// other damage, and another source, is a *FileError. Close it.
func Continue(path string, source Source) (*Tape, error) {
	file, err := openRegular(path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	tape, err := resume(path, source, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return tape, nil
}

func resume(path string, source Source, file *os.File) (*Tape, error) {
	found, err := scan(file, path, maxLine)
	if err != nil {
		return nil, err
	}
	if found.source != source {
		return nil, &FileError{Path: path, Err: fmt.Errorf("it holds %s/%s and not %s/%s: record into another file",
			found.source.Provider, found.source.Model, source.Provider, source.Model)}
	}
	tape := &Tape{path: path, source: source, file: file, size: found.end, asked: map[key]int{}}
	for sum, entries := range found.entries {
		tape.asked[sum] = entries[len(entries)-1].n
	}
	if err := file.Truncate(found.end); err != nil {
		return nil, &WriteError{Path: path, Err: err}
	}
	if !found.newline {
		if err := tape.writeLine(nil); err != nil {
			return nil, err
		}
	}
	return tape, nil
}

// Close finishes the cassette. It returns the first error of writing too, so
// that nobody takes an incomplete recording for a whole one.
func (t *Tape) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := errors.Join(t.file.Sync(), t.file.Close())
	if t.err == nil && err != nil {
		t.err = &WriteError{Path: t.path, Err: err}
	}
	return t.err
}

// begin counts a request and returns its line, without the answer. It fails if
// the cassette cannot be written any more: what is not recorded is not paid for.
func (t *Tape) begin(req pipeline.Request) (exchange, error) {
	text, sum, err := canonical(t.source.Model, req)
	if err != nil {
		return exchange{}, &WriteError{Path: t.path, Err: err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return exchange{}, t.err
	}
	t.asked[sum]++
	return exchange{Key: hex.EncodeToString(sum[:]), N: t.asked[sum], Request: json.RawMessage(text)}, nil
}

// write appends a value as a line.
func (t *Tape) write(value any) error {
	line, err := encode(value)
	if err == nil && len(line) >= maxLine {
		err = fmt.Errorf("an exchange of %d bytes is longer than a cassette holds", len(line))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	if err != nil {
		t.err = &WriteError{Path: t.path, Err: err}
		return t.err
	}
	return t.writeLine(line)
}

// writeLine appends a line with its line feed in one piece, and takes back what
// was written of one that did not fit. The caller holds mu.
func (t *Tape) writeLine(line []byte) error {
	written, err := t.file.WriteAt(append(line, '\n'), t.size)
	if err != nil {
		if written > 0 {
			err = errors.Join(err, t.file.Truncate(t.size))
		}
		t.err = &WriteError{Path: t.path, Err: err}
		return t.err
	}
	t.size += int64(written)
	return nil
}
