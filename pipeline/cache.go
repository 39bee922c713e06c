package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/outcome"
)

// Cached returns a model that answers from the cache if it can, and else asks the given model.
// Put it over limits and budgets: a hit waits for nothing and costs nothing.
//
// A hit is marked Cached and has the text, finish reason and model name of the original answer;
// its cost, usage, attempts and waiting time are 0. Answers of different trials (see WithTrial)
// are kept apart. A Trial with SkipCache skips the lookup and replaces the answer. Errors are those
// of the model and are not cached. If an answer cannot be stored, that is not an error; see
// Cache.Err. Equal requests that run at the same time may both be sent. Safe for concurrent use
// if the model is.
func Cached(model Model, cache *Cache, source CacheSource) Model {
	return ModelFunc(func(ctx context.Context, req Request) (Response, error) {
		trial := TrialOf(ctx)
		rawKey, err := json.Marshal(cacheKey{cacheFormat, source, trial.Number, req})
		if err != nil { // the schema is not JSON: the model refuses the request
			return model.Generate(ctx, req)
		}
		key := sha256Hex(rawKey)
		if !trial.SkipCache && ctx.Err() == nil {
			if response, ok := cache.load(ctx, key); ok {
				response.Usage, response.Assumed, response.UsageProblem = outcome.Usage{}, outcome.Usage{}, ""
				response.CostUSD, response.Cached, response.Attempts = new(0.0), true, 0
				return response, nil
			}
		}
		response, err := model.Generate(ctx, req)
		if err == nil && cacheable(response) {
			cache.store(key, response)
		}
		return response, err
	})
}

// cacheable reports whether an answer is worth storing.
func cacheable(r Response) bool {
	return r.Finish != FinishLength && r.Finish != FinishRefused && strings.TrimSpace(r.Text) != ""
}

const (
	// cacheFormat is the version of the files and of the keys.
	cacheFormat = 1
	// MaxEntry is the largest file of one answer, in bytes. Larger answers are not stored, and
	// larger files not read.
	MaxEntry = 16 << 20
)

// Cache is a folder of answers. Several processes may use it at once, and it is safe for
// concurrent use.
type Cache struct {
	path string
	err  atomic.Pointer[error] // the first one
}

// OpenCache creates the folder and its parents if they are missing, and checks that it is
// writable. The error has exit code 74.
func OpenCache(path string) (*Cache, error) {
	err := os.MkdirAll(path, 0o700)
	if err == nil {
		err = files.CheckWritable(path)
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitIO, "the cache %s cannot be used: %w; name a folder that can be written", path, err)
	}
	return &Cache{path: path}, nil
}

// Err returns the first error of storing an answer, or nil. The run itself is not affected.
func (c *Cache) Err() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// cacheEntry is the content of a file. Checksum is the SHA-256 of the bytes of Response.
type cacheEntry struct {
	Format   int             `json:"format"`
	Key      string          `json:"key"`
	Checksum string          `json:"checksum"`
	Response json.RawMessage `json:"response"`
}

func (c *Cache) file(key string) string {
	return filepath.Join(c.path, key[:2], key+".json")
}

// load returns the answer under a key, or false if the file is missing, damaged or too large.
func (c *Cache) load(ctx context.Context, key string) (Response, bool) {
	raw, err := files.Read(ctx, c.file(key), MaxEntry)
	var e cacheEntry
	var response Response
	valid := err == nil && json.Unmarshal(raw, &e) == nil && e.Format == cacheFormat && e.Key == key &&
		e.Checksum == sha256Hex(e.Response) && json.Unmarshal(e.Response, &response) == nil
	return response, valid && cacheable(response)
}

// store writes an answer unless it is too large, and remembers the first error.
func (c *Cache) store(key string, response Response) {
	text, err := json.Marshal(response)
	raw, name := marshal(cacheEntry{Format: cacheFormat, Key: key, Checksum: sha256Hex(text), Response: text}), c.file(key)
	if len(raw) > MaxEntry {
		return
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o700)
	}
	if err == nil {
		err = files.Write(name, func(w io.Writer) error {
			_, err := w.Write(raw)
			return err
		})
	}
	if err != nil {
		err = fmt.Errorf("keeping an answer in the cache %s: %w", c.path, err)
		c.err.CompareAndSwap(nil, &err)
	}
}

func sha256Hex(raw []byte) string { return fmt.Sprintf("%x", sha256.Sum256(raw)) }

// CacheSource identifies the model whose answers are cached.
type CacheSource struct {
	Provider string `json:"provider"`
	// Endpoint is the address of the server, or empty for the default one of the provider.
	Endpoint string `json:"endpoint,omitempty"`
	Model    string `json:"model"`
}

// cacheKey is hashed into the key of an answer. A new field invalidates all cached answers.
type cacheKey struct {
	Format int `json:"format"`
	CacheSource
	Trial   int     `json:"trial"`
	Request Request `json:"request"`
}
