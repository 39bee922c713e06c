package runstore

import (
	"context"
	"errors"
	"os"
)

// SetAside closes the run and gives its file another name, which no command reads, until PutBack or
// RemoveAside is called for its path. If a run was set aside before and this one has no outcome, as
// after a process that was killed, that one stays and this one is removed.
func (r *Run) SetAside() error {
	counts, err := r.Counts(context.Background())
	if err != nil {
		return errors.Join(err, r.Close())
	}
	if _, err := os.Stat(asidePath(r.path)); err == nil && counts.Done == 0 {
		return r.Remove()
	}
	return r.end(func() error { return moveRun(r.path, asidePath(r.path)) })
}

// PutBack gives the run that was set aside its name again. It does nothing if there is none, or if
// another run has that name now.
func PutBack(path string) error {
	if _, err := os.Stat(asidePath(path)); err != nil || checkIsNew(path) != nil {
		return faultOf(path, ErrWrite, ignoreMissing(err))
	}
	l, err := lockRun(path)
	if err != nil {
		return err
	}
	if checkIsNew(path) == nil {
		if err = removeLeftovers(path); err == nil {
			err = moveRun(asidePath(path), path)
		}
	}
	return errors.Join(faultOf(path, ErrWrite, ignoreMissing(err)), unlock(l))
}

// RemoveAside removes the run that was set aside, if there is one. The caller has the run of that name open.
func RemoveAside(path string) error {
	aside := asidePath(path)
	err := errors.Join(ignoreMissing(os.Remove(aside)), ignoreMissing(os.Remove(aside+"-wal")))
	return faultOf(path, ErrWrite, err)
}

func asidePath(path string) string { return path + ".replaced" }

// moveRun renames a run file, and the log that a reader may have kept beside it.
func moveRun(from, to string) error {
	err := ignoreMissing(os.Remove(to + "-wal")) // of another run
	if err == nil {
		err = os.Rename(from, to)
	}
	if err == nil {
		err = ignoreMissing(os.Rename(from+"-wal", to+"-wal"))
	}
	return err
}
