package dataset

import (
	"errors"
	"fmt"
	"strings"
)

// SyntaxError is something in a file of items that cannot be used.
type SyntaxError struct {
	File string
	Line int    // from 1; 0 when the whole file is meant
	Path string // which value ("expectedOutput.entities[2].name"); may be empty
	Msg  string
}

// Error gives file, line, path and message: "x.jsonl: line 7: input: …".
func (e *SyntaxError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ": line %d", e.Line)
	}
	if e.Path != "" {
		b.WriteString(": " + e.Path)
	}
	b.WriteString(": " + e.Msg)
	return b.String()
}

// ExitCode is that of malformed input.
func (e *SyntaxError) ExitCode() int { return 64 }

// maxProblems bounds how many problems are kept of one file.
const maxProblems = 100

// Problems collects what is wrong with a file, so that a person sees all of it
// at once; of a hopeless file the first hundred are kept and the rest is
// counted. The zero value is ready to use.
type Problems struct {
	kept []error
	more int
}

// Add takes one more problem; nil is ignored.
func (p *Problems) Add(err error) {
	switch {
	case err == nil:
	case len(p.kept) < maxProblems:
		p.kept = append(p.kept, err)
	default:
		p.more++
	}
}

// Len returns how many problems there were, kept or not.
func (p *Problems) Len() int { return len(p.kept) + p.more }

// Err returns nil when there were none, else an error that lists them one per
// line and has the exit code of malformed input.
func (p *Problems) Err() error {
	if p.Len() == 0 {
		return nil
	}
	all := append([]error(nil), p.kept...)
	if p.more > 0 {
		all = append(all, fmt.Errorf("and %d more problems", p.more))
	}
	return &malformedError{errors.Join(all...)}
}

type malformedError struct{ error }

func (e *malformedError) Unwrap() error { return e.error }

func (e *malformedError) ExitCode() int { return 64 }
