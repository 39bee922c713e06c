package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"extraction-experiment/internal/files"
)

// WriteFile lets write fill a file and gives it its name only when all of it
// is there, so that an error leaves what was there before. Devices and pipes
// are written as they are. The file is for its owner only; errors that have no
// exit code get 74.
func WriteFile(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return Written(writeThrough(path, write))
	}
	return Written(files.Write(path, write))
}

func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// CanWrite checks before a long work that WriteFile will find the folder.
func CanWrite(path string) error {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return Usage("writing %s: %w", path, err)
	}
	if !info.IsDir() {
		return Usage("writing %s: %s is no folder", path, filepath.Dir(path))
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return Usage("writing %s: it is a folder", path)
	}
	return nil
}

// SameFile reports whether two paths lead to one file that exists.
func SameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
