// Package output writes what a command says, fit for the terminal, file or pipe that
// it is: results on standard output, the progress of a run on standard error.
package output

import (
	"os"
	"strconv"

	"golang.org/x/term"

	"extraction-experiment/internal/cli"
	"extraction-experiment/report"
)

// JSON prints a value as one JSON object or list, spread over lines for a
// person at a terminal.
func JSON(env cli.Env, value any) error {
	return cli.Written(report.JSON(env.Stdout, value, isTerminal(os.Stdout)))
}

// Text lays a report out for the terminal of standard output, or for a
// file or pipe, where tables are whole.
func Text(env cli.Env, where []string) report.Options {
	opt := report.Options{Color: isTerminal(os.Stdout) && env.Getenv("NO_COLOR") == "", Where: where}
	opt.Width, opt.Whole = stdoutWidth(env.Getenv("COLUMNS"))
	return opt
}

// Width is the width that a table must keep to on standard output; 0: any.
func Width(env cli.Env) int {
	width, whole := stdoutWidth(env.Getenv("COLUMNS"))
	if whole {
		return 0
	}
	return width
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// stdoutWidth is what COLUMNS says, else the width of the terminal. Where there
// is neither, text is as wide as is comfortable, and tables are whole.
func stdoutWidth(columns string) (width int, whole bool) {
	const comfortable = 100
	if n, err := strconv.Atoi(columns); err == nil && n > 0 {
		return n, false
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
		return width, false
	}
	return comfortable, true
}
