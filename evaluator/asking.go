package evaluator

import (
	"errors"
	"net/http"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// What an address or a model is asked at most: the window of the limiter finds
// out what it takes, callers bound how many ask at once.
const (
	mostAtOnce   = 1000
	defaultTries = 4
)

// within puts what is asked over the network under the limiter: it is asked
// again after 429, 5xx and broken connections, and waits as long as it is told.
func (cfg Config) within(asked pipeline.Model, limiter *limit.Limiter, budget *pipeline.Budget) (pipeline.Model, error) {
	return pipeline.Limited(pipeline.LimitedConfig{
		Model: asked, Limiter: limiter, Budget: budget, Tries: cfg.Tries, Pause: cfg.Pause,
	})
}

// Within returns the evaluator with its model drawing on a budget; the limits of
// the provider that were learned are common to both. Only a model has a cost:
// others are returned as they are.
func (e *Evaluator) Within(budget *pipeline.Budget) (*Evaluator, error) {
	if e.cfg.Model == nil {
		return e, nil
	}
	asked, err := e.cfg.within(e.cfg.Model, e.limiter, budget)
	if err != nil {
		return nil, err
	}
	return &Evaluator{cfg: e.cfg, asker: judge{e.cfg, asked}, limiter: e.limiter, asked: asked}, nil
}

// notAnswered says what an error of a limited model means.
func (e *Evaluator) notAnswered(err error) error {
	var fault *Fault
	var tripped *limit.TrippedError
	var failed *pipeline.ModelError
	switch {
	case errors.As(err, &fault):
		return fault
	case errors.As(err, &tripped):
		kind := e.refusal()
		if tripped.Unauthorised || !pipeline.Reached(e.asked) {
			kind = Unreachable
		}
		return &Fault{Kind: kind, Message: err.Error()} // without its cause, which would end a run
	case limit.StopsRun(err):
		return err
	case errors.As(err, &failed) && (failed.Status == http.StatusUnauthorized || failed.Status == http.StatusForbidden || isUnconnected(failed)):
		return &Fault{Unreachable, failed.Failure.Message, err}
	case errors.As(err, &failed):
		return &Fault{e.refusal(), failed.Failure.Message, err}
	}
	return &Fault{e.refusal(), err.Error(), err}
}

// refusal is the kind of a fault where somebody was there and gave no answer.
func (e *Evaluator) refusal() Kind {
	if e.cfg.Model != nil {
		return ModelFailed
	}
	return Status
}

func isUnconnected(failed *pipeline.ModelError) bool {
	return failed.Status == 0 && failed.Failure.Class == outcome.Provider && failed.Retry
}

// newLimiter is the one that an evaluator has to itself.
func newLimiter(pause time.Duration) (*limit.Limiter, error) {
	return limit.New(limit.Config{Most: mostAtOnce, Backoff: pause})
}
