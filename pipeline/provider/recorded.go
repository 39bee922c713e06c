package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Recorded is the name of the provider.
const Recorded = "recorded"

// openRecorded replays a cassette under the names of what was recorded.
func openRecorded(path string, cfg Config) (Opened, error) {
	model, err := openCassette(path)
	if err != nil {
		return Opened{}, err
	}
	source := model.source
	info := Info{Provider: source.Provider, Model: source.Model, Pipeline: Recorded}
	return Opened{Info: info, Model: model, Capabilities: cfg.Capabilities(source.Model)}, nil
}

// cassette answers with what a Tape recorded, without a network, so that a whole run can
// be repeated to the byte. It is not a cache: a request that was not recorded is an error,
// and the model is never asked in its place.
//
// A cassette is JSON Lines. The first line says what was recorded:
//
//	{"cassette":1,"provider":"openai","model":"gpt-4o"}
//
// Every other line is one exchange:
//
//	{"key":"9f86…","n":1,"request":{"model":…,"messages":…,"parameters":…},"response":{…}}
//
// with an "error" beside or in place of the response where the model failed. The key is
// the SHA-256 of the request as it is in the line, n counts equal requests. Only what
// a pipeline.Request and a pipeline.Response hold is written: no address, no header, no
// key. Prompts, documents and answers are in it, so the file is for its owner only.
type cassette struct {
	path string
	*recorded

	mu    sync.Mutex
	asked map[string]int
}

// openCassette reads a cassette through once and checks every line of it; later only
// the lines that are asked for are read. A file that is not there, is no cassette, or
// has a damaged line is an error of exit code 64 that names the line.
func openCassette(path string) (*cassette, error) {
	file, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	found, err := scan(file, path, maxLine)
	if err == nil && found.cut != nil {
		err = fmt.Errorf("%w; the recording was interrupted: record again, or remove that last line", found.cut)
	}
	return &cassette{path: path, recorded: found, asked: map[string]int{}}, errors.Join(err, file.Close())
}

// openRegular opens a file that is not a folder, device or pipe.
func openRegular(path string, flag int) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(path, flag, 0)
	}
	if err != nil {
		return nil, fileError(path, 0, err)
	}
	return file, nil
}

// Generate returns the recorded answer or error, at once and with nothing
// sent. A request that is made again gets the next of its recorded answers, and
// the last one when there are no more. Errors read as they did when they were
// recorded.
//
// A request that is not in the cassette is a *pipeline.ModelError of class
// provider that is not worth repeating. It is safe for concurrent use; when
// equal requests run at the same time, which of them gets which answer depends
// on their order, as it did while recording.
func (m *cassette) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	if err := ctx.Err(); err != nil {
		return pipeline.Response{}, fmt.Errorf("reading the cassette %s: %w", m.path, err)
	}
	_, key, err := canonical(m.source.Model, req)
	if err != nil {
		return pipeline.Response{}, failed(outcome.Internal, "%v", err)
	}
	answers := m.answers[key]
	if len(answers) == 0 {
		return pipeline.Response{}, failed(outcome.Provider, "%s", m.missing(req))
	}
	m.mu.Lock()
	at := answers[min(m.asked[key], len(answers)-1)]
	m.asked[key]++
	m.mu.Unlock()
	found, err := m.read(at, key)
	if err != nil {
		return pipeline.Response{}, failed(outcome.Internal, "%v", err)
	}
	var response pipeline.Response
	if found.Response != nil {
		response = *found.Response
	}
	return response, found.Error.err()
}

// read reads an exchange again. The file is open only as long, so that nobody has to close it.
func (m *cassette) read(at lineAt, key string) (found recordedCall, err error) {
	file, err := openRegular(m.path, os.O_RDONLY)
	if err != nil {
		return found, err
	}
	line := make([]byte, at.length)
	_, err = file.ReadAt(line, at.offset)
	if err = errors.Join(err, file.Close()); err == nil {
		found, err = decode(line, m.source.Model)
	}
	if err != nil || found.Key != key || found.N != at.n {
		return found, fileError(m.path, at.line, cmp.Or(err, errors.New("the file was changed while it was in use")))
	}
	return found, nil
}

