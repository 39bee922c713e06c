package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Recorded is the name of the provider.
const Recorded = "recorded"

// openRecorded opens a cassette under the name of the recorded model.
func openRecorded(path string, cfg Config) (Opened, error) {
	model, err := openCassette(path)
	if err != nil {
		return Opened{}, err
	}
	source := model.source
	info := Info{Provider: source.Provider, Model: source.Model, Pipeline: Recorded}
	return Opened{Info: info, Model: model, Capabilities: cfg.Capabilities(source.Model)}, nil
}

// cassette is a model that replays the answers of a Tape without a network, so that a whole run
// can be repeated exactly. It is not a cache: a request that was not recorded is an error, and
// the model is never asked.
//
// A cassette is JSON Lines. The first line identifies the model:
//
//	{"cassette":1,"provider":"openai","model":"gpt-4o"}
//
// Every other line is one call:
//
//	{"key":"9f86…","n":1,"request":{"model":…,"messages":…,"parameters":…},"response":{…}}
//
// with an "error" beside or instead of the response if the model failed. The key is the SHA-256
// of the request as written in the line, and n counts equal requests. Only the content of a
// pipeline.Request and a pipeline.Response is written: no address, no header, no key. It
// includes prompts, documents and answers, so only the owner may read the file.
type cassette struct {
	path string
	*tapeIndex

	mu       sync.Mutex
	replayed map[linePosition]bool
}

// openCassette reads a cassette once and checks every line; later it reads only the requested
// lines. A missing file, a file that is not a cassette, and a damaged line are errors of exit
// code 64, the last with the line number.
func openCassette(path string) (*cassette, error) {
	file, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	index, err := scanTape(file, path, maxLine)
	if err == nil && index.truncated != nil {
		err = fmt.Errorf("%w; the recording was interrupted: record again, or remove that last line", index.truncated)
	}
	return &cassette{path: path, tapeIndex: index, replayed: map[linePosition]bool{}}, errors.Join(err, file.Close())
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

// Generate returns the recorded answer or error at once and sends nothing. An equal request
// gets the next of its recorded answers, and the last one when there are no more. In trial N of a
// run, also a resumed one, the answers begin with the N-th, and an item that is tried again gets a
// later one that is no error. Errors have their recorded text.
//
// A request that is not in the cassette is a *pipeline.ModelError of class provider that is not
// worth retrying. Generate is safe for concurrent use; if equal requests run at the same time,
// their order decides which one gets which answer, as while recording.
func (m *cassette) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	if err := ctx.Err(); err != nil {
		return pipeline.Response{}, fmt.Errorf("reading the cassette %s: %w", m.path, err)
	}
	_, key, err := canonical(m.source.Model, req)
	if err != nil {
		return pipeline.Response{}, newFault(outcome.Internal, "%v", err)
	}
	answers := m.answers[key]
	if len(answers) == 0 {
		return pipeline.Response{}, newFault(outcome.Provider, "the cassette %s (%s) has no answer to this item's request: "+
			"the document, the prompt, the model, a parameter or the schema is not what was recorded; run with the settings "+
			"of the recording, or record again with --record FILE", m.path, m.source.Model)
	}
	call, err := readCall(m.path, m.next(answers, pipeline.TrialOf(ctx)), key)
	if err != nil {
		return pipeline.Response{}, err
	}
	var response pipeline.Response
	if call.Response != nil {
		response = *call.Response
	}
	return response, call.Error.restore()
}

// next returns the call to replay for a trial, out of equal ones.
func (m *cassette) next(calls []linePosition, trial pipeline.Trial) linePosition {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := len(calls) - 1
	i := 0
	for i < last && (calls[i].n < trial.Number || m.replayed[calls[i]] ||
		trial.SkipCache && (calls[i].n == trial.Number || calls[i].failed)) {
		i++
	}
	m.replayed[calls[i]] = true
	return calls[i]
}

