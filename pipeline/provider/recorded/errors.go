package recorded

import (
	"fmt"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// FileError says why a file cannot be used as a cassette.
type FileError struct {
	Path string
	Line int // from 1; 0 if it is about the whole file
	Err  error
}

// Error names file, line and problem.
func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("reading the cassette %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("reading the cassette %s: line %d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns the problem.
func (e *FileError) Unwrap() error { return e.Err }

// ExitCode is that of malformed input.
func (*FileError) ExitCode() int { return 64 }

// WriteError says that a cassette could not be written. To an item it is an
// internal failure that asking again does not mend.
type WriteError struct {
	Path string
	Err  error
}

// Error names the file and the problem.
func (e *WriteError) Error() string {
	return fmt.Sprintf("writing the cassette %s: %v; what was recorded before is whole", e.Path, e.Err)
}

// Unwrap returns the cause, and the failure as a *pipeline.ModelError.
func (e *WriteError) Unwrap() []error {
	failure := outcome.Failure{Class: outcome.Internal, Message: e.Error()}
	return []error{e.Err, &pipeline.ModelError{Failure: failure}}
}

// ExitCode is that of a file that cannot be written.
func (*WriteError) ExitCode() int { return 74 }
