package runstore

import "fmt"

// LineError is a line of an export that cannot be imported.
type LineError struct {
	File string // "" if not known
	Line int    // from 1
	Err  error
}

// Error reads "reading run.jsonl: line 7: …".
func (e *LineError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("reading an exported run: line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("reading %s: line %d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// ExitCode is 64: malformed input.
func (e *LineError) ExitCode() int { return 64 }
