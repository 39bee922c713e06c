package runstore

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

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
