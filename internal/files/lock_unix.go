//go:build !windows

package files

import (
	"errors"
	"math"
	"os"
	"syscall"
)

// TryLock tries to take an exclusive or a shared lock of the file. It never waits: held is
// false if another open file has a conflicting lock. The lock belongs to the open file, so a
// second TryLock replaces the first.
func TryLock(f *os.File, exclusive bool) (held bool, err error) {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		}
		return err == nil, err
	}
}

// MaxOpen returns how many files this process may have open at once.
func MaxOpen() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}
