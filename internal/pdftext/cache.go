package pdftext

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

	"extraction-experiment/internal/pdf"
	"extraction-experiment/internal/wholefile"
)

// Cache keeps the text of files by their hash, so that a file is read once.
// What needs a password is not kept. The zero value keeps nothing. It is safe for
// concurrent use, also by several processes: entries are written whole.
type Cache struct {
	// Dir is made when it is needed; "" keeps nothing.
	Dir string
}

// Read returns the text of the file at path, from the cache where it is there.
// An entry that is damaged, or of another Version, is made anew. hit says that
// the file was not read again.
//
// Errors: *Error (exit code 64) also for a file that is not there. That an entry
// cannot be written is none: the next Read reads the file again.
func (c Cache) Read(ctx context.Context, path string, opt Options) (doc Document, hit bool, err error) {
	data, err := wholefile.Read(ctx, path, pdf.MaxFile)
	if err != nil {
		return Document{}, false, &Error{err}
	}
	sum := sha256.Sum256(data)
	key := hex.EncodeToString(sum[:])
	entry := filepath.Join(c.Dir, key+"-"+Version+".json")
	if c.Dir != "" {
		if doc, ok := load(entry, key); ok {
			return doc, true, nil
		}
	}
	doc, err = Read(ctx, data, opt)
	var bad *Error
	if errors.As(err, &bad) {
		return doc, false, &Error{fmt.Errorf("%s: %w", path, bad.Err)}
	}
	if err == nil && c.Dir != "" && !doc.Secret { // a cache asks for no password
		_ = c.store(entry, doc) // a cache that cannot be written costs time only
	}
	return doc, false, err
}

// load returns an entry that is whole and of this file and version.
func load(entry, key string) (doc Document, ok bool) {
	raw, err := os.ReadFile(entry)
	if err != nil || json.Unmarshal(raw, &doc) != nil {
		return Document{}, false
	}
	return doc, doc.SHA256 == key && doc.Version == Version && len(doc.Pages) > 0
}

func (c Cache) store(entry string, doc Document) error {
	raw, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	return wholefile.Write(entry, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}
