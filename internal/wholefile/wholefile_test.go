package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	no := errors.New("no")
	for _, step := range []struct {
		write func(io.Writer) error
		err   error
		want  string
	}{
		{text("one"), nil, "one"},
		{text("two"), nil, "two"},
		{func(w io.Writer) error { return errors.Join(text("half")(w), no) }, no, "two"},
	} {
		if err := Write(path, step.write); !errors.Is(err, step.err) {
			t.Errorf("%v, want %v", err, step.err)
		}
		if raw, err := Read(path, 3); err != nil || string(raw) != step.want {
			t.Errorf("%q, %v, want %q", raw, err, step.want)
		}
	}
	if err := Write(filepath.Join(dir, "none", "a"), text("x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestRead_refused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		want string
	}{{path, "a is larger than 3 bytes"}, {dir, "is no file"}, {path + "x", "no such file"}} {
		if raw, err := Read(tt.path, 3); err == nil || !strings.Contains(err.Error(), tt.want) || raw != nil {
			t.Errorf("%q, %v, want %q", raw, err, tt.want)
		}
	}
}
