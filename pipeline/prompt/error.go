package prompt

import "strings"

// Error says everything that is wrong with a template, its variables or the
// values for it, before anything is sent.
type Error struct {
	Problems []string
}

// Error joins the problems.
func (e *Error) Error() string { return "the prompt cannot be used: " + strings.Join(e.Problems, "; ") }

// ExitCode is that of malformed input.
func (e *Error) ExitCode() int { return 64 }
