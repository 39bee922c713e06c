package recorded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"unicode/utf8"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Name is what this provider is called.
const Name = "recorded"

// Model answers from a cassette.
type Model struct {
	path  string
	file  *os.File
	index *index

	mu    sync.Mutex
	asked map[key]int
}

// Open reads a cassette through once and checks every line of it; later only
// the lines that are asked for are read. A file that is not there, is no
// cassette, or has a damaged line is a *FileError (exit code 64) that names the
// line. Close the model.
func Open(path string) (*Model, error) {
	file, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	found, err := scan(file, path, maxLine)
	if err == nil && found.cut != nil {
		err = fmt.Errorf("%w; the recording was interrupted: record again, or remove that last line", found.cut)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Model{path: path, file: file, index: found, asked: map[key]int{}}, nil
}

// openRegular opens a file that is no folder, device or pipe.
func openRegular(path string, flag int) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	return file, nil
}

// Source says which model was recorded.
func (m *Model) Source() Source { return m.index.source }

// Len is the number of recorded exchanges.
func (m *Model) Len() int { return m.index.count }

// Close closes the file; Generate fails from then on.
func (m *Model) Close() error { return m.file.Close() }

// Generate returns the recorded answer or error, at once and with nothing
// sent. A request that is made again gets the next of its recorded answers, and
// the last one when there are no more. Errors read as they did when they were
// recorded.
//
// A request that is not in the cassette is a *pipeline.ModelError of class
// provider that is not worth repeating. It is safe for concurrent use; when
// equal requests run at the same time, which of them gets which answer depends
// on their order, as it did while recording.
func (m *Model) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	if err := ctx.Err(); err != nil {
		return pipeline.Response{}, fmt.Errorf("reading the cassette %s: %w", m.path, err)
	}
	_, sum, err := canonical(m.index.source.Model, req)
	if err != nil {
		return pipeline.Response{}, m.refuse(outcome.Internal, err.Error())
	}
	entries := m.index.entries[sum]
	if len(entries) == 0 {
		return pipeline.Response{}, m.refuse(outcome.Provider, m.missing(req))
	}
	at := entries[min(m.count(sum), len(entries)-1)]
	line := make([]byte, at.length)
	if _, err := m.file.ReadAt(line, at.offset); err != nil {
		return pipeline.Response{}, m.refuse(outcome.Internal, (&FileError{Path: m.path, Line: at.line, Err: err}).Error())
	}
	found, now, err := decode(line, m.index.source.Model)
	if err != nil || now != sum || found.N != at.n {
		changed := &FileError{Path: m.path, Line: at.line, Err: errors.New("the file was changed while it was in use")}
		return pipeline.Response{}, m.refuse(outcome.Internal, changed.Error())
	}
	var response pipeline.Response
	if found.Response != nil {
		response = *found.Response
	}
	return response, found.Error.err()
}

// count returns how often a request was made before, and counts it.
func (m *Model) count(sum key) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.asked[sum]
	m.asked[sum]++
	return before
}

func (m *Model) refuse(class outcome.Class, message string) error {
	return &pipeline.ModelError{Failure: outcome.Failure{Class: class, Message: message}}
}

// missing says which request has no answer and what to do.
func (m *Model) missing(req pipeline.Request) string {
	asks := "which has no messages"
	if len(req.Messages) > 0 {
		last := req.Messages[len(req.Messages)-1]
		asks = fmt.Sprintf("whose %s message reads %s", last.Role, excerpt(last.Content))
	}
	return fmt.Sprintf("the cassette %s (%s) has no answer to this item's request, %s: the document, the prompt, the model, a parameter or the schema is not what was recorded; "+
		"run with the settings of the recording, or record again with --record FILE", m.path, m.index.source.Model, asks)
}

// excerpt shows the beginning and the end of a text.
func excerpt(text string) string {
	const show = 60
	if len(text) <= 2*show {
		return fmt.Sprintf("%q", text)
	}
	head, tail := text[:show], text[len(text)-show:]
	for len(head) > 0 && !utf8.ValidString(head) && len(head) > show-utf8.UTFMax {
		head = head[:len(head)-1]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) && len(tail) > show-utf8.UTFMax {
		tail = tail[1:]
	}
	return fmt.Sprintf("%q … %q (%d bytes)", head, tail, len(text))
}
