package proc

import (
	"errors"
	"fmt"
	"strings"
)

// ErrClosed is returned by a Call on a Pool that is closed, or is closed
// while the Call waits.
var ErrClosed = errors.New("the pool of programs is closed")

// StartError says that a program could not be started, or that none of its
// processes ever answered a request because each ended first.
type StartError struct {
	Program string
	Err     error
}

// Error names the program and the reason.
func (e *StartError) Error() string {
	return fmt.Sprintf("starting %s: %v", e.Program, e.Err)
}

// Unwrap returns the reason.
func (e *StartError) Unwrap() error { return e.Err }

// ExitCode is that of something that cannot be started.
func (e *StartError) ExitCode() int { return 69 }

// DiedError says that a process ended, or closed its output, before it answered.
type DiedError struct {
	Program string
	Status  string // "exit status 3", "signal: killed", "it closed its standard output"
	Partial bool   // it had begun a line that has no end
	Answers int    // how many requests the process had answered before
	Stderr  string // the last lines of its standard error
}

// Error says how it ended and what it said last.
func (e *DiedError) Error() string {
	text := fmt.Sprintf("%s ended without an answer (%s, after %d answers)", e.Program, e.Status, e.Answers)
	if e.Partial {
		text += "; its last line had no newline"
	}
	return text + saying(e.Stderr)
}

// InterruptedError says that the context ended before the answer came; the
// process was killed. It wraps the context's error.
type InterruptedError struct {
	Program string
	Err     error
	Stderr  string
}

// Error says that the program was killed and what it said last.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("%s was killed before it answered: %v", e.Program, e.Err) + saying(e.Stderr)
}

// Unwrap returns the context's error.
func (e *InterruptedError) Unwrap() error { return e.Err }

// FloodError says that a line, or all that Once reads, was longer than
// Config.MaxLine.
type FloodError struct {
	Program string
	Limit   int  // bytes
	Once    bool // the answer may have many lines: it is all that is printed
	Stderr  string
}

// Error names the limit.
func (e *FloodError) Error() string {
	if e.Once {
		return fmt.Sprintf("%s wrote more than %d bytes: print the answer and nothing else to standard output", e.Program, e.Limit) + saying(e.Stderr)
	}
	return fmt.Sprintf("%s wrote more than %d bytes without an end of line: an answer is one line of JSON", e.Program, e.Limit) + saying(e.Stderr)
}

// DesyncError says that a process printed what no request asked for, so that
// nobody can tell which line answers which request.
type DesyncError struct {
	Program string
	// Before is true if the line was found before the request was sent: then
	// it was printed after an earlier answer, or at the start.
	Before bool
	Line   string // the beginning of the surplus
	Stderr string
}

// Error shows the surplus and says what to do.
func (e *DesyncError) Error() string {
	when := "after its answer"
	if e.Before {
		when = "without being asked"
	}
	return fmt.Sprintf("%s printed more than one line per request: %s came %q; print one line of JSON for each request and everything else to standard error",
		e.Program, when, e.Line) + saying(e.Stderr)
}

// RefusedError says that Config.Accept refused an answer.
type RefusedError struct {
	Program string
	Line    string // the beginning of the answer
	Err     error  // what Accept said
	Stderr  string
}

// Error says why, and shows the beginning of the line.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s answered %q: %v", e.Program, e.Line, e.Err) + saying(e.Stderr)
}

// Unwrap returns what Accept said.
func (e *RefusedError) Unwrap() error { return e.Err }

// saying adds the end of standard error to a message.
func saying(stderr string) string {
	if stderr == "" {
		return ""
	}
	return "; standard error ends with:\n" + strings.TrimRight(stderr, "\n")
}
