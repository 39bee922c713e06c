package settings

import (
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	urfave "github.com/urfave/cli/v2"
	"pgregory.net/rapid"

	"extraction-experiment/internal/cli"
)

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
			if got, err := flagsFirst(app, app.Name, list, tt.in); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	for want, in := range map[string][]string{
		"--name needs a value": {"a", "--name"},
		"-n needs a value":     {"-n", "--", "a"},
		"--name needs a value; one that looks like a flag is written --name=VALUE": {"a", "--name", "--json"},
		"-n needs a value; one that looks":                                         {"-n", "-name=x"},
		"--out needs a value, and it is empty":                                     {"--out="},
		"--jsn; did you mean --json?":                                              {"a", "--jsn"},
		"no flag --xyzzy (p --help":                                                {"--xyzzy", "a"},
	} {
		if got, err := flagsFirst(app, app.Name, list, in); cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}

// TestRun_values: a value of the wrong type is refused in the words of the help.
func TestRun_values(t *testing.T) {
	list := func() []urfave.Flag {
		return []urfave.Flag{
			&urfave.BoolFlag{Name: "yes"}, &urfave.IntFlag{Name: "n", Aliases: []string{"number"}}, &urfave.Uint64Flag{Name: "seed"},
			&urfave.Float64Flag{Name: "share"}, &urfave.DurationFlag{Name: "timeout"},
		}
	}
	for _, command := range [][]string{nil, {"do"}} {
		for word, want := range map[string]string{
			"--yes=perhaps":      `--yes: "perhaps" is not true or false`,
			"--number=1.5":       `--number: "1.5" is not a whole number`,
			"-n=x":               `-n: "x" is not a whole number`,
			"--number=":          `--number: "" is not a whole number`,
			"--number=\"a\nb\"":  `--number: "\"a\nb\"" is not a whole number`,
			"--number=" + digits: `--number: "` + digits + `" is not in the range of a number`,
			"--seed=-1":          `--seed: "-1" is not a whole number from 0`,
			"--share=much":       `--share: "much" is not a number`,
			"--share=1e999":      `--share: "1e999" is not in the range of a number`,
			"--timeout=soon":     `--timeout: "soon" is not a time such as 90s, 2m or 1m30s`,
		} {
			var stderr strings.Builder
			env := cli.Env{Args: append(slices.Clone(command), word), Stdout: io.Discard, Stderr: &stderr}
			code := Run(t.Context(), env, &urfave.App{Name: "p", Flags: list(), Commands: []*urfave.Command{{Name: "do", Flags: list()}}})
			if code != 64 || stderr.String() != "p: "+want+"\n" {
				t.Errorf("%q %q: exit code %d, %q; want %q", command, word, code, stderr.String(), want)
			}
		}
	}
}

// TestRun_completion: a request for completions runs no command, not even after "--".
func TestRun_completion(t *testing.T) {
	for last, want := range map[string][]string{"--generate-bash-completion": nil, "--yes": {"a", "--yes"}} {
		var got []string
		do := &urfave.Command{Name: "do", Action: func(c *urfave.Context) error { got = c.Args().Slice(); return nil }}
		args := []string{"do", "a", "--", last}
		code := Run(t.Context(), cli.Env{Args: args, Stdout: io.Discard, Stderr: io.Discard}, &urfave.App{Name: "p", Commands: []*urfave.Command{do}})
		if code != 0 || !slices.Equal(got, want) || args[2] != "--" {
			t.Errorf("%q: exit code %d, ran with %q, want %q", args, code, got, want)
		}
	}
}

// digits is a number that overflows every flag.
const digits = "99999999999999999999"

// TestFoldHelp: lines of help fit the terminal, the usage of a flag stays beside or below its
// name, and no word is lost.
func TestFoldHelp(t *testing.T) {
	const help = "OPTIONS:\n" +
		"   --limit N       run at most N items [$EXPERIMENT_LIMIT]\n" +
		"   --quiet         print nothing\n" +
		"   --gate RULE|FILE [ --gate RULE|FILE ]  judge by a rule or a file of rules\n" +
		"   Exit codes: 0 compared, and every rule passed; 1 a rule failed.\n\n"
	const want = "OPTIONS:\n" +
		"   --limit N       run at most N items\n" +
		"                   [$EXPERIMENT_LIMIT]\n" +
		"   --quiet         print nothing\n" +
		"   --gate RULE|FILE [ --gate RULE|FILE ]\n" +
		"          judge by a rule or a file of rules\n" +
		"   Exit codes: 0 compared, and every rule passed;\n" +
		"   1 a rule failed.\n\n"
	if diff := cmp.Diff(want, foldHelp(help, 50)); diff != "" {
		t.Error(diff)
	}
	if got := foldHelp(help, 0); got != help {
		t.Errorf("without a width: %q", got)
	}
	rapid.Check(t, func(rt *rapid.T) {
		line, width := rapid.StringMatching(` {0,8}[a-zé-]{1,20}( {1,4}[a-zé]{1,12}){0,20}`).Draw(rt, "line"), rapid.IntRange(40, 90).Draw(rt, "width")
		folded := foldHelp(line+"\n", width)
		if !slices.Equal(strings.Fields(line), strings.Fields(folded)) {
			rt.Fatalf("%q became %q", line, folded)
		}
		for l := range strings.Lines(folded) {
			if n := utf8.RuneCountInString(strings.TrimSpace(l)); n > width {
				rt.Fatalf("%q has %d of %d columns", l, n, width)
			}
		}
	})
}

// TestRun_helpNotWritten: help that cannot be written is an error of exit code 74.
func TestRun_helpNotWritten(t *testing.T) {
	var stderr strings.Builder
	closed, w := io.Pipe()
	_ = closed.Close()
	env := cli.Env{Args: []string{"--help"}, Stdout: w, Stderr: &stderr, Getenv: func(string) string { return "" }}
	if code := Run(t.Context(), env, &urfave.App{Name: "p"}); code != 74 || stderr.String() != "p: io: read/write on closed pipe\n" {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}

// TestExplainOpenFiles: an error for want of open files has exit code 74 and says what to raise; others stay.
func TestExplainOpenFiles(t *testing.T) {
	refused := &fs.PathError{Op: "open", Path: "r.run", Err: syscall.EMFILE}
	for err, want := range map[error]int{
		nil: cli.ExitOK, cli.Usage("run file r.run cannot be read: %w", refused): cli.ExitIO,
		cli.Usage("there is no run"): cli.ExitUsage,
	} {
		got := explainOpenFiles(err)
		advised := got != nil && strings.Contains(got.Error(), "ulimit -n")
		if cli.ExitCode(got) != want || advised != (want == cli.ExitIO) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
