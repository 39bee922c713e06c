// Package wholefile reads and writes files as a whole: a reader never meets half
// of one, and nobody is made to read a device, or more than he asked for.
//
//	err := wholefile.Write(path, func(w io.Writer) error { … })
//	raw, err := wholefile.Read(path, 16<<20)
package wholefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Write lets write fill a new file beside path, which gets that name when all of
// it is there; an error leaves what was there before, and nothing else. The file
// is for its owner only. Safe to repeat, and for several processes at once: the
// last one wins.
func Write(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Read returns the content of a regular file of at most so many bytes. Anything
// else is an error that names the file.
func Read(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read: nothing can be lost
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		return nil, fmt.Errorf("%s is larger than %s", path, size(most))
	}
	return raw, err
}

// size writes a number of bytes for a person.
func size(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
