package runstore

import (
	"bufio"
	"context"
	"errors"
	"extraction-experiment/internal/wholefile"
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
	f, open := wholefile.Open(ctx, path)
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
func openExport(ctx context.Context, f *wholefile.File, otherwise error) (*Reader, error) {
	in := bufio.NewReader(f)
	first, err := in.Peek(1)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil || first[0] != '{':
		return nil, otherwise
	}
	folder, err := os.MkdirTemp("", "run-*")
	if err != nil {
		return nil, fault(f.Name(), ErrWrite, err)
	}
	imported, err := importInto(ctx, in, f.Name(), folder)
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
