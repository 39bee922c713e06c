package files

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestMakePrivate_full: a .gitignore that could not be written is not left behind empty, where it
// would exclude nothing, but written the next time.
func TestMakePrivate_full(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := func(size uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
	}
	limit(0)
	err := MakePrivate(folder)
	limit(old.Cur)
	if err == nil {
		t.Error("nothing could be written, and there was no error")
	}
	if err := MakePrivate(folder); err != nil {
		t.Error(err)
	}
	if raw, err := os.ReadFile(filepath.Join(folder, ".gitignore")); string(raw) != "*\n" {
		t.Errorf("%q, %v", raw, err)
	}
}
