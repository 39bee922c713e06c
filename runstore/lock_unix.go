//go:build !windows

package runstore

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock, alone or beside others that are not alone with it
// either; it never waits.
func tryLock(f *os.File, alone bool) (held bool, err error) {
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

func removeLocked(path string) error { return ignoreMissing(os.Remove(path)) }

// removeUnlocked does nothing: by now the name may belong to the next owner.
func removeUnlocked(string) error { return nil }

// syncFolder makes a new name in a folder durable.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
