package main

import (
	"os"

	"golang.org/x/term"

	"extraction-experiment/internal/cli"
	"extraction-experiment/report"
)

// printJSON prints a value as one JSON object or list, spread over lines for a
// person at a terminal.
func printJSON(env cli.Env, value any) error {
	return cli.Written(report.JSON(env.Stdout, value, isTerminal(os.Stdout)))
}

// textOptions lays a report out for the terminal of standard output.
func textOptions(env cli.Env, where []string) report.Options {
	return report.Options{Width: stdoutWidth(), Color: isTerminal(os.Stdout) && env.Getenv("NO_COLOR") == "", Where: where}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// stdoutWidth is that of the terminal, and a comfortable one for files and
// pipes.
func stdoutWidth() int {
	const piped = 100
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
		return width
	}
	return piped
}
