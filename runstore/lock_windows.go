package runstore

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes the lock, alone or beside others that are not alone with it
// either; it never waits. It locks a byte far behind the end, so that the owner's
// process id at the beginning stays readable: locks are mandatory on Windows.
func tryLock(f *os.File, alone bool) (held bool, err error) {
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

// removeLocked does nothing: Windows does not remove an open file.
func removeLocked(string) error { return nil }

// removeUnlocked removes the file unless the next owner has it open already.
func removeUnlocked(path string) error {
	err := ignoreMissing(os.Remove(path))
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return nil
	}
	return err
}

// syncFolder does nothing: Windows keeps names durable by itself.
func syncFolder(string) error { return nil }
