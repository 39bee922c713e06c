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
	estimated          outcome.Usage // for each
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
	permit, err := t.cfg.Limiter.Acquire(ctx, t.estimated.Total())
	if err != nil {
		t.over = true
		return Response{}, err
	}
	// Where nothing was sent, or the model panics: only the first Done counts,
	// and what it says of the limiter matters less.
	defer func() { _ = permit.Done(limit.Result{Kind: limit.Abandoned}) }()
	held, err := t.cfg.Budget.hold(ctx, req)
	if err != nil {
		t.over = true
		return Response{}, err
	}
	permit.Sent()
	response, err := t.send(ctx, req, held)
	if fault := (*ModelError)(nil); err == nil || errors.As(err, &fault) && (fault.Status != 0 || fault.Failure.Class != outcome.Provider) {
		t.reached.Store(true)
	}
	result := t.judge(ctx, response, err)
	if tripped := permit.Done(result); tripped != nil && err != nil && result.Kind != limit.Abandoned {
		t.over = true
		err = tripped // it repeats what the call said that tripped the limiter
	}
	t.add(response)
	return response, err
}

// send sends the request, and books what it took.
func (t *tries) send(ctx context.Context, req Request, held *hold) (Response, error) {
	defer held.release()
	inner, cancel := ctx, context.CancelFunc(func() {})
	if t.cfg.Timeout > 0 {
		inner, cancel = context.WithTimeout(ctx, t.cfg.Timeout)
	}
	defer cancel()
	began := time.Now()
	response, err := t.cfg.Model.Generate(inner, req)
	t.took = time.Since(began)
	if err != nil && ctx.Err() == nil && errors.Is(inner.Err(), context.DeadlineExceeded) {
		err = &ModelError{Retry: true, Failure: outcome.Failure{
			Class: outcome.Timeout, Message: fmt.Sprintf("the request was given up after %s: %v", t.cfg.Timeout, err),
		}}
	}
	response.Assumed = unreported(t.estimated, response, err)
	held.ended(response)
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
	result.RetryAfter, result.Reason, result.Unreached = fault.RetryAfter, fault.Error(), fault.Unreached
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

// tell says that the request will be sent again.
func (t *tries) tell(err error) {
	var fault *ModelError
	if t.cfg.Waits == nil || !errors.As(err, &fault) {
		return
	}
	until, limits := time.Now().Add(t.retryPause), t.cfg.Limiter.State()
	if limits.PausedUntil.After(until) {
		until = limits.PausedUntil
	}
	t.cfg.Waits(Wait{Until: until, Asked: fault.RetryAfter, GivesUp: limits.GivesUp, Reason: fault.Error()})
}

// pause waits after a request that failed; the permit is given back already.
func (t *tries) pause(ctx context.Context) error {
	if t.retryPause <= 0 {
		return nil
	}
	defer limit.Waiting(ctx)()
	pause := t.retryPause - time.Duration(t.cfg.Jitter()*float64(t.retryPause)/2)
	if givesUp := t.cfg.Limiter.State().GivesUp; !givesUp.IsZero() {
		pause = min(pause, time.Until(givesUp))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-limit.Stop(ctx):
		return limit.ErrStopped
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
	t.spent.Usage, t.spent.Assumed = t.spent.Usage.Add(response.Usage), t.spent.Assumed.Add(response.Assumed)
}

// total returns the last response with what all of them took.
func (t *tries) total(response Response) Response {
	response.Attempts, response.Usage, response.CostUSD = t.spent.Attempts, t.spent.Usage, t.spent.CostUSD
	response.Assumed = t.spent.Assumed
	return response
}
