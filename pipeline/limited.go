package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// The values that zero fields of LimitedConfig stand for.
const (
	DefaultTries      = 6
	DefaultRetryPause = 500 * time.Millisecond
	longestRetry      = 60 // times the first pause

	// mostRejections is how many requests of one call may be rejected for the
	// provider's limits while other calls are answered. While no call is answered, the
	// limiter's patience decides.
	mostRejections = 10
)

// LimitedConfig says how a model is asked within limits. Model and Admission are
// required.
type LimitedConfig struct {
	Model Model
	// Admission must allow every request when it is about to be sent; it is shared
	// by all calls to this model.
	Admission Admission
	// Tries is how many requests one call may send that fail, the last of them
	// included; 0 means DefaultTries. Requests that the provider rejects for
	// its limits do not count.
	Tries int
	// Timeout bounds one request; 0 leaves that to the context. One that hangs
	// longer has failed and is sent again.
	Timeout time.Duration
	// Pause is the time before a failed request is sent again, doubled with
	// each failure of the call up to 60 times itself; 0 means
	// DefaultRetryPause.
	Pause time.Duration
	// Waits, if set, is told before a call waits to send its request again. It
	// must not block and be safe for concurrent use.
	Waits func(Wait)
	// Jitter returns a number in [0, 1) that shortens a pause, by up to a half;
	// nil means a random one.
	Jitter func() float64
}

