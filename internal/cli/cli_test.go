package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"
)

func TestExitCode(t *testing.T) {
	tests := map[string]struct {
		err  error
		want int
	}{
		"nil":                            {nil, 0},
		"no code":                        {errors.New("x"), 70},
		"wrapped":                        {fmt.Errorf("running: %w", Usage("x")), 64},
		"joined, the most severe counts": {errors.Join(Errorf(ExitFailures, "a"), Errorf(ExitUnavailable, "b")), 69},
		"interrupted beats unavailable":  {errors.Join(Errorf(ExitUnavailable, "a"), Errorf(ExitInterrupted, "b")), 5},
		"the outer code counts":          {Errorf(ExitIO, "writing: %w", Usage("x")), 74},
		"a remark beside a code":         {errors.Join(Errorf(ExitFailures, "a"), errors.New("the second of two")), 4},
		"a code is given":                {fmt.Errorf("x: %w", Written(errors.New("disk full"))), 74},
		"a code is kept":                 {Written(fmt.Errorf("reading: %w", Usage("x"))), 64},
		"no error gets no code":          {Written(nil), 0},
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
	if code != ExitBug || !strings.Contains(b.String(), `a fault of this program: \x1b[2Jworse`) || !strings.Contains(b.String(), "please report") {
		t.Errorf("code %d: %q", code, b.String())
	}
}

// two is an error with a text of its own and several causes, one of them nil.
type two struct{ a, b error }

func (two) Error() string     { return "two things" }
func (t two) Unwrap() []error { return []error{t.a, t.b} }

// TestDistinct: what is said already is left out, unless it decides the exit
// code.
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
		got := Separate(Distinct(tt.problems...))
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
	if err := CanWrite(filepath.Join(path, "x")); ExitCode(err) != ExitUsage {
		t.Errorf("a file as a folder: %v", err)
	}
	if !SameFile(path, filepath.Join(filepath.Dir(path), ".", "f")) || SameFile(path, path+"x") {
		t.Error("SameFile is wrong")
	}
}

func TestOrder(t *testing.T) {
	list := []urfave.Flag{
		&urfave.BoolFlag{Name: "json"}, &urfave.StringFlag{Name: "name", Aliases: []string{"n"}},
		&urfave.StringFlag{Name: "out", Usage: "write `FILE|RUN`"}, Setting{Flag: "retry", Bare: true}.AsFlag(),
	}
	app := &urfave.App{Name: "p", Commands: []*urfave.Command{{}}}
	tests := map[string]struct{ in, want []string }{
		"already first":      {[]string{"--json", "a"}, []string{"--json", "--", "a"}},
		"after the argument": {[]string{"a", "--name", "x", "--json"}, []string{"--name", "x", "--json", "--", "a"}},
		"inline value":       {[]string{"a", "--name=x", "b"}, []string{"--name=x", "--", "a", "b"}},
		"double dash":        {[]string{"--json", "--", "--name"}, []string{"--json", "--", "--name"}},
		"lone dash":          {[]string{"-", "-n", "x"}, []string{"-n", "x", "--", "-"}},
		"a bare flag":        {[]string{"--retry", "a"}, []string{"--retry", "--", "a"}},
		"an empty value":     {[]string{"--name", "", "--out=x"}, []string{"--name", "", "--out=x"}},
		"a value with dash":  {[]string{"a", "--name=--json"}, []string{"--name=--json", "--", "a"}},
		"standard output":    {[]string{"a", "-n", "-"}, []string{"-n", "-", "--", "a"}},
		"a negative number":  {[]string{"a", "--name", "-0.02"}, []string{"--name", "-0.02", "--", "a"}},
		"a negative time":    {[]string{"a", "--name", "-1s"}, []string{"--name", "-1s", "--", "a"}},
		"no arguments":       {[]string{"--json"}, []string{"--json"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := order(app, list, tt.in); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	for want, in := range map[string][]string{
		"--name needs a value":                     {"a", "--name"},
		"-n needs a value":                         {"-n", "--", "a"},
		"--name needs a value, and --json looks":   {"a", "--name", "--json"},
		"--name=--jsn if it is the value":          {"--name", "--jsn", "a"},
		"-n needs a value, and -name=x looks like": {"-n", "-name=x"},
		"--out needs a value, and it is empty":     {"--out="},
		"--jsn; did you mean --json?":              {"a", "--jsn"},
		"no flag --xyzzy (p --help":                {"--xyzzy", "a"},
	} {
		if got, err := order(app, list, in); ExitCode(err) != 64 || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}
