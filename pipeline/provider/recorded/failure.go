package recorded

import (
	"errors"
	"math"
	"time"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// failure is an error of a model as it is written.
type failure struct {
	Class        outcome.Class `json:"class"`
	Message      string        `json:"message"`
	Text         string        `json:"text,omitempty"` // the whole chain, if it says more
	Status       int           `json:"status,omitempty"`
	RetryAfterMS int64         `json:"retry_after_ms,omitempty"`
	Retry        bool          `json:"retry,omitempty"`
}

// failureOf describes an error; nil for nil. An error without a
// *pipeline.ModelError has the class that outcome.FailureOf gives it.
func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	found := failure{Text: err.Error()}
	var model *pipeline.ModelError
	if errors.As(err, &model) && model != nil && model.Failure.Class != outcome.OK {
		found.Class, found.Message = model.Failure.Class, model.Failure.Message
		found.Status, found.RetryAfterMS, found.Retry = model.Status, model.RetryAfter.Milliseconds(), model.Retry
	} else {
		known := outcome.FailureOf(err, outcome.Provider)
		found.Class, found.Message = known.Class, known.Message
	}
	if found.Text == (&outcome.Failure{Class: found.Class, Message: found.Message}).Error() {
		found.Text = ""
	}
	return &found
}

// err returns the error again: the same text, and a *pipeline.ModelError in
// its chain.
func (f *failure) err() error {
	if f == nil {
		return nil
	}
	wait := min(max(f.RetryAfterMS, 0), math.MaxInt64/int64(time.Millisecond))
	model := &pipeline.ModelError{
		Failure: outcome.Failure{Class: f.Class, Message: f.Message},
		Status:  f.Status, RetryAfter: time.Duration(wait) * time.Millisecond, Retry: f.Retry,
	}
	if f.Text == "" {
		return model
	}
	return &replayed{text: f.Text, model: model}
}

// replayed is a ModelError in the words of those that had wrapped it.
type replayed struct {
	text  string
	model *pipeline.ModelError
}

func (e *replayed) Error() string { return e.text }
func (e *replayed) Unwrap() error { return e.model }
