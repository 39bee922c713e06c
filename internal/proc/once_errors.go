package proc

import "fmt"

// ExitError says that a program that Once ran ended with another status than 0.
type ExitError struct {
	Program string
	Status  string // "exit status 3", "signal: segmentation fault"
	Stderr  string // the last lines of its standard error
}

// Error says how it ended and what it said last.
func (e *ExitError) Error() string {
	return fmt.Sprintf("%s ended with %s", e.Program, e.Status) + saying(e.Stderr)
}

// UnreadError says that a program ended without having read any of its input,
// so that what it printed cannot be an answer to it.
type UnreadError struct {
	Program string
	Stderr  string
}

// Error says so.
func (e *UnreadError) Error() string {
	return e.Program + " ended without reading its input: read the request from standard input" + saying(e.Stderr)
}

// StrayError says that processes which a program started outlived it. They have
// been killed.
type StrayError struct {
	Program   string
	Processes int
	Stderr    string
}

// Error says how many there were.
func (e *StrayError) Error() string {
	if e.Processes == 1 {
		return e.Program + " ended and left a process running, which was killed: wait for what you start" + saying(e.Stderr)
	}
	return fmt.Sprintf("%s ended and left %d processes running, which were killed: wait for what you start", e.Program, e.Processes) + saying(e.Stderr)
}
