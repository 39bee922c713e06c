package cli

import (
	"errors"
	"fmt"
	"slices"
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

func TestFlagsFirst(t *testing.T) {
	takes := func(name string) (bool, bool) {
		switch name {
		case "json":
			return true, false
		case "name", "n":
			return true, true
		}
		return false, false
	}
	tests := map[string]struct{ in, want []string }{
		"already first":      {[]string{"--json", "a"}, []string{"--json", "--", "a"}},
		"after the argument": {[]string{"a", "--name", "x", "--json"}, []string{"--name", "x", "--json", "--", "a"}},
		"inline value":       {[]string{"a", "--name=x", "b"}, []string{"--name=x", "--", "a", "b"}},
		"double dash":        {[]string{"--json", "--", "--name"}, []string{"--json", "--", "--name"}},
		"lone dash":          {[]string{"-", "-n", "x"}, []string{"-n", "x", "--", "-"}},
		"unknown flag":       {[]string{"a", "--jsn"}, []string{"--jsn", "--", "a"}},
		"no arguments":       {[]string{"--json"}, []string{"--json"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := FlagsFirst(tt.in, takes); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
