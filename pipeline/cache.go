package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/outcome"
)

// Cached returns a model that answers from the folder where it can, and asks
// another where it cannot. Put it over limits and budgets: a hit waits for
// nothing and costs nothing.
//
// A hit is marked Cached and has the text, finish reason and model name of the
// answer as it was given; its cost is 0, and so are its usage, attempts and
// waiting. In a context of a Trial the answers of different trials are
// kept apart, and none is given Again: a new one replaces it. Errors are those
// of the model and not kept; an answer that cannot be kept is not an error, see
// Cache.Err. Equal requests that run at the same time may both be sent. Safe
// for concurrent use if the model is.
func Cached(model Model, folder *Cache, source CacheSource) Model {
	return ModelFunc(func(ctx context.Context, req Request) (Response, error) {
		trial := TrialOf(ctx)
		question, err := json.Marshal(cacheQuestion{format, source, trial.Number, req})
		if err != nil { // a schema that is not JSON: for the model to refuse
			return model.Generate(ctx, req)
		}
		key := cacheSum(question)
		if !trial.Again && ctx.Err() == nil {
			if response, ok := folder.load(ctx, key); ok {
				response.Usage, response.CostUSD = outcome.Usage{}, new(0.0)
				response.Cached, response.Attempts = true, 0
				return response, nil
			}
		}
		response, err := model.Generate(ctx, req)
		if err == nil && cacheable(response) {
			folder.store(key, response)
		}
		return response, err
	})
}

// cacheable reports whether an answer is worth keeping.
func cacheable(r Response) bool {
	return r.Finish != FinishLength && r.Finish != FinishRefused && strings.TrimSpace(r.Text) != ""
}

const (
	// format is the version of the files and of what a key is made of.
	format = 1
	// MaxEntry bounds the file of one answer, in bytes. Larger answers are not
	// kept, larger files not read.
	MaxEntry = 16 << 20
)

// Cache is a folder of cached answers. Any number of processes may use it at once, and it
// is safe for concurrent use.
type Cache struct {
	path string

	mu  sync.Mutex
	err error
}

// OpenCache creates the folder and its parents if they are missing, and checks that it can
// be written. The error has exit code 74.
func OpenCache(path string) (*Cache, error) {
	err := os.MkdirAll(path, 0o700)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(path, ".probe-*"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitIO, "the cache %s cannot be used: %w; name a folder that can be written", path, err)
	}
	return &Cache{path: path}, nil
}

// Err returns why the first answer that could not be cached was not; nil if all were. The
// run is not affected by it.
func (f *Cache) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// cacheEntry is a file. Checksum is the SHA-256 of Response as it is there.
type cacheEntry struct {
	Format   int             `json:"format"`
	Key      string          `json:"key"`
	Checksum string          `json:"checksum"`
	Response json.RawMessage `json:"response"`
}

func (f *Cache) file(key string) string {
	return filepath.Join(f.path, key[:2], key+".json")
}

// load returns the answer under a key; false if there is none that is whole.
func (f *Cache) load(ctx context.Context, key string) (Response, bool) {
	raw, err := files.Read(ctx, f.file(key), MaxEntry)
	var e cacheEntry
	var response Response
	whole := err == nil && json.Unmarshal(raw, &e) == nil && e.Format == format && e.Key == key &&
		e.Checksum == cacheSum(e.Response) && json.Unmarshal(e.Response, &response) == nil
	return response, whole && cacheable(response)
}

// store keeps an answer; what is too large is left out.
func (f *Cache) store(key string, response Response) {
	if err := f.write(key, response); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.err = cmp.Or(f.err, fmt.Errorf("keeping an answer in the cache %s: %w", f.path, err))
	}
}

func (f *Cache) write(key string, response Response) error {
	raw, err := json.Marshal(response)
	if err != nil {
		return err
	}
	raw, err = json.Marshal(cacheEntry{Format: format, Key: key, Checksum: cacheSum(raw), Response: raw})
	if err != nil || len(raw) > MaxEntry {
		return err
	}
	name := f.file(key)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return files.Write(name, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}

func cacheSum(raw []byte) string { return fmt.Sprintf("%x", sha256.Sum256(raw)) }

// CacheSource is whose answers are kept.
type CacheSource struct {
	Provider string `json:"provider"`
	// Endpoint is the address of the server; empty for the provider's own.
	Endpoint string `json:"endpoint,omitempty"`
	Model    string `json:"model"`
}

// cacheQuestion is what a key is the SHA-256 of, in hexadecimal. To add a member is to lose what is cached.
type cacheQuestion struct {
	Format int `json:"format"`
	CacheSource
	Trial   int     `json:"trial"`
	Request Request `json:"request"`
}
