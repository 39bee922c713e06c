package external

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"extraction-experiment/internal/printable"
	"extraction-experiment/internal/proc"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// ConfigError says what is wrong with a Config.
type ConfigError struct{ Err error }

// Error lists every problem.
func (e *ConfigError) Error() string { return "opening the pipeline: " + e.Err.Error() }

// Unwrap returns the problems.
func (e *ConfigError) Unwrap() error { return e.Err }

// ExitCode is that of a wrong usage.
func (e *ConfigError) ExitCode() int { return 64 }

// failure is a ModelError that keeps its cause, for its type and exit code.
type failure struct {
	*pipeline.ModelError
	cause error
}

func (f failure) Unwrap() []error { return []error{f.ModelError, f.cause} }

// fail makes an error of a class.
func fail(class outcome.Class, retry bool, message string, cause error) error {
	e := &pipeline.ModelError{Failure: outcome.Failure{Class: class, Message: message}, Retry: retry}
	if cause == nil {
		return e
	}
	return failure{e, cause}
}

// classify gives an error of package proc its class. A program that ended may
// do better next time; one that prints what it should not will do so again.
func classify(ctx context.Context, err error) error {
	var start *proc.StartError
	var died *proc.DiedError
	var interrupted *proc.InterruptedError
	switch {
	case errors.Is(err, proc.ErrClosed) && !errors.As(err, &interrupted):
		return fail(outcome.Provider, false, err.Error(), err)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		class := outcome.Provider
		if errors.Is(err, context.DeadlineExceeded) {
			class = outcome.Timeout
		}
		return fail(class, true, err.Error(), err)
	case errors.As(err, &start):
		return fail(outcome.Provider, false, err.Error(), err)
	case errors.As(err, &died), errors.As(err, &interrupted):
		return fail(outcome.Provider, true, err.Error(), err)
	default:
		return fail(outcome.InvalidOutput, false, err.Error(), err)
	}
}

// reported are the classes that a pipeline may give its own failure; internal
// is ours alone.
func reported() []outcome.Class {
	return slices.DeleteFunc(outcome.Classes(), func(c outcome.Class) bool { return c == outcome.Internal })
}

// readError reads the "error" of an answer: an object with class and message,
// or a text. It returns nil where there is none: absent, null, false, or empty.
func readError(raw json.RawMessage, otherwise outcome.Class) *outcome.Failure {
	var object struct {
		Class   string `json:"class"`
		Message string `json:"message"`
	}
	var text string
	switch trimmed := strings.TrimSpace(string(raw)); {
	case trimmed == "" || trimmed == "null" || trimmed == "false":
		return nil
	case json.Unmarshal(raw, &text) == nil:
		object.Message = text
	case json.Unmarshal(raw, &object) != nil:
		object.Message = "the pipeline reports an error in a form that is not known: " + printable.Cut(string(raw), 200)
	}
	if object.Class == "" && object.Message == "" {
		return nil
	}
	if object.Message == "" {
		object.Message = "the pipeline reports a failure without a message"
	}
	class := outcome.Class(strings.ToLower(strings.TrimSpace(object.Class)))
	if !slices.Contains(reported(), class) {
		class = otherwise
	}
	return &outcome.Failure{Class: class, Message: printable.Cut(object.Message, outcome.MaxMessage)}
}
