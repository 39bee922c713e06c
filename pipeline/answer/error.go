package answer

import (
	"strings"

	"extraction-experiment/outcome"
)

// Error says what is wrong with an answer. Its problems are written for the
// model that is asked again as well as for a person.
type Error struct {
	Problems []string
	// Truncated says that the text ended before anything of it was complete.
	Truncated bool
}

// Error joins the problems.
func (e *Error) Error() string { return "reading the answer: " + strings.Join(e.Problems, "; ") }

// Unwrap returns the failure of class InvalidOutput that an item has which ends
// so.
func (e *Error) Unwrap() error {
	return &outcome.Failure{Class: outcome.InvalidOutput, Message: e.Error()}
}
