package cache

import (
	"context"
	"strings"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Cached returns a model that answers from the folder where it can, and asks
// another where it cannot. Put it over limits and budgets: a hit waits for
// nothing and costs nothing.
//
// A hit is marked Cached and has the text, finish reason and model name of the
// answer as it was given; its cost is 0, and so are its usage, attempts and
// waiting. In a context of a pipeline.Trial the answers of different trials are
// kept apart, and none is given Again: a new one replaces it. Errors are those
// of the model and not kept; an answer that cannot be kept is no error, see
// Folder.Err. Equal requests that run at the same time may both be sent. Safe
// for concurrent use if the model is.
func Cached(model pipeline.Model, folder *Folder, source Source) pipeline.Model {
	return cached{model, folder, source}
}

type cached struct {
	model  pipeline.Model
	folder *Folder
	source Source
}

// Generate looks for the answer, and asks for it if there is none.
func (c cached) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	trial := pipeline.TrialOf(ctx)
	key, err := keyOf(c.source, trial.Number, req)
	if err != nil { // a schema that is no JSON: for the model to refuse
		return c.model.Generate(ctx, req)
	}
	if !trial.Again && ctx.Err() == nil {
		if response, ok := c.folder.load(ctx, key); ok {
			free := 0.0
			response.Usage, response.CostUSD = outcome.Usage{}, &free
			response.Cached, response.Attempts = true, 0
			return response, nil
		}
	}
	response, err := c.model.Generate(ctx, req)
	if err == nil && usable(response) {
		c.folder.store(key, response)
	}
	return response, err
}

// usable reports whether an answer is worth keeping.
func usable(r pipeline.Response) bool {
	return r.Finish != pipeline.FinishLength && r.Finish != pipeline.FinishRefused && strings.TrimSpace(r.Text) != ""
}
