package runstore

import (
	"errors"
	"extraction-experiment/internal/filelock"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// lock is the writer's claim on a run file: an exclusive lock of the operating
// system on a file beside it, which dies with the process. The run file itself
// is not locked, because SQLite's own locks live there, and closing a second
// descriptor of a file drops the POSIX locks of the whole process.
type lock struct {
	file *os.File
	path string
}

// lockRun locks the run file at path, or fails with ErrLocked.
func lockRun(path string) (*lock, error) {
	name := path + ".lock"
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fault(path, ErrWrite, err)
		}
		held, err := lockPatiently(f)
		if err != nil {
			return nil, fault(path, ErrWrite, errors.Join(fmt.Errorf("locking %s: %w", name, err), f.Close()))
		}
		if !held {
			holder := heldBy(owner(f))
			return nil, fault(path, ErrLocked, errors.Join(holder, f.Close()))
		}
		if !isCurrent(f, name) { // its last owner removed it between open and lock
			if err := f.Close(); err != nil {
				return nil, fault(path, ErrWrite, err)
			}
			continue
		}
		l := &lock{f, name}
		if err := l.sign(); err != nil {
			return nil, fault(path, ErrWrite, errors.Join(err, l.release()))
		}
		return l, nil
	}
}

// lockPatiently tries again for a moment before it says that the lock is held:
// who only looks at it (see look) holds it for an instant.
func lockPatiently(f *os.File) (held bool, err error) {
	for range 20 {
		if held, err = filelock.Try(f, true); held || err != nil {
			return held, err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return false, nil
}

// sign writes who holds the lock, for the message of whoever comes second.
func (l *lock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(l.file, "%d\n", os.Getpid())
	return err
}

// release removes the lock file while it is still locked, then lets go of it.
func (l *lock) release() error {
	removed := removeLocked(l.path)
	return errors.Join(removed, l.file.Close(), removeUnlocked(l.path))
}

func isCurrent(f *os.File, name string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(name)
	return err == nil && os.SameFile(held, there)
}

// heldBy names the process that holds a lock, where it is known.
func heldBy(pid string) error {
	if pid == "" {
		return nil
	}
	return fmt.Errorf("process %s holds it", pid)
}

// owner returns the number of the process that signed the lock, "" if it cannot
// be read.
func owner(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	pid := strings.TrimSpace(string(text))
	if err != nil || strings.Trim(pid, "0123456789") != "" {
		return ""
	}
	return pid
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
