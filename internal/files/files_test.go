package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	errFailed := errors.New("no")
	for _, step := range []struct {
		write func(io.Writer) error
		err   error
		want  string
	}{
		{text("one"), nil, "one"},
		{text("two"), nil, "two"},
		{func(w io.Writer) error { return errors.Join(text("half")(w), errFailed) }, errFailed, "two"},
	} {
		if err := Write(path, step.write); !errors.Is(err, step.err) {
			t.Errorf("%v, want %v", err, step.err)
		}
		if raw, err := Read(t.Context(), path, 3); err != nil || string(raw) != step.want {
			t.Errorf("%q, %v, want %q", raw, err, step.want)
		}
	}
	err := Write(filepath.Join(dir, "none", "a"), text("x"))
	if !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), ".new-") {
		t.Errorf("a folder that is not there: %v", err)
	}
	if err := WriteSynced(path, []byte("six")); err != nil {
		t.Error(err)
	}
	if raw, err := Read(t.Context(), path, 3); err != nil || string(raw) != "six" {
		t.Errorf("%q, %v", raw, err)
	}
	if err := WriteSynced(filepath.Join(dir, "none", "a"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("synced, a folder that is not there: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestMakePrivate_danglingLink: the folder is on a disk that is not there.
func TestMakePrivate_danglingLink(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Symlink("disk", folder); err != nil {
		t.Skip("no links here:", err)
	}
	for name, err := range map[string]error{"MakePrivate": MakePrivate(folder), "CheckLink": CheckLink(folder)} {
		if err == nil || !strings.Contains(err.Error(), "is a link to disk, which is not there") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Mkdir(filepath.Join(filepath.Dir(folder), "disk"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(CheckLink(folder), MakePrivate(folder)); err != nil {
		t.Error(err)
	}
}

func TestRead_refused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		want string
	}{{path, "a is larger than 1 MiB"}, {dir, "is a folder"}, {os.DevNull, "is not a file"}, {path + "x", "no such file"}} {
		if raw, err := Read(t.Context(), tt.path, 1<<20); err == nil || !strings.Contains(err.Error(), tt.want) || raw != nil {
			t.Errorf("%q, %v, want %q", raw, err, tt.want)
		}
	}
}

// TestOpen_pipe reads a pipe while it is written, and stops when the context ends.
func TestOpen_pipe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pipes have a path in Linux")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", r.Fd())
	if _, err := w.WriteString("through"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	f, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 20)
	if n, err := f.Read(got); err != nil || string(got[:n]) != "through" {
		t.Errorf("%q, %v", got[:n], err)
	}
	ended := make(chan error)
	go func() {
		_, err := f.Read(got)
		ended <- err
	}()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a pipe that says nothing ends with %v", err)
	}
	if err := errors.Join(f.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	if raw, err := Read(t.Context(), path, 20); err == nil || !strings.Contains(err.Error(), "nothing came through the pipe") {
		t.Errorf("%q, %v", raw, err)
	}
	if _, err := Read(ctx, path, 20); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestText checks that a byte order mark is removed, and that text without one is read in pieces as
// large as asked for: with small ones, a Scanner looks through a long line again and again.
func TestText(t *testing.T) {
	for raw, want := range map[string]string{
		"": "", "a": "a", "ï": "ï", "\xef\xbb\xbfa": "a", "\xff\xfea\x00": "a", "\xfe\xff\x00a": "a",
	} {
		if got, err := io.ReadAll(Text(strings.NewReader(raw))); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
	}
	r, piece := Text(strings.NewReader(strings.Repeat("a", 1<<20))), make([]byte, 1<<16)
	_, _ = r.Read(piece) // what was read to find a mark
	if n, err := r.Read(piece); n != len(piece) || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// TestContextReader checks that everything is read, and that reading ends with the context.
func TestContextReader(t *testing.T) {
	if all, err := io.ReadAll(ContextReader(t.Context(), strings.NewReader("some text"))); string(all) != "some text" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
	silent, end := io.Pipe()
	defer end.Close()
	ctx, stop := context.WithCancel(t.Context())
	go stop()
	if all, err := io.ReadAll(ContextReader(ctx, silent)); len(all) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v, want the end of the context", all, err)
	}
}

// TestIsNew checks that IsNew recognises the temporary file of Write.
func TestIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a[1].txt")
	if err := Write(path, func(w io.Writer) error {
		if name := filepath.Base(w.(*os.File).Name()); !IsNew(name, path) || IsNew(name, path+"x") {
			t.Errorf("%s is new beside a[1].txt alone", name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if IsNew("a[1].txt", path) {
		t.Error("the file itself is not new")
	}
}

// TestTryLock checks that two shared locks are compatible and that an exclusive lock is not.
func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	try := func(f *os.File, exclusive, want bool) {
		t.Helper()
		if held, err := TryLock(f, exclusive); held != want || err != nil {
			t.Errorf("exclusive %t: %t, %v", exclusive, held, err)
		}
	}
	first, second := open(), open()
	try(first, false, true)
	try(second, false, true)
	try(open(), true, false)
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	try(open(), true, true)
	try(open(), false, false)
}
