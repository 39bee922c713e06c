// Package cli has what every command needs: exit codes, the process with its streams, and files
// that are written completely or not at all. It knows nothing about single commands or
// experiments.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
)

// Exit codes of every command.
const (
	ExitOK           = 0
	ExitGate         = 1  // a gate or check failed
	ExitIncompatible = 2  // the runs cannot be compared
	ExitFailures     = 4  // finished, with more failed items than allowed, or without a score that was asked for
	ExitInterrupted  = 5  // stopped by a person or a budget; can be resumed
	ExitInconclusive = 6  // only if the command line asks for it
	ExitUsage        = 64 // usage, unknown dataset, malformed input
	ExitUnavailable  = 69 // Langfuse, model or evaluator cannot be reached
	ExitBug          = 70 // a bug in this program
	ExitIO           = 74 // cannot write; can be resumed
)

// precedence orders the codes by severity; the first one of several errors wins.
var precedence = [...]int{ExitBug, ExitIO, ExitInterrupted, ExitUsage, ExitUnavailable, ExitIncompatible, ExitGate, ExitFailures, ExitInconclusive}

// coder is an error that decides the exit code.
type coder interface{ ExitCode() int }

// Error is an error with an exit code.
type Error struct {
	Code int
	Err  error
}

// Errorf returns an Error; %w works as in fmt.Errorf.
func Errorf(code int, format string, args ...any) error {
	return &Error{code, fmt.Errorf(format, args...)}
}

// Usage returns an error with exit code 64.
func Usage(format string, args ...any) error { return Errorf(ExitUsage, format, args...) }

// WithCode adds an exit code to an error that has none. Nil stays nil.
func WithCode(code int, err error) error {
	var coded coder
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &Error{code, err}
}

// WriteError gives an error of writing exit code 74, unless it has a code already: the error may
// come from reading what is written.
func WriteError(err error) error { return WithCode(ExitIO, err) }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its code.
func (e *Error) Unwrap() error { return e.Err }

// ExitCode returns the code.
func (e *Error) ExitCode() int { return e.Code }

// ExitCode returns the exit code of an error: 0 for nil; without a code 5 if a context was
// canceled, and otherwise 70. Of joined errors the most severe code counts, and errors without a
// code are ignored.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	codes := codesOf(err)
	for _, code := range precedence {
		if slices.Contains(codes, code) {
			return code
		}
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	return ExitBug
}

// codesOf returns the outermost code of each branch of an error tree.
func codesOf(err error) []int {
	switch e := err.(type) {
	case coder:
		return []int{e.ExitCode()}
	case interface{ Unwrap() []error }:
		return slices.Concat(Each(e.Unwrap(), codesOf)...)
	case interface{ Unwrap() error }:
		return codesOf(e.Unwrap())
	}
	return nil
}

// JoinDistinct joins errors, but leaves out each whose text an earlier one contains: if a disk
// fails, every writer reports it. It keeps an error that changes the exit code.
func JoinDistinct(problems ...error) error {
	var kept []error
	for _, err := range problems {
		if err == nil {
			continue
		}
		repeated := slices.ContainsFunc(kept, func(earlier error) bool { return strings.Contains(earlier.Error(), err.Error()) })
		with := append(slices.Clip(kept), err)
		if !repeated || ExitCode(errors.Join(with...)) != ExitCode(errors.Join(kept...)) {
			kept = with
		}
	}
	return errors.Join(kept...)
}

// Unjoin returns the errors that errors.Join joined.
func Unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// Report prints an error after the name of the program, and each of several joined errors on its
// own line. It escapes characters that could control the terminal.
func Report(w io.Writer, program string, err error) {
	// Other errors with several causes have a message of their own, which says more than the
	// causes.
	if joined := Unjoin(err); len(joined) > 1 && errors.Join(joined...).Error() == err.Error() {
		for _, one := range joined {
			Report(w, program, one)
		}
		return
	}
	text := strings.TrimRight(textutil.Block(err.Error()), "\n")
	fmt.Fprintln(w, program+": "+strings.ReplaceAll(text, "\n", "\n  "))
}

// Recover turns a panic into exit code 70 and prints a message that asks to report it. It is
// deferred in the outermost function.
func Recover(w io.Writer, code *int) {
	if p := recover(); p != nil {
		*code = ExitBug
		fmt.Fprintf(w, "a bug in this program: %s\n%s\nplease report it with the command that you gave\n", textutil.Block(fmt.Sprint(p)), debug.Stack())
	}
}
