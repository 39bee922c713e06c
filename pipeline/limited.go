package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// The values that zero fields of LimitedConfig stand for.
const (
	DefaultTries      = 6
	DefaultRejections = 10
	DefaultRetryPause = 500 * time.Millisecond
	longestRetry      = 60 // times the first pause
)

// LimitedConfig says how a model is asked within limits. Model and Limiter are
// required.
type LimitedConfig struct {
	Model   Model
	Limiter *limit.Limiter // shared by all calls to this model
	// Tries is how many requests one call may send that fail, the last of them
	// included; 0 means DefaultTries. Requests that the provider rejects for
	// its limits do not count.
	Tries int
	// Rejections is how many requests of one call may be rejected for the
	// provider's limits while other calls are answered; 0 means
	// DefaultRejections. While no call is answered, the limiter's patience
	// decides.
	Rejections int
	// Timeout bounds one request; 0 leaves that to the context. One that hangs
	// longer has failed and is sent again.
	Timeout time.Duration
	// Pause is the time before a failed request is sent again, doubled with
	// each failure of the call up to 60 times itself; 0 means
	// DefaultRetryPause.
	Pause time.Duration
	// Jitter returns a number in [0, 1) that shortens a pause, by up to a half;
	// nil means a random one.
	Jitter func() float64
}

// Limited returns a model that asks another within the limits of the provider,
// and again where that may help: after a rejection for limits (429), 5xx, no
// answer in time, a broken connection; that is, after a *ModelError with Retry.
// Never after 400, 401, 403, 404.
//
// A call waits for the limiter before every request and holds no permit while
// it pauses; none of that waiting counts against a limit.WithTimeout. The
// response, also that of an error, adds up the usage, the cost and the number
// of all requests, and Waited is the time that was not spent on the last one.
//
// The error is that of the last request, or one that wraps ctx.Err(), or has a
// *limit.TrippedError in its chain: then nothing more is sent, by any call.
// Safe for concurrent use. Missing fields are errors, all at once.
func Limited(cfg LimitedConfig) (Model, error) {
	var problems []error
	if cfg.Model == nil {
		problems = append(problems, errors.New("pipeline: LimitedConfig.Model is missing"))
	}
	if cfg.Limiter == nil {
		problems = append(problems, errors.New("pipeline: LimitedConfig.Limiter is missing"))
	}
	if cfg.Tries < 0 || cfg.Rejections < 0 || cfg.Timeout < 0 || cfg.Pause < 0 {
		problems = append(problems, errors.New("pipeline: tries, rejections and times of LimitedConfig must not be negative"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if cfg.Tries == 0 {
		cfg.Tries = DefaultTries
	}
	if cfg.Rejections == 0 {
		cfg.Rejections = DefaultRejections
	}
	if cfg.Pause == 0 {
		cfg.Pause = DefaultRetryPause
	}
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	return &limited{cfg: cfg}, nil
}

type limited struct {
	cfg     LimitedConfig
	outputs recent
}

// Generate asks until there is an answer, or asking again is of no use.
func (l *limited) Generate(ctx context.Context, req Request) (Response, error) {
	began := time.Now()
	call := tries{limited: l, tokens: estimate(req, l.outputs.largest())}
	for {
		response, err := call.ask(ctx, req)
		response.Waited = time.Since(began) - call.took
		if err == nil {
			l.outputs.add(response.Usage.Output)
		}
		if err == nil || call.over {
			return call.total(response), err
		}
		if stop := call.pause(ctx); stop != nil {
			response.Waited = time.Since(began) - call.took
			return call.total(response), errors.Join(stop, err)
		}
	}
}

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
