// Package files reads and writes files as a whole: a reader never meets half of one,
// and nobody is made to read a device, more than he asked for, or on when he is to stop.
// It also locks files between processes; a lock dies with its process, or when the file
// is closed.
//
//	err := files.Write(path, func(w io.Writer) error { … })
//	raw, err := files.Read(ctx, path, 16<<20)
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Write lets write fill a new file beside path, which gets that name when all of
// it is there; an error leaves what was there before, and nothing else. The file
// is for its owner only. Safe to repeat, and for several processes at once: the
// last one wins.
func Write(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), newPrefix(path)+"*") // mode 0600
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

func newPrefix(path string) string { return "." + filepath.Base(path) + ".new-" }

// IsNew reports whether a name beside path is that of a file that Write fills, or that a
// killed process left.
func IsNew(name, path string) bool { return strings.HasPrefix(name, newPrefix(path)) }

// WriteSynced is Write of a text that survives a power cut once it returned.
func WriteSynced(path string, text []byte) error {
	err := Write(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return errors.Join(err, w.(*os.File).Sync())
	})
	if err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the names in a folder survive a power cut.
func SyncFolder(path string) error {
	if runtime.GOOS == "windows" { // which has no way to sync a folder
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// In returns a path that a file of the folder names: relative to the folder, unless it is absolute.
func In(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// MaxText is the most bytes that a prompt, a mapping, a report or another text of a
// person has.
const MaxText = 64 << 20

// File is a file that Open opened.
type File struct {
	file *os.File
	ctx  context.Context
	stop func() bool
	pipe bool
	some bool // a byte was read
}

// Open opens a file that a person named, to be read once from its beginning to its
// end: a regular file, or a pipe. A folder is an error, and so is a device, which may
// have no end. Reading stops with ctx's error when ctx is done, also where a pipe
// says nothing; a pipe through which nothing comes is an error.
func Open(ctx context.Context, path string) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: cmp.Or(errors.Unwrap(err), err)} // and not "stat"
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder", path)
	case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeNamedPipe:
		return nil, fmt.Errorf("%s is not a file", path)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe does not wait for its writer
	if err != nil {
		return nil, err
	}
	// Of a regular file there is no deadline, and no waiting either.
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
	return &File{file: file, ctx: ctx, stop: stop, pipe: !info.Mode().IsRegular()}, nil
}

// Name returns the path that was opened.
func (f *File) Name() string { return f.file.Name() }

// Read is that of an io.Reader.
func (f *File) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.file.Read(p)
	f.some = f.some || n > 0
	switch {
	case err != nil && f.ctx.Err() != nil:
		err = f.ctx.Err()
	case err == io.EOF && f.pipe && !f.some && len(p) > 0:
		err = fmt.Errorf("nothing came through the pipe %s", f.Name())
	}
	return n, err
}

// Close closes the file.
func (f *File) Close() error {
	f.stop()
	return f.file.Close()
}

// ContextReader reads r, such as standard input, until ctx is done, also where r says nothing: then
// with ctx's error, and the read that waits is left to the end of the process.
func ContextReader(ctx context.Context, r io.Reader) io.Reader {
	in, out := io.Pipe()
	go func() {
		_, err := io.Copy(out, r)
		out.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { out.CloseWithError(ctx.Err()) })
	return in
}

// Read returns the content of a file that Open opens, if it is at most so many bytes;
// a larger one is an error that names it.
func Read(ctx context.Context, path string, most int64) ([]byte, error) {
	f, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read: nothing can be lost
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(raw)) > most:
		return nil, fmt.Errorf("%s is larger than %s", path, size(most))
	}
	return raw, nil
}

// size writes a number of bytes for a person.
func size(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
