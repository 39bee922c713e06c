//go:build !windows

package files

import (
	"errors"
	"os"
	"syscall"
)

// TryLock takes the lock of the file, alone or beside others that are not alone with it
// either; it never waits. The lock is that of the open file: a second TryLock gives up
// what the first one held.
func TryLock(f *os.File, alone bool) (held bool, err error) {
	how := syscall.LOCK_SH
	if alone {
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
