package runstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"extraction-experiment/outcome"
)

// Run is a run that this process writes, and can read like any Reader. Safe for
// concurrent use.
type Run struct {
	*Reader
	lock   *lock
	writer *writer
}

// Create makes the run file at path, with the header, for writing. Folders are
// made for the owner only, the file has mode 0600. The file appears under its
// name when it is complete, so that a crash leaves either no run or a whole one.
//
// Errors: ErrExists when there is something under the name, ErrLocked,
// ErrWrite. A zero h.Format becomes the current one.
func Create(path string, h outcome.Header) (*Run, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fault(path, ErrExists, nil)
	}
	if err := makeFolder(path); err != nil {
		return nil, fault(path, ErrWrite, err)
	}
	l, err := lockRun(path)
	if err != nil {
		return nil, err
	}
	if h.Format == 0 {
		h.Format = outcome.FormatVersion
	}
	err = removeUnfinished(path)
	if err == nil {
		err = place(path, h)
	}
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return open(path, l)
}

// Open takes a run up again for writing, after whatever ended it: a footer, an
// interruption or a crash. Files up to 8 MiB are checked as a whole.
//
// Errors: ErrMissing, ErrLocked, ErrNotRun, ErrNewer, ErrDamaged, ErrWrite.
func Open(path string) (*Run, error) {
	if err := isFile(path); err != nil {
		return nil, err
	}
	l, err := lockRun(path)
	if err != nil {
		return nil, err
	}
	return open(path, l)
}

// open opens the run at path, whose lock is held; it releases it on an error.
func open(path string, l *lock) (*Run, error) {
	// The writer comes first: it recovers what a crash left in the log.
	w, err := startWriter(path)
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	r, err := Load(path)
	if err != nil {
		return nil, errors.Join(err, w.close(), l.release())
	}
	return &Run{r, l, w}, nil
}

// unfinished ends the name of a run with the file that it is built in.
const unfinished = ".new-"

// removeUnfinished removes what killed processes left that were creating the run at
// path, whose lock is held.
func removeUnfinished(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+unfinished) {
			err = errors.Join(err, ignoreMissing(os.Remove(filepath.Join(filepath.Dir(path), e.Name()))))
		}
	}
	return faultOf(path, ErrWrite, err)
}

// place builds a run in a temporary file and gives it its name.
func place(path string, h outcome.Header) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+unfinished+"*")
	if err != nil {
		return fault(path, ErrWrite, err)
	}
	err = f.Close()
	if err == nil {
		err = build(f.Name(), h)
	}
	if err != nil {
		return fault(path, ErrWrite, errors.Join(err, os.Remove(f.Name())))
	}
	return rename(f.Name(), path)
}

// rename gives the file a name that must be free, and makes that durable. The
// old name is gone afterwards, also on an error.
func rename(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, os.ErrExist) {
		err = errors.Join(err, os.Remove(from))
	} else if _, there := os.Lstat(to); there == nil {
		err = errors.Join(os.ErrExist, os.Remove(from))
	} else if err = os.Rename(from, to); err != nil { // a file system without hard links
		err = errors.Join(err, os.Remove(from))
	}
	if errors.Is(err, os.ErrExist) {
		return fault(to, ErrExists, nil)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(to))
	}
	if err != nil {
		return fault(to, ErrWrite, err)
	}
	return nil
}

func isFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return faultOf(path, ErrRead, err)
	}
	if !info.Mode().IsRegular() {
		return fault(path, ErrNotRun, errors.New("it is no plain file"))
	}
	return nil
}

// SetHeader replaces the header. The uid of a run never changes, because every
// id in Langfuse derives from it. Errors as Commit.
func (r *Run) SetHeader(ctx context.Context, h outcome.Header) error {
	return r.changeHeader(ctx, func(old *outcome.Header) error {
		if h.RunUID != old.RunUID {
			return fmt.Errorf("changing the header: run_uid is %q and stays so, not %q", old.RunUID, h.RunUID)
		}
		*old = h
		return nil
	})
}

// CompleteListing records that every item is in the run, by its fingerprint:
// see Hashes and Reader.Listed. Safe to repeat. Errors as Commit.
func (r *Run) CompleteListing(ctx context.Context, fingerprint string) error {
	if fingerprint == "" {
		return errors.New("completing the listing: the fingerprint is empty")
	}
	return r.changeHeader(ctx, func(h *outcome.Header) error {
		h.Dataset.Fingerprint = fingerprint
		return nil
	})
}

func (r *Run) changeHeader(ctx context.Context, change func(*outcome.Header) error) error {
	return r.writer.submit(ctx, 0, func(t *tx) error {
		var h outcome.Header
		if err := t.meta(keyHeader, &h); err != nil {
			return err
		}
		if err := change(&h); err != nil {
			return err
		}
		return t.setMeta(keyHeader, h)
	})
}

// Finish writes the footer. Outcomes or items that are added later take it away
// again: a footer speaks of everything in the run. Acknowledgements do not.
// Errors as Commit.
func (r *Run) Finish(ctx context.Context, f outcome.Footer) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.setMeta(keyFooter, f) })
}

// Close writes what was handed in before it, then makes the run a single file:
// the log is written back and removed, unless another process is reading just
// now. It returns when nothing of the run is open any more. Safe to repeat;
// later calls of other methods fail with ErrClosed.
func (r *Run) Close() error {
	if !r.writer.stop() {
		return nil
	}
	read := r.Reader.Close()
	return errors.Join(read, r.writer.close(), r.lock.release())
}
