// Package files reads and writes whole files. A reader never sees a partly written file, and
// reading a file is limited to regular files and pipes, to a maximum size, and to the lifetime
// of a context. The package also locks files between processes. A lock ends with its process,
// or when the file is closed.
//
//	err := files.Write(path, func(w io.Writer) error { … })
//	raw, err := files.Read(ctx, path, 16<<20)
package files

import (
	"bufio"
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

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// MakePrivate creates a folder, and those above it, that only the owner can access, with a
// .gitignore that excludes all of it, unless it has one. It is safe to repeat.
func MakePrivate(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return cmp.Or(CheckLink(folder), err)
	}
	ignore := filepath.Join(folder, ".gitignore")
	if _, err := os.Lstat(ignore); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.WriteFile(ignore, []byte("*\n"), 0o644)
	if err != nil {
		_ = os.Remove(ignore) // if it is there, it is empty, and would exclude nothing, for ever
	}
	return err
}

// CheckLink returns an error if path is a link to what does not exist, such as a disk that is not
// mounted.
func CheckLink(path string) error {
	target, err := os.Readlink(path)
	if err != nil { // it is none
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is a link to %s, which is not there", path, target)
	}
	return nil
}

// Write calls write to fill a new file in the same folder, and then renames the new file to
// path. After an error, the old file is unchanged and the new file is removed. The file is only
// accessible to its owner. Write is safe to repeat, and safe for concurrent use by several
// processes: the last one wins.
func Write(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), newPrefix(path)+"*") // mode 0600
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: cmp.Or(errors.Unwrap(err), err)}
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

// IsNew reports whether name is the name of a temporary file of Write for path. A killed
// process may have left such a file.
func IsNew(name, path string) bool { return strings.HasPrefix(name, newPrefix(path)) }

// WriteSynced is like Write for a text. After it has returned, the file survives a power
// failure.
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

// SyncFolder makes the names in a folder survive a power failure. It does nothing on Windows.
func SyncFolder(path string) error {
	if runtime.GOOS == "windows" { // Windows cannot sync a folder
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// CheckWritable creates and removes a file in a folder.
func CheckWritable(folder string) error {
	f, err := os.CreateTemp(folder, ".probe-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Resolve returns a path relative to folder, or path itself if it is absolute.
func Resolve(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// MaxText is the maximum size in bytes of a text file that a user provides, for example a
// prompt, a mapping or a report.
const MaxText = 64 << 20

// Lock waits for the exclusive lock of a file, which it creates if necessary, until ctx ends. Closing the file
// releases the lock.
func Lock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		held, err := TryLock(f, true)
		if held {
			return f, nil
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// File is a file that Open has opened.
type File struct {
	file *os.File
	ctx  context.Context
	stop func() bool
	pipe bool
	read bool // a byte was read
}

// Open opens a regular file or a pipe to be read once from beginning to end. Folders are
// errors, and so are devices, which may have no end. When ctx ends, reading stops with the
// error of ctx, even while it waits for a pipe. A pipe without any data is an error.
func Open(ctx context.Context, path string) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: cmp.Or(errors.Unwrap(err), err)} // instead of "stat"
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder", path)
	case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeNamedPipe:
		return nil, fmt.Errorf("%s is not a file", path)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait for the writer of a pipe
	if err != nil {
		return nil, err
	}
	// Regular files do not support deadlines, but reading them does not wait.
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
	return &File{file: file, ctx: ctx, stop: stop, pipe: !info.Mode().IsRegular()}, nil
}

// Name returns the path that was opened.
func (f *File) Name() string { return f.file.Name() }

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.file.Read(p)
	f.read = f.read || n > 0
	switch {
	case err != nil && f.ctx.Err() != nil:
		err = f.ctx.Err()
	case err == io.EOF && f.pipe && !f.read && len(p) > 0:
		err = fmt.Errorf("nothing came through the pipe %s", f.Name())
	}
	return n, err
}

// Close closes the file.
func (f *File) Close() error {
	f.stop()
	return f.file.Close()
}

// ContextReader returns a reader for r, for example standard input, that returns the error of
// ctx when ctx ends, even while it waits for r. A read that waits then stays blocked until the
// process ends.
func ContextReader(ctx context.Context, r io.Reader) io.Reader {
	in, out := io.Pipe()
	go func() {
		_, err := io.Copy(out, r)
		out.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { out.CloseWithError(ctx.Err()) })
	return in
}

// Text reads text in UTF-8, or with a byte order mark in UTF-16, as UTF-8 without the mark. Editors of Windows write
// the mark, and its PowerShell writes UTF-16.
// Without a mark, reading is not split into small pieces, which made a long line slow.
func Text(r io.Reader) io.Reader {
	in := bufio.NewReader(r)
	if first, _ := in.Peek(1); string(first) < "\xef" { // no mark begins like this; an error is repeated by later reads
		return in
	}
	return transform.NewReader(in, unicode.BOMOverride(transform.Nop))
}

// Read returns the content of a file, opened by Open. A file with more than maxBytes bytes, a number
// of whole MiB, is an error that includes the path.
func Read(ctx context.Context, path string, maxBytes int64) ([]byte, error) {
	f, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // an error after reading does not matter
	raw, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(raw)) > maxBytes:
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxBytes>>20)
	}
	return raw, nil
}
