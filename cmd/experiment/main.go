// Command experiment runs knowledge extraction experiments and records them in
// Langfuse.
package main

import (
	"context"
	"os"

	"extraction-experiment/internal/cli"
)

func main() { os.Exit(Main()) }

// Main runs the command line of this process and returns its exit code.
func Main() int { return Run(context.Background(), cli.Process()) }
