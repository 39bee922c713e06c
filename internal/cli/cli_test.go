package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestExitCode(t *testing.T) {
	tests := map[string]struct {
		err  error
		want int
	}{
		"nil":                            {nil, 0},
		"no code":                        {errors.New("x"), 70},
		"canceled":                       {fmt.Errorf("connecting: %w", context.Canceled), 5},
		"canceled, with a code":          {WriteError(context.Canceled), 74},
		"wrapped":                        {fmt.Errorf("running: %w", Usage("x")), 64},
		"joined, the most severe counts": {errors.Join(Errorf(ExitFailures, "a"), Errorf(ExitUnavailable, "b")), 69},
		"interrupted beats unavailable":  {errors.Join(Errorf(ExitUnavailable, "a"), Errorf(ExitInterrupted, "b")), 5},
		"the outer code counts":          {Errorf(ExitIO, "writing: %w", Usage("x")), 74},
		"a remark beside a code":         {errors.Join(Errorf(ExitFailures, "a"), errors.New("the second of two")), 4},
		"a code is given":                {fmt.Errorf("x: %w", WriteError(errors.New("disk full"))), 74},
		"a code is kept":                 {WriteError(fmt.Errorf("reading: %w", Usage("x"))), 64},
		"no error gets no code":          {WriteError(nil), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ExitCode(tt.err); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestReport(t *testing.T) {
	fault := two{errors.New("run file x is damaged"), nil}
	tests := map[string]struct {
		err  error
		want string
	}{
		"one":                      {errors.New("bad"), "p: bad\n"},
		"joined":                   {errors.Join(errors.New("a"), errors.New("b")), "p: a\np: b\n"},
		"joined in joined":         {errors.Join(errors.Join(errors.New("a"), errors.New("b")), errors.New("c")), "p: a\np: b\np: c\n"},
		"a list with its own text": {fault, "p: two things\n"},
		"wrapped list":             {fmt.Errorf("reading: %w", errors.Join(errors.New("a"), errors.New("b"))), "p: reading: a\n  b\n"},
		"steering characters":      {errors.New("a\x1b[2Jb\u202ec"), "p: a\\x1b[2Jb\\u202ec\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			Report(&b, "p", tt.err)
			if b.String() != tt.want {
				t.Errorf("got %q, want %q", b.String(), tt.want)
			}
		})
	}
}

func TestRecover(t *testing.T) {
	var b strings.Builder
	code := 0
	func() {
		defer Recover(&b, &code)
		panic("\x1b[2Jworse")
	}()
	if code != ExitBug || !strings.Contains(b.String(), `a bug in this program: \x1b[2Jworse`) || !strings.Contains(b.String(), "please report") {
		t.Errorf("code %d: %q", code, b.String())
	}
}

// two is an error with its own message and several causes, one of them nil.
type two struct{ a, b error }

func (two) Error() string     { return "two things" }
func (t two) Unwrap() []error { return []error{t.a, t.b} }

// TestDistinct: repeated errors are left out, unless they decide the exit code.
func TestDistinct(t *testing.T) {
	full := errors.New("no space left")
	for name, tt := range map[string]struct {
		problems []error
		kept     int
	}{
		"said already":      {[]error{Errorf(ExitIO, "writing: %w", full), nil, Errorf(ExitIO, "%w", full)}, 1},
		"said later":        {[]error{full, Errorf(ExitIO, "writing: %w", full)}, 2},
		"a worse exit code": {[]error{Errorf(ExitInterrupted, "stopped: %w", full), Errorf(ExitIO, "%w", full)}, 2},
	} {
		got := Unjoin(JoinDistinct(tt.problems...))
		if len(got) != tt.kept || ExitCode(errors.Join(got...)) != ExitIO {
			t.Errorf("%s: %q", name, got)
		}
	}
}

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
}

// TestWriteFile_danglingLink: a file that is not there yet is made where links to it lead.
func TestWriteFile_danglingLink(t *testing.T) {
	folder := t.TempDir()
	first, second := filepath.Join(folder, "first"), filepath.Join(folder, "second")
	if err := errors.Join(os.Symlink("second", first), os.Symlink(filepath.Join(folder, "target"), second)); err != nil {
		t.Skip(err)
	}
	err := WriteFile(first, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	})
	text, errRead := os.ReadFile(filepath.Join(folder, "target"))
	if _, errLink := os.Readlink(first); errors.Join(err, errRead, errLink) != nil || string(text) != "new" {
		t.Errorf("%q, %v, want new and a link", text, errors.Join(err, errRead, errLink))
	}
}

// TestWriteFile_links: a link stays, and what standard output is receives the text after what it has,
// as with /dev/stdout >>log.
func TestWriteFile_links(t *testing.T) {
	folder, usual := t.TempDir(), os.Stdout
	t.Cleanup(func() { os.Stdout = usual })
	target, link := filepath.Join(folder, "target"), filepath.Join(folder, "link")
	if err := errors.Join(os.WriteFile(target, []byte("old,"), 0o600), os.Symlink(target, link)); err != nil {
		t.Skip(err)
	}
	log, err := os.OpenFile(target, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, tt := range []struct {
		stdout *os.File
		want   string
	}{{log, "old,new"}, {usual, "new"}} {
		os.Stdout = tt.stdout
		err := WriteFile(link, func(w io.Writer) error {
			_, err := io.WriteString(w, "new")
			return err
		})
		text, errRead := os.ReadFile(target)
		if _, errLink := os.Readlink(link); errors.Join(err, errRead, errLink) != nil || string(text) != tt.want {
			t.Errorf("%q, %v, want %q and a link", text, errors.Join(err, errRead, errLink), tt.want)
		}
	}
}

func TestCanWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(file, "b"):      "a is not a folder",
		filepath.Join(dir, "no", "b"): "writing ",
		dir:                           "it is a folder",
	} {
		if err := CanWrite(path); ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if err := errors.Join(CanWrite(file), CanWrite(filepath.Join(dir, "new"))); err != nil {
		t.Error(err)
	}
	if !SameFile(file, filepath.Join(dir, ".", "a")) || SameFile(file, dir) || SameFile(file, file+"x") {
		t.Error("a file is the same only as itself")
	}
}

// TestTerminalWidth: a terminal without a size, or whose cursor cannot be moved, counts as none, so that
// progress is printed in lines.
func TestTerminalWidth(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil || runtime.GOOS != "linux" { // elsewhere this end of a terminal is none
		t.Skip("no terminal: ", err)
	}
	defer terminal.Close()
	defer func(before *os.File) { os.Stderr = before }(os.Stderr)
	os.Stderr = terminal
	check := func(kind string, want int) {
		t.Helper()
		t.Setenv("TERM", kind)
		if got := Process().Terminal(); got != want {
			t.Errorf("TERM=%s: %d columns, want %d", kind, got, want)
		}
	}
	check("xterm", 0)
	resize := exec.Command("stty", "cols", "100", "rows", "30")
	if resize.Stdin = terminal; resize.Run() == nil {
		check("xterm", 100)
		check("dumb", 0)
	}
}

// Go's HTTP client prints with package log what a server sends unasked on a connection that is kept.
func TestProcess_printsNoLog(t *testing.T) {
	before := log.Writer()
	defer log.SetOutput(before)
	if Process(); log.Writer() != io.Discard {
		t.Error("package log prints")
	}
}
