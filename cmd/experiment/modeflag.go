package main

import (
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// modeUsage is the help of --langfuse-mode.
const modeUsage = "insist on `MODE` of Langfuse, v3, v4 or v4-dual: an error where the server is found not to have it (default: found out)"

// modeFlag is --langfuse-mode of a command that has no settings.
func modeFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "langfuse-mode", Usage: fmt.Sprintf("%s [$%s]", modeUsage, connect.EnvMode)}
}

// flaggedMode is the environment with what modeFlag says.
func flaggedMode(c *urfave.Context, getenv func(string) string) (func(string) string, error) {
	if !c.IsSet("langfuse-mode") {
		return getenv, nil
	}
	mode := c.String("langfuse-mode")
	if _, err := langfuse.ParseMode(mode); err != nil {
		return nil, cli.Usage("--langfuse-mode: %w", err)
	}
	return insisting(mode, getenv), nil
}

// insisting is the environment with a mode of Langfuse; see connect.EnvMode.
func insisting(mode string, getenv func(string) string) func(string) string {
	return func(name string) string {
		if name == connect.EnvMode {
			return mode
		}
		return getenv(name)
	}
}
