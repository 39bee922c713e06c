package connect

import (
	"fmt"

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

// InMode is the environment with a mode of Langfuse that is insisted on; see EnvMode.
func InMode(mode string, getenv func(string) string) func(string) string {
	return func(name string) string {
		if name == EnvMode {
			return mode
		}
		return getenv(name)
	}
}