// readCall reads a recorded call again. It closes the file at once, so that a cassette needs no
// Close. An error is an internal failure of the item.
func readCall(path string, position linePosition, key string) (call recordedCall, err error) {
	file, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return call, newFault(outcome.Internal, "%v", err)
	}
	line := make([]byte, position.length)
	_, err = file.ReadAt(line, position.offset)
	if err = errors.Join(err, file.Close()); err == nil {
		call, err = decodeCall(line)
	}
	if err != nil || call.Key != key || call.N != position.n {
		err = cmp.Or(err, errors.New("the file was changed while it was in use"))
		return call, newFault(outcome.Internal, "%v", fileError(path, position.line, err))
	}
	return call, nil
}

// Record returns a model that asks another and writes every call to the tape, answers and
// errors alike, in the order in which they end. Equal requests are numbered from their trial on, in
// the order in which they begin.
//
// A continued tape may have the answer to a request already: a run that was killed or stopped asked
// for it, and has no outcome with it. It is returned with its cost, which was paid, and the model is
// not asked, so that a replay gives what the resumed run gave. An item that is tried again, and a
// request that failed, are asked.
//
// A cancelled call is not written, nor is a call that was not made because the run stops
// (limit.StopsRun): it has no answer and is repeated when the run is resumed. A call that timed
// out is written as an error of class timeout. Put Record around retries, not inside: then a
// line has the final answer with its number of attempts, and a replay waits for nothing. If
// writing fails, the answer is returned with an error of exit code 74 that stops the run, and every
// later call returns that error without asking the model. Safe for concurrent use if the model is.
func Record(model pipeline.Model, tape *Tape) pipeline.Model {
	return pipeline.ModelFunc(func(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
		line, err := tape.begin(req, pipeline.TrialOf(ctx))
		if err != nil {
			return pipeline.Response{}, err
		}
		if line.Response != nil {
			return *line.Response, nil
		}
		response, err := model.Generate(ctx, req)
		if errors.Is(err, context.Canceled) || limit.StopsRun(err) {
			return response, err
		}
		line.Error = recordError(err)
		if err == nil || response != (pipeline.Response{}) {
			line.Response = &response
		}
		if writeErr := tape.write(line); writeErr != nil {
			return response, errors.Join(err, writeErr)
		}
		return response, err
	})
}

// fileError explains why a file cannot be used as a cassette; line 0 means the whole file. It
// has exit code 64.
func fileError(path string, line int, err error) error {
	if line > 0 {
		err = fmt.Errorf("line %d: %w", line, err)
	}
	return cli.Usage("reading the cassette %s: %w", path, err)
}

// writeError explains that a cassette could not be written (exit code 74). For an item it is an
// internal failure that is not worth retrying.
func writeError(path string, err error) error {
	e := newFault(outcome.Internal, "writing the cassette %s: %v; earlier recordings are intact", path, err)
	e.Err = err
	return &cli.Error{Code: cli.ExitIO, Err: e}
}

// recordedError is an error of a model in a cassette.
type recordedError struct {
	outcome.Failure
	Text         string `json:"text,omitempty"` // text of the whole chain, if it has more than the failure
	Status       int    `json:"status,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	Retry        bool   `json:"retry,omitempty"`
}

// recordError converts an error; nil for nil. An error without a *pipeline.ModelError has the
// class of outcome.FailureOf.
func recordError(err error) *recordedError {
	if err == nil {
		return nil
	}
	recorded := recordedError{Failure: outcome.FailureOf(err, outcome.Provider), Text: err.Error()}
	if model, ok := errors.AsType[*pipeline.ModelError](err); ok && model.Failure.Class != outcome.OK {
		recorded = recordedError{model.Failure, recorded.Text, model.Status, model.RetryAfter.Milliseconds(), model.Retry}
	}
	if recorded.Text == recorded.Failure.Error() {
		recorded.Text = ""
	}
	return &recorded
}

// restore returns the error with the same text, and a *pipeline.ModelError in its chain.
func (f *recordedError) restore() error {
	if f == nil {
		return nil
	}
	wait := limit.Pause(float64(f.RetryAfterMS) / 1000)
	model := &pipeline.ModelError{Failure: f.Failure, Status: f.Status, RetryAfter: wait, Retry: f.Retry}
	if f.Text == "" {
		return model
	}
	return &textutil.Reworded{Text: f.Text, Err: model} // the text of the errors that had wrapped it
}