// Wait says why a request is sent again, and not at once.
type Wait struct {
	// Until is when the request may be sent again.
	Until time.Time
	// Asked is how long the provider asked all calls to wait; 0 if it did not.
	Asked time.Duration
	// GivesUp is when no more calls are made unless the provider is reached by
	// then, to which there never was a connection; else zero.
	GivesUp time.Time
	// Reason is the class and message of the failure.
	Reason string
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
// *limit.TrippedError in its chain, or is a *BudgetError: then nothing more is
// sent, by any call; or it is limit.ErrStopped, where a limit.WithStop was
// stopped while the call waited.
// Safe for concurrent use.
func Limited(cfg LimitedConfig) Model {
	cfg.Tries = cmp.Or(cfg.Tries, DefaultTries)
	cfg.Pause = cmp.Or(cfg.Pause, DefaultRetryPause)
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	return &limited{cfg: cfg}
}

type limited struct {
	cfg     LimitedConfig
	outputs recent
	reached atomic.Bool
}

// Reached reports whether a model of Limited ever got anything from its
// provider, refusals included: false says that every connection failed, or
// none was tried. Other models count as reached.
func Reached(model Model) bool {
	l, ok := model.(*limited)
	return !ok || l.reached.Load()
}

// Generate asks until there is an answer, or asking again is of no use.
func (l *limited) Generate(ctx context.Context, req Request) (response Response, err error) {
	began := time.Now()
	call := tries{limited: l, estimated: estimate(req, l.outputs.largest())}
	for {
		if response, err = call.ask(ctx, req); err == nil {
			l.outputs.add(response.Usage.Output)
		}
		if err == nil || call.over {
			break
		}
		if stop := call.pause(ctx, err); stop != nil {
			if !limit.StopsRun(stop) {
				stop = errors.Join(stop, err)
			}
			err = stop
			break
		}
	}
	response.Waited = time.Since(began) - call.took
	response.Attempts, response.Usage, response.Assumed = call.spent.Attempts, call.spent.Usage, call.spent.Assumed
	response.CostUSD = call.spent.CostUSD
	return response, err
}

// tries are the requests of one call.
type tries struct {
	*limited
	estimated          Estimate      // for each
	took               time.Duration // by the last one
	failed, rejections int
	answers            int64 // of the limiter, before the last request
	retryPause         time.Duration
	over               bool // asking again is of no use
	spent              Response
}

// ask sends one request when the limiter lets it.
func (t *tries) ask(ctx context.Context, req Request) (response Response, err error) {
	t.took = 0
	admitted, err := t.cfg.Admission.Admit(ctx, t.estimated)
	if err != nil {
		t.over = true
		return response, err
	}
	// Where the model panics: only the first Done counts.
	defer func() { _ = admitted.Done(ctx, Ended{Result: limit.Result{Kind: limit.Abandoned}, Lost: true}) }()
	response, err = t.send(ctx, req)
	if fault := (*ModelError)(nil); err == nil || errors.As(err, &fault) && (fault.Status != 0 || fault.Failure.Class != outcome.Provider) {
		t.reached.Store(true)
	}
	result := t.judge(ctx, response, err)
	stop := admitted.Done(ctx, Ended{Result: result, Usage: response.Usage, CostUSD: response.CostUSD, Assumed: response.Assumed})
	if stop != nil && err != nil && result.Kind != limit.Abandoned {
		t.over = true
		err = stop // it repeats what the call said that tripped the limiter
	}
	t.add(response)
	return response, err
}

// send sends the request, and says what it took.
func (t *tries) send(ctx context.Context, req Request) (response Response, err error) {
	inner, cancel := ctx, context.CancelFunc(func() {})
	if t.cfg.Timeout > 0 {
		inner, cancel = context.WithTimeout(ctx, t.cfg.Timeout)
	}
	defer cancel()
	began := time.Now()
	response, err = t.cfg.Model.Generate(inner, req)
	t.took = time.Since(began)
	if err != nil && ctx.Err() == nil && errors.Is(inner.Err(), context.DeadlineExceeded) {
		err = &ModelError{Retry: true, Failure: outcome.Failure{
			Class: outcome.Timeout, Message: fmt.Sprintf("the request was given up after %s: %v", t.cfg.Timeout, err),
		}}
	}
	response.Assumed = unreported(t.estimated.usage(), response, err)
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
		if answers := t.cfg.Admission.State().Answers; t.rejections == 0 || answers > t.answers {
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
		result.Fatal = fault.Status == http.StatusUnauthorized || fault.Failure.Class == outcome.RateLimited
		result.Forbidden = fault.Status == http.StatusForbidden
		t.over = true
	}
	t.over = t.over || t.failed >= t.cfg.Tries || t.rejections > mostRejections
	result.Final = t.over
	return result
}

// pause tells that the request will be sent again, and waits for that; the permit is given
// back already.
func (t *tries) pause(ctx context.Context, err error) error {
	limits, pause := t.cfg.Admission.State(), t.retryPause
	if fault, ok := errors.AsType[*ModelError](err); ok && t.cfg.Waits != nil {
		until := time.Now().Add(pause)
		if limits.PausedUntil.After(until) {
			until = limits.PausedUntil
		}
		t.cfg.Waits(Wait{Until: until, Asked: fault.RetryAfter, GivesUp: limits.GivesUp, Reason: fault.Error()})
	}
	if pause <= 0 {
		return nil
	}
	defer limit.Waiting(ctx)()
	pause -= time.Duration(t.cfg.Jitter() * float64(pause) / 2)
	if !limits.GivesUp.IsZero() {
		pause = min(pause, time.Until(limits.GivesUp))
	}
	select {
	case <-time.After(pause):
		return nil
	case <-limit.Stop(ctx):
		return limit.ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("waiting to send a request again: %w", ctx.Err())
	}
}

// add counts what a request took. That one was refused, and cost nothing, does not make the cost
// of the others known.
func (t *tries) add(response Response) {
	first, none := t.spent.Attempts == 0, outcome.Usage{}
	t.spent.Attempts += max(1, response.Attempts)
	switch known := response.CostUSD != nil; {
	case known && t.spent.CostUSD != nil:
		sum := *t.spent.CostUSD + *response.CostUSD
		t.spent.CostUSD = &sum
	case known && t.spent.Usage == none && (first || response.Usage != none || *response.CostUSD > 0):
		t.spent.CostUSD = response.CostUSD
	case !known && (response.Usage != none || t.spent.Usage == none):
		t.spent.CostUSD = nil
	}
	t.spent.Usage, t.spent.Assumed = t.spent.Usage.Add(response.Usage), t.spent.Assumed.Add(response.Assumed)
}

// unreported is what a request is taken to have used that did not say: what was
// estimated for it, unless nothing was sent or it failed otherwise than by being given up,
// when a provider may have worked on it.
func unreported(estimated outcome.Usage, response Response, err error) outcome.Usage {
	failed := err != nil && (response.Attempts == 0 ||
		!errors.Is(err, context.Canceled) && outcome.FailureOf(err, outcome.Provider).Class != outcome.Timeout)
	if failed || response.Cached || response.Usage != (outcome.Usage{}) {
		return outcome.Usage{}
	}
	return estimated
}
