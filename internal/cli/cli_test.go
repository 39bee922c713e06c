package cli

import (
	"errors"
	"fmt"
	"slices"
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
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ExitCode(tt.err); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	commands := []string{"run", "runs", "score", "show", "serve"}
	for word, want := range map[string]string{"rnus": "runs", "scor": "score", "serv": "serve", "showw": "show", "runss": "runs", "verylongword": "", "xyzzy": ""} {
		if got := Nearest(word, commands); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

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
