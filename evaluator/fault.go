package evaluator

import (
	"context"
	"errors"

	"extraction-experiment/internal/proc"
)

// Kind says in which way an evaluator misbehaved.
type Kind string

// The kinds of faults.
const (
	NotStarted  Kind = "not_started"  // the program is not there or cannot run
	Unreachable Kind = "unreachable"  // no connection, or no access
	TimedOut    Kind = "timeout"      // no answer in time; it was ended
	Exited      Kind = "exit_status"  // it ended with another status than 0
	Flooded     Kind = "flood"        // more output than an answer may have
	Unread      Kind = "input_unread" // it answered without reading the request
	Strayed     Kind = "left_running" // it ended and left processes behind
	Status      Kind = "http_status"  // an endpoint refused
	ModelFailed Kind = "model"        // the judging model gave no answer
	NotJSON     Kind = "not_json"     // nothing, text, NaN, or more than one value
	BadVerdict  Kind = "bad_verdict"  // JSON, but no verdict: fields, kinds, ranges
)

// Fault is an evaluation without a score.
type Fault struct {
	Kind    Kind
	Message string
	Err     error // the cause, where there is one
}

// Error returns the kind and what happened.
func (f *Fault) Error() string { return string(f.Kind) + ": " + f.Message }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// ExitCode is 69: what was asked for could not be had. Harnesses that expect
// faults count them instead.
func (f *Fault) ExitCode() int { return 69 }

// Unavailable reports whether the evaluator was never there to be asked, so
// that nothing is known of how it judges.
func (f *Fault) Unavailable() bool { return f.Kind == NotStarted || f.Kind == Unreachable }

// ofProgram says what an error of package proc means.
func ofProgram(err error) error {
	kind := NotStarted
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		kind = TimedOut
	case proc.Is(err, proc.Exited):
		kind = Exited
	case proc.Is(err, proc.Flooded):
		kind = Flooded
	case proc.Is(err, proc.Unread):
		kind = Unread
	case proc.Is(err, proc.Orphaned):
		kind = Strayed
	}
	return &Fault{kind, err.Error(), err}
}
