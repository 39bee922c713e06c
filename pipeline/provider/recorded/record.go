package recorded

import (
	"context"
	"errors"

	"extraction-experiment/internal/limit"
	"extraction-experiment/pipeline"
)

// Record returns a model that asks another and writes every exchange to the
// tape, answers and errors alike, in the order in which they end. Equal
// requests are numbered in the order in which they begin.
//
// A call that was cancelled is not written, nor is one that was not made because
// the run stops (limit.StopsRun): nothing was answered, and it is made again when
// the run is resumed. One that ran out of time is, as an error of class timeout. If writing fails, the answer
// comes back together with a *WriteError (exit code 74), and the model is not
// asked again: every later call returns that error at once. It is safe for
// concurrent use if the model is.
func Record(model pipeline.Model, tape *Tape) pipeline.Model {
	return recorder{model: model, tape: tape}
}

type recorder struct {
	model pipeline.Model
	tape  *Tape
}

// Generate asks the model and writes what it answers.
func (r recorder) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	line, err := r.tape.begin(req)
	if err != nil {
		return pipeline.Response{}, err
	}
	response, err := r.model.Generate(ctx, req)
	if errors.Is(err, context.Canceled) || limit.StopsRun(err) {
		return response, err
	}
	line.Error = failureOf(err)
	if err == nil || response != (pipeline.Response{}) {
		line.Response = &response
	}
	if problem := r.tape.write(line); problem != nil {
		return response, errors.Join(err, problem)
	}
	return response, err
}
