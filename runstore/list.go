package runstore

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"extraction-experiment/outcome"
)

// Entry is a run in a list. If Err is set, the rest says what could be read.
type Entry struct {
	Path   string
	Header outcome.Header
	Footer *outcome.Footer // nil while the run goes on, and after it was killed
	Counts Counts
	Err    error
}

// Placed reports whether the file stands where Path puts the run of that name
// and dataset, whatever lies in it; "" is any dataset.
func (e Entry) Placed(dataset, name string) bool {
	if filepath.Base(e.Path) != safeName(name)+Extension {
		return false
	}
	return dataset == "" || filepath.Base(filepath.Dir(e.Path)) == safeName(dataset)
}

// List returns the runs below dir, as Path places them, ordered by path. A file
// that cannot be read is an entry with its error; a folder that is not there has
// no runs. Items and details are not read.
func List(ctx context.Context, dir string) ([]Entry, error) {
	entries, err := Files(ctx, dir)
	for i := range entries {
		e := &entries[i]
		if e.Err != nil || ctx.Err() != nil {
			continue
		}
		r, failed := Load(e.Path)
		if failed == nil {
			failed = errors.Join(e.read(ctx, r), r.Close())
		}
		e.Err = failed
	}
	return entries, errors.Join(err, ctx.Err())
}

// Files returns the entries of List with nothing but their paths: no file is opened.
func Files(ctx context.Context, dir string) ([]Entry, error) {
	var entries []Entry
	root := filepath.Join(dir, runsFolder)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // no runs yet, or removed just now
			return nil
		case err != nil:
			entries = append(entries, Entry{Path: path, Err: err})
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.IsDir() && filepath.Ext(path) == Extension:
			entries = append(entries, Entry{Path: path})
		}
		return ctx.Err()
	})
	return entries, err
}

func (e *Entry) read(ctx context.Context, r *Reader) (err error) {
	if e.Header, err = r.Header(ctx); err != nil {
		return err
	}
	f, ok, err := r.Footer(ctx)
	if err != nil {
		return err
	}
	if ok {
		e.Footer = &f
	}
	e.Counts, err = r.Counts(ctx)
	return err
}
