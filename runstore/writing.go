package runstore

import (
	"errors"
	"fmt"
	"os"
)

// Writing returns an error that is ErrLocked, with the id of the process, while
// one writes the run file at path; nil if none does, or if it cannot be told
// because the lock beside the file may not be opened. It changes nothing and is
// an answer of the instant: who must be alone with a run opens it.
func Writing(path string) error {
	f, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return fault(path, ErrRead, err)
	}
	held, err := tryLock(f) // let go of when f is closed
	if err != nil {
		return fault(path, ErrRead, errors.Join(fmt.Errorf("looking at its lock: %w", err), f.Close()))
	}
	if !held {
		return fault(path, ErrLocked, errors.Join(readOwner(f), f.Close()))
	}
	return f.Close()
}
