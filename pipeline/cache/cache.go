// Package cache keeps the answers of models in a folder, so that a request that
// was answered once is not paid again: by a run that is repeated with another
// scorer, by another run with the same prompt, by a process that runs at the
// same time. It is no record of a run; package recorded is that.
//
// An answer is found by the SHA-256 of everything that was asked: provider,
// address, model, messages, parameters, schema, and the trial, so that several
// answers to one question stay several. Each is a file of its own,
//
//	DIR/3f/3fa9….json
//
// with a checksum, written under another name and then renamed. A file that
// cannot be read, is cut, or does not match its checksum counts as missing and
// is written anew. Only usable answers are kept: no errors, no refusals, none
// that was cut. Prompts are not in the files, but answers are, so they are for
// their owner only.
//
//	folder, err := cache.Open("answers")
//	model = cache.Cached(model, folder, cache.Source{Provider: "openai", Model: "gpt-4o"})
//	// …
//	if err := folder.Err(); err != nil { /* some answers could not be kept */ }
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"extraction-experiment/internal/wholefile"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Cached returns a model that answers from the folder where it can, and asks
// another where it cannot. Put it over limits and budgets: a hit waits for
// nothing and costs nothing.
//
// A hit is marked Cached and has the text, finish reason and model name of the
// answer as it was given; its cost is 0, and so are its usage, attempts and
// waiting. In a context of a pipeline.Trial the answers of different trials are
// kept apart, and none is given Again: a new one replaces it. Errors are those
// of the model and not kept; an answer that cannot be kept is no error, see
// Folder.Err. Equal requests that run at the same time may both be sent. Safe
// for concurrent use if the model is.
func Cached(model pipeline.Model, folder *Folder, source Source) pipeline.Model {
	return cached{model, folder, source}
}

type cached struct {
	model  pipeline.Model
	folder *Folder
	source Source
}

// Generate looks for the answer, and asks for it if there is none.
func (c cached) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	trial := pipeline.TrialOf(ctx)
	key, err := keyOf(c.source, trial.Number, req)
	if err != nil { // a schema that is no JSON: for the model to refuse
		return c.model.Generate(ctx, req)
	}
	if !trial.Again && ctx.Err() == nil {
		if response, ok := c.folder.load(ctx, key); ok {
			free := 0.0
			response.Usage, response.CostUSD = outcome.Usage{}, &free
			response.Cached, response.Attempts = true, 0
			return response, nil
		}
	}
	response, err := c.model.Generate(ctx, req)
	if err == nil && usable(response) {
		c.folder.store(key, response)
	}
	return response, err
}

// usable reports whether an answer is worth keeping.
func usable(r pipeline.Response) bool {
	return r.Finish != pipeline.FinishLength && r.Finish != pipeline.FinishRefused && strings.TrimSpace(r.Text) != ""
}

const (
	// format is the version of the files and of what a key is made of.
	format = 1
	// MaxEntry bounds the file of one answer, in bytes. Larger answers are not
	// kept, larger files not read.
	MaxEntry = 16 << 20
)

// Folder is a folder of answers. Any number of processes may use it at once;
// it is safe for concurrent use.
type Folder struct {
	path string

	mu  sync.Mutex
	err error
}

// FolderError says that a folder cannot be used as a cache.
type FolderError struct {
	Path string
	Err  error
}

// Error says what to do.
func (e *FolderError) Error() string {
	return fmt.Sprintf("the cache %s cannot be used: %v; name a folder that can be written", e.Path, e.Err)
}

// Unwrap returns the reason.
func (e *FolderError) Unwrap() error { return e.Err }

// ExitCode is that of what cannot be written.
func (*FolderError) ExitCode() int { return 74 }

// Open makes the folder, and its parents, where they are missing, and checks
// that it can be written. An error is a *FolderError.
func Open(path string) (*Folder, error) {
	err := os.MkdirAll(path, 0o700)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(path, ".probe-*"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		return nil, &FolderError{path, err}
	}
	return &Folder{path: path}, nil
}

// Err returns why the first answer that could not be kept was not; nil if all
// were. The run is not harmed by it.
func (f *Folder) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// entry is a file. Checksum is the SHA-256 of Response as it stands there.
type entry struct {
	Format   int             `json:"format"`
	Key      string          `json:"key"`
	Checksum string          `json:"checksum"`
	Response json.RawMessage `json:"response"`
}

func (f *Folder) file(key string) string {
	return filepath.Join(f.path, key[:2], key+".json")
}

// load returns the answer under a key; false if there is none that is whole.
func (f *Folder) load(ctx context.Context, key string) (pipeline.Response, bool) {
	raw, err := wholefile.Read(ctx, f.file(key), MaxEntry)
	if err != nil {
		return pipeline.Response{}, false
	}
	var e entry
	if json.Unmarshal(raw, &e) != nil || e.Format != format || e.Key != key || e.Checksum != checksum(e.Response) {
		return pipeline.Response{}, false
	}
	var response pipeline.Response
	if json.Unmarshal(e.Response, &response) != nil || !usable(response) {
		return pipeline.Response{}, false
	}
	return response, true
}

// store keeps an answer; what is too large is left out.
func (f *Folder) store(key string, response pipeline.Response) {
	if err := f.write(key, response); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err == nil {
			f.err = fmt.Errorf("keeping an answer in the cache %s: %w", f.path, err)
		}
	}
}

func (f *Folder) write(key string, response pipeline.Response) error {
	raw, err := json.Marshal(response)
	if err != nil {
		return err
	}
	raw, err = json.Marshal(entry{Format: format, Key: key, Checksum: checksum(raw), Response: raw})
	if err != nil || len(raw) > MaxEntry {
		return err
	}
	name := f.file(key)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return wholefile.Write(name, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}

func checksum(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Source is whose answers are kept.
type Source struct {
	Provider string `json:"provider"`
	// Endpoint is the address of the server; empty for the provider's own.
	Endpoint string `json:"endpoint,omitempty"`
	Model    string `json:"model"`
}

// question is what a key is made of. To add a member is to lose what is cached.
type question struct {
	Format int `json:"format"`
	Source
	Trial   int              `json:"trial"`
	Request pipeline.Request `json:"request"`
}

// keyOf returns the SHA-256 of a question, in hexadecimal.
func keyOf(source Source, trial int, req pipeline.Request) (string, error) {
	raw, err := json.Marshal(question{format, source, trial, req})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
