// Command seed fills datasets in Langfuse, from files and from production
// traces: it checks items, creates and updates them, exports and archives them.
package main

import (
	"context"
	"os"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/terminal"
)

func main() { os.Exit(Main()) }

// Main runs the command line of this process and returns its exit code.
func Main() int {
	return Run(context.Background(), cli.Env{
		Args:     os.Args[1:],
		Stdin:    os.Stdin,
		Stdout:   os.Stdout,
		Stderr:   os.Stderr,
		Getenv:   os.Getenv,
		Terminal: terminal.Width,
	})
}
