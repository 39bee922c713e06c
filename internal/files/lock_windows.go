package files

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock takes the lock of the file, alone or beside others that are not alone with it
// either; it never waits. It locks a byte far beyond the end, so that what is in
// the file stays readable: locks are mandatory on Windows. A file is tried once.
func TryLock(f *os.File, alone bool) (held bool, err error) {
	at := &windows.Overlapped{Offset: math.MaxInt32}
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if alone {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
