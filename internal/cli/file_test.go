package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string, err error) error {
		return WriteFile(path, func(w io.Writer) error {
			_, wrote := io.WriteString(w, text)
			return errors.Join(wrote, err)
		})
	}
	if err := write("first", nil); err != nil {
		t.Fatal(err)
	}
	if err := write("half", errors.New("broke off")); ExitCode(err) != ExitIO {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "first" {
		t.Errorf("an error left %q (%v)", text, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) != 0 {
		t.Errorf("files were left behind: %v", left)
	}
	if err := CanWrite(filepath.Join(path, "x")); ExitCode(err) != ExitUsage {
		t.Errorf("a file as a folder: %v", err)
	}
	if !SameFile(path, filepath.Join(filepath.Dir(path), ".", "f")) || SameFile(path, path+"x") {
		t.Error("SameFile is wrong")
	}
}
