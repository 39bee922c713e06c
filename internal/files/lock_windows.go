package files

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock tries to take an exclusive or a shared lock of the file. It never waits: held is
// false if another open file has a conflicting lock. It locks a byte far beyond the end of the
// file, because locks on Windows are mandatory and the content must stay readable. It must be
// called only once for a file.
func TryLock(f *os.File, exclusive bool) (held bool, err error) {
	at := &windows.Overlapped{Offset: math.MaxInt32}
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// MaxOpen returns how many files this process may have open at once; there is no limit on Windows.
func MaxOpen() uint64 { return math.MaxUint64 }
