package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// tries are the requests of one call.
type tries struct {
	*limited
	tokens             int64         // estimated for each
	took               time.Duration // by the last one
	failed, rejections int
	answers            int64 // of the limiter, before the last request
	retryPause         time.Duration
	over               bool // asking again is of no use
	spent              Response
}

// ask sends one request when the limiter lets it.
func (t *tries) ask(ctx context.Context, req Request) (Response, error) {
	t.took = 0
	permit, err := t.cfg.Limiter.Acquire(ctx, t.tokens)
	if err != nil {
		t.over = true
		return Response{}, err
	}
	inner, cancel := ctx, context.CancelFunc(func() {})
	if t.cfg.Timeout > 0 {
		inner, cancel = context.WithTimeout(ctx, t.cfg.Timeout)
	}
	began := time.Now()
	response, err := t.cfg.Model.Generate(inner, req)
	t.took = time.Since(began)
	if err != nil && ctx.Err() == nil && errors.Is(inner.Err(), context.DeadlineExceeded) {
		err = &ModelError{Retry: true, Failure: outcome.Failure{
			Class: outcome.Timeout, Message: fmt.Sprintf("the request was given up after %s: %v", t.cfg.Timeout, err),
		}}
	}
	cancel()
	result := t.judge(ctx, response, err)
	if tripped := permit.Done(result); tripped != nil && err != nil && result.Kind != limit.Abandoned {
		t.over = true
		err = tripped // it repeats what the call said that tripped the limiter
	}
	t.add(response)
	return response, err
}

// judge says what the limiter is to learn of a request, and whether another one
// is of use.
func (t *tries) judge(ctx context.Context, response Response, err error) limit.Result {
	result := limit.Result{Kind: limit.Answered, Tokens: response.Usage.Total()}
	var fault *ModelError
	switch {
	case err == nil:
		return result
	case ctx.Err() != nil || !errors.As(err, &fault):
		t.over = true
		return limit.Result{Kind: limit.Abandoned}
	}
	result.RetryAfter, result.Reason = fault.RetryAfter, fault.Error()
	switch {
	case fault.Failure.Class == outcome.RateLimited && fault.Retry:
		result.Kind = limit.Rejected
		if answers := t.cfg.Limiter.Answers(); t.rejections == 0 || answers > t.answers {
			t.rejections, t.answers = t.rejections+1, answers
		}
		t.retryPause = 0 // the limiter's is enough
	case fault.Retry && fault.Failure.Class == outcome.InvalidOutput:
		t.failed++ // an answer, if not a usable one
		t.retryPause = 0
	case fault.Retry:
		result.Kind = limit.Failed
		t.failed++
		t.retryPause = t.cfg.Pause << min(t.failed-1, 30)
		t.retryPause = min(max(t.retryPause, 0), longestRetry*t.cfg.Pause)
	default:
		result.Kind = limit.Refused
		result.Fatal = fault.Status == http.StatusUnauthorized || fault.Failure.Class == outcome.RateLimited ||
			fault.Status == http.StatusForbidden && t.cfg.Limiter.Answers() == 0
		t.over = true
	}
	t.over = t.over || t.failed >= t.cfg.Tries || t.rejections > t.cfg.Rejections
	result.Final = t.over
	return result
}

// pause waits after a request that failed; the permit is given back already.
func (t *tries) pause(ctx context.Context) error {
	if t.retryPause <= 0 {
		return nil
	}
	defer limit.Waiting(ctx)()
	timer := time.NewTimer(t.retryPause - time.Duration(t.cfg.Jitter()*float64(t.retryPause)/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting to send a request again: %w", ctx.Err())
	}
}

// add counts what a request took.
func (t *tries) add(response Response) {
	t.spent.Attempts += max(1, response.Attempts)
	switch {
	case response.CostUSD != nil && t.spent.CostUSD != nil:
		sum := *t.spent.CostUSD + *response.CostUSD
		t.spent.CostUSD = &sum
	case response.CostUSD != nil && t.spent.Usage == (outcome.Usage{}):
		t.spent.CostUSD = response.CostUSD
	case response.Usage != (outcome.Usage{}):
		t.spent.CostUSD = nil
	}
	t.spent.Usage = t.spent.Usage.Add(response.Usage)
}

// total returns the last response with what all of them took.
func (t *tries) total(response Response) Response {
	response.Attempts, response.Usage, response.CostUSD = t.spent.Attempts, t.spent.Usage, t.spent.CostUSD
	return response
}
