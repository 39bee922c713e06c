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
	"sync"

	"extraction-experiment/internal/wholefile"
	"extraction-experiment/pipeline"
)

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
