package runstore

import (
	"errors"
	"extraction-experiment/internal/filelock"
	"fmt"
	"os"
)

// Writing returns an error that is ErrLocked, with the id of the process, while
// one writes the run file at path; nil if none does, or if it cannot be told
// because the lock beside the file may not be opened. It changes nothing and is
// an answer of the instant: who must be alone with a run opens it.
func Writing(path string) error {
	pid, writing, err := look(path)
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil
	case err != nil:
		return fault(path, ErrRead, err)
	case writing:
		return fault(path, ErrLocked, heldBy(pid))
	}
	return nil
}

// Writer reports whether a process, this one or another, is writing the run just
// now, and its number where it is known.
func (r *Reader) Writer() (pid string, writing bool, err error) {
	pid, writing, err = look(r.path)
	return pid, writing, faultOf(r.path, ErrRead, err)
}

// look tries the lock of the run file at path, beside others who look; it is let
// go of at once.
func look(path string) (pid string, writing bool, err error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
	if err != nil {
		return "", false, ignoreMissing(err)
	}
	held, err := filelock.Try(f, false)
	if err != nil {
		err = fmt.Errorf("looking at its lock: %w", err)
	} else if !held {
		writing, pid = true, owner(f)
	}
	return pid, writing, errors.Join(err, f.Close())
}
