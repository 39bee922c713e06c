package connect

import (
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// modeError says that the server cannot be spoken to in the mode that was asked
// for.
type modeError struct{ asked, is langfuse.Mode }

// Error tells what the server is and what to do.
func (e *modeError) Error() string {
	return fmt.Sprintf("the mode %s was asked for (--langfuse-mode, %s), and the server is of mode %s: leave it out, and it is found out", e.asked, EnvMode, e.is)
}

// ExitCode returns 64.
func (e *modeError) ExitCode() int { return cli.ExitUsage }

// ModeUsage is the help of --langfuse-mode.
const ModeUsage = "insist on `MODE` of Langfuse, v3, v4 or v4-dual: an error where the server is found not to have it (default: found out)"

// ModeFlag is --langfuse-mode of a command that has no settings.
func ModeFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "langfuse-mode", Usage: fmt.Sprintf("%s [$%s]", ModeUsage, EnvMode)}
}

// FlagMode is the environment with what ModeFlag says.
func FlagMode(c *urfave.Context, getenv func(string) string) (func(string) string, error) {
	mode := c.String("langfuse-mode")
	if !c.IsSet("langfuse-mode") {
		return getenv, nil
	}
	if _, err := langfuse.ParseMode(mode); err != nil {
		return nil, cli.Usage("--langfuse-mode: %w", err)
	}
	return InMode(mode, getenv), nil
}

// InMode is the environment with a mode of Langfuse that is insisted on; see EnvMode.
func InMode(mode string, getenv func(string) string) func(string) string {
	return func(name string) string {
		if name == EnvMode {
			return mode
		}
		return getenv(name)
	}
}
