package settings

import (
	"slices"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"

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
			if got, err := order(app, app.Name, list, tt.in); err != nil || !slices.Equal(got, tt.want) {
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
		if got, err := order(app, app.Name, list, in); cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}
