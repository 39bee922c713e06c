//go:build !windows

package runstore

import (
	"errors"
	"os"
)

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
