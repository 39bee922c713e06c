package runstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
)

// commitUntilFull commits until the limit of the file size is reached and prints the committed
// items. It checks that the run then refuses all writes.
func commitUntilFull(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	run, err := Open(path)
	if err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: 3 << 20, Max: 3 << 20}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for n := range childItems {
		o := testOutcome(n, 4000)
		err := run.Commit(context.Background(), o)
		if errors.Is(err, ErrWrite) {
			break
		}
		if err != nil {
			return err
		}
		fmt.Println(o.Item)
	}
	if err := run.Commit(context.Background(), testOutcome(childItems-1, 10)); !errors.Is(err, ErrWrite) {
		return fmt.Errorf("a broken run takes more: %w", err)
	}
	return run.Close()
}

func TestDisk_full(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("a small file system cannot be mounted here:", err)
	}
	t.Cleanup(func() { noError(t, syscall.Unmount(folder, 0)) })
	run, err := Create(filepath.Join(folder, "full.run"), testHeader())
	noError(t, err)
	noError(t, run.AddItems(t.Context(), testItems(0, 1000)))
	committed := 0
	for err == nil && committed < 1000 {
		if err = run.Commit(t.Context(), testOutcome(committed, 8000)); err == nil {
			committed++
		}
	}
	if !errors.Is(err, ErrWrite) {
		t.Errorf("the disk is full: %v", err)
	}
	noError(t, run.Close())
	r := mustLoad(t, run.Path())
	if got := collect(t, r, Query{}); len(got) != committed {
		t.Errorf("%d outcomes are there, %d were promised", len(got), committed)
	}
	export := filepath.Join(t.TempDir(), "full.jsonl")
	noError(t, files.Write(export, func(w io.Writer) error { return r.Export(t.Context(), w) }))
	t.Setenv("TMPDIR", folder)
	if _, err := OpenAny(t.Context(), export); cli.ExitCode(err) != cli.ExitIO || !strings.Contains(err.Error(), export) ||
		!strings.Contains(err.Error(), "TMPDIR") || strings.Contains(err.Error(), "resume") {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(folder, "run-*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestDisk_nearlyFull opens and builds runs with more and more room on the disk: each error is
// that of a full disk, also where SQLite calls it an I/O error, and no temporary file stays.
func TestDisk_nearlyFull(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("a small file system cannot be mounted here:", err)
	}
	t.Cleanup(func() { noError(t, syscall.Unmount(folder, 0)) })
	path, filler, failed := filepath.Join(folder, "old.run"), filepath.Join(folder, "filler"), 0
	run, err := Create(path, testHeader())
	noError(t, err)
	noError(t, run.Close())
	for pages := range 50 {
		_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600) // fails when the disk is full
		info, err := os.Stat(filler)
		noError(t, err)
		noError(t, os.Truncate(filler, max(0, info.Size()-int64(pages*4096))))
		run, openErr := Open(path)
		if openErr == nil {
			noError(t, run.Close())
		}
		buildErr := Build(filepath.Join(folder, "new.run"), testHeader(), func(r *Run) error {
			return r.AddItems(t.Context(), testItems(0, 10))
		})
		for _, err := range []error{openErr, buildErr} {
			if err != nil && !errors.Is(err, ErrWrite) {
				t.Errorf("room for %d pages: %v", pages, err)
			}
		}
		if buildErr != nil {
			failed++
		}
		noError(t, ignoreMissing(os.Remove(filepath.Join(folder, "new.run"))))
		noError(t, os.Remove(filler))
		if left, err := filepath.Glob(filepath.Join(folder, ".*")); err != nil || len(left) > 0 {
			t.Fatalf("room for %d pages: %v is left, %v", pages, left, err)
		}
	}
	if failed == 0 || failed == 50 {
		t.Errorf("%d of 50 failed", failed)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	folder := t.TempDir()
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	noError(t, os.Chmod(folder, 0o500))
	t.Cleanup(func() { noError(t, os.Chmod(folder, 0o700)) })
	if _, err := Create(filepath.Join(folder, "x.run"), testHeader()); !errors.Is(err, ErrWrite) {
		t.Error(err)
	}
}

// TestUnreadable: the error says why, which SQLite does not.
func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	path := filepath.Join(t.TempDir(), "x.run")
	noError(t, os.WriteFile(path, nil, 0))
	if _, err := Load(path); !errors.Is(err, ErrRead) || !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
}

// TestReadOnlyLog: a killed run in a read-only folder cannot be read, and the error says what helps.
func TestReadOnlyLog(t *testing.T) {
	folder, path := t.TempDir(), filepath.Join(t.TempDir(), "x.run")
	run, err := Create(path, testHeader())
	noError(t, err)
	defer func() { noError(t, run.Close()) }()
	noError(t, run.AddItems(t.Context(), testItems(0, 1)))
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(path + suffix)
		noError(t, err)
		noError(t, os.WriteFile(filepath.Join(folder, "x.run"+suffix), raw, 0o600))
	}
	if err := syscall.Mount(folder, folder, "", syscall.MS_BIND, ""); err != nil {
		t.Skip("a folder cannot be mounted here:", err)
	}
	t.Cleanup(func() { noError(t, syscall.Unmount(folder, 0)) })
	noError(t, syscall.Mount("", folder, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if _, err := Load(filepath.Join(folder, "x.run")); !errors.Is(err, ErrRead) || !strings.Contains(err.Error(), "copy both") {
		t.Error(err)
	}
}