// missing says which request has no answer and what to do.
func (m *cassette) missing(req pipeline.Request) string {
	asks := "which has no messages"
	if len(req.Messages) > 0 {
		last := req.Messages[len(req.Messages)-1]
		end := last.Content[max(0, len(last.Content)-60):]
		asks = fmt.Sprintf("whose %s message of %d bytes ends with %q", last.Role, len(last.Content), strings.ToValidUTF8(end, ""))
	}
	return fmt.Sprintf("the cassette %s (%s) has no answer to this item's request, %s: the document, the prompt, the model, a parameter or the schema is not what was recorded; "+
		"run with the settings of the recording, or record again with --record FILE", m.path, m.source.Model, asks)
}

// Record returns a model that asks another and writes every exchange to the
// tape, answers and errors alike, in the order in which they end. Equal
// requests are numbered in the order in which they begin.
//
// A call that was cancelled is not written, nor is one that was not made because
// the run stops (limit.StopsRun): nothing was answered, and it is made again when
// the run is resumed. One that ran out of time is, as an error of class timeout. Record
// around retries, not inside them: then an exchange is the final answer with its number
// of attempts, and a replay waits for nothing. If writing fails, the answer comes back
// together with an error of exit code 74, and the model is not asked again: every later
// call returns that error at once. It is safe for concurrent use if the model is.
func Record(model pipeline.Model, tape *Tape) pipeline.Model {
	return pipeline.ModelFunc(func(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
		line, err := tape.begin(req)
		if err != nil {
			return pipeline.Response{}, err
		}
		response, err := model.Generate(ctx, req)
		if errors.Is(err, context.Canceled) || limit.StopsRun(err) {
			return response, err
		}
		line.Error = failureOf(err)
		if err == nil || response != (pipeline.Response{}) {
			line.Response = &response
		}
		if problem := tape.write(line); problem != nil {
			return response, errors.Join(err, problem)
		}
		return response, err
	})
}

// fileError says why a file cannot be used as a cassette; line 0 is about the whole
// file. It has exit code 64.
func fileError(path string, line int, err error) error {
	if line > 0 {
		err = fmt.Errorf("line %d: %w", line, err)
	}
	return cli.Usage("reading the cassette %s: %w", path, err)
}

// writeError says that a cassette could not be written (exit code 74). To an item it
// is an internal failure that asking again does not mend.
func writeError(path string, err error) error {
	e := failed(outcome.Internal, "writing the cassette %s: %v; what was recorded before is whole", path, err)
	e.Err = err
	return &cli.Error{Code: cli.ExitIO, Err: e}
}

// failure is an error of a model as it is written.
type failure struct {
	outcome.Failure
	Text         string `json:"text,omitempty"` // the whole chain, if it says more
	Status       int    `json:"status,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	Retry        bool   `json:"retry,omitempty"`
}

// failureOf describes an error; nil for nil. An error without a
// *pipeline.ModelError has the class that outcome.FailureOf gives it.
func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	found := failure{Failure: outcome.FailureOf(err, outcome.Provider), Text: err.Error()}
	if model, ok := errors.AsType[*pipeline.ModelError](err); ok && model != nil && model.Failure.Class != outcome.OK {
		found = failure{model.Failure, found.Text, model.Status, model.RetryAfter.Milliseconds(), model.Retry}
	}
	if found.Text == found.Failure.Error() {
		found.Text = ""
	}
	return &found
}

// err returns the error again: the same text, and a *pipeline.ModelError in
// its chain.
func (f *failure) err() error {
	if f == nil {
		return nil
	}
	wait := limit.Pause(float64(f.RetryAfterMS) / 1000)
	model := &pipeline.ModelError{Failure: f.Failure, Status: f.Status, RetryAfter: wait, Retry: f.Retry}
	if f.Text == "" {
		return model
	}
	return &replayed{text: f.Text, model: model}
}

// replayed is a ModelError in the words of those that had wrapped it.
type replayed struct {
	text  string
	model *pipeline.ModelError
}

func (e *replayed) Error() string { return e.text }
func (e *replayed) Unwrap() error { return e.model }
