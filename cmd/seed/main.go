// Command seed is "experiment seed" as a program of its own.
package main

import (
	"os"

	"extraction-experiment/cmd/internal/seedcmd"
)

func main() { os.Exit(seedcmd.Main()) }
