// Command seed is "experiment seed" as a program of its own.
package main

import (
	"context"
	"os"

	"extraction-experiment/cmd/internal/gold"
	"extraction-experiment/internal/cli"
)

func main() { os.Exit(gold.Seed(context.Background(), cli.Process())) }
