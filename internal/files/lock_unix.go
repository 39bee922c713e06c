//go:build !windows

package files

import (
	"errors"
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
