// Command seed is the command "experiment seed" as a separate program.
package main

import (
	"context"
	"os"

	"extraction-experiment/cmd/internal/gold"
	"extraction-experiment/internal/cli"
)

func main() { os.Exit(gold.Seed(context.Background(), cli.Process())) }
