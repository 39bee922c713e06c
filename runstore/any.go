package runstore

import (
	"context"
	"errors"
	"io"
	"os"
)

// OpenAny opens a run for reading in either form: a run file, or what Export
// wrote. An export is imported into a temporary folder, which Close removes.
// Errors: those of Load and Import.
func OpenAny(ctx context.Context, path string) (*Reader, error) {
	r, err := Load(path)
	if !errors.Is(err, ErrNotRun) {
		return r, err
	}
	f, open := os.Open(path)
	if open != nil {
		return nil, faultOf(path, ErrRead, open)
	}
	r, err = openExport(ctx, f, err)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return r, nil
}

// openExport imports the file if it looks like an export, else it returns what
// was said about it.
func openExport(ctx context.Context, f *os.File, otherwise error) (*Reader, error) {
	var first [1]byte
	if _, err := io.ReadFull(f, first[:]); err != nil || first[0] != '{' {
		return nil, otherwise
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, faultOf(f.Name(), ErrRead, err)
	}
	folder, err := os.MkdirTemp("", "run-*")
	if err != nil {
		return nil, fault(f.Name(), ErrWrite, err)
	}
	imported, err := importInto(ctx, f, folder)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	r, err := Load(imported)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	r.path, r.temporary = f.Name(), folder
	return r, nil
}
