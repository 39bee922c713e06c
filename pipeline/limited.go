package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// Defaults of the zero fields of LimitedConfig.
const (
	DefaultTries      = 6
	DefaultRetryPause = 500 * time.Millisecond
	maxPauseFactor    = 60 // multiple of LimitedConfig.Pause

	// maxRejections is how many requests of one call the provider may reject for its limits
	// while it answers other calls. While it answers no call, the patience of the limiter
	// decides.
	maxRejections = 10
)

// LimitedConfig configures Limited. Model is required.
type LimitedConfig struct {
	Model Model
	// Admission admits each request just before it is sent. All calls to the model share it. nil
	// means NewAdmission(nil, nil).
	Admission Admission
	// Tries is how many failed requests one call may send, the last one included; 0 means
	// DefaultTries. Requests that the provider rejects for its limits do not count.
	Tries int
	// Timeout bounds one request; 0 leaves that to the context. A request that takes longer has
	// failed and is sent again.
	Timeout time.Duration
	// Pause is the time before a failed request is sent again. It doubles with each failure of
	// the call up to 60 times itself; 0 means DefaultRetryPause.
	Pause time.Duration
	// OnWait, if not nil, is called before a call waits to send its request again. It must not
	// block and must be safe for concurrent use.
	OnWait func(Wait)
	// Jitter returns a number in [0, 1); a pause is shortened by half of this fraction. nil
	// means a random number.
	Jitter func() float64
}

// Wait describes why a request is sent again later.
type Wait struct {
	// Until is when the request may be sent again.
	Until time.Time
	// Asked is how long the provider asked all calls to wait, or 0.
	Asked time.Duration
	// Deadline, if not zero, is when all calls end unless the provider is reached by then. It is
	// set while there never was a connection to the provider.
	Deadline time.Time
	// Reason is the class and message of the failure.
	Reason string
}

// Limited returns a model that asks another within the limits of the provider. It repeats a
// request that failed with a *ModelError with Retry: after a rejection for limits (429), 5xx, a
// timeout or a broken connection, but never after 400, 401, 403 or 404.
//
// A call waits for the limiter before every request and holds no permit while it pauses; this
// waiting does not count against the time limit of the item. The response, also one with an error,
// adds up the usage, the cost and the number of all requests. Waited is the time of the call
// without its last request.
//
// The error is that of the last request, of Admission, or wraps ctx.Err(). One that stops the run
// (see BudgetError.StopsRun) means that the run was stopped while the call waited, or that no call
// sends another request. Safe for concurrent use.
func Limited(cfg LimitedConfig) Model {
	cfg.Tries = cmp.Or(cfg.Tries, DefaultTries)
	cfg.Pause = cmp.Or(cfg.Pause, DefaultRetryPause)
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	if cfg.Admission == nil {
		cfg.Admission = NewAdmission(nil, nil)
	}
	return &limited{cfg: cfg}
}

type limited struct {
	cfg     LimitedConfig
	outputs recentMax
	reached atomic.Bool
}

// Reached reports whether a model of Limited ever got an answer from its provider, refusals
// included, or a request timed out. It is false if every connection failed or none was tried, and
// true for models of other kinds.
func Reached(model Model) bool {
	l, ok := model.(*limited)
	return !ok || l.reached.Load()
}

// Generate asks until there is an answer or another request is of no use.
func (l *limited) Generate(ctx context.Context, req Request) (response Response, err error) {
	start := time.Now()
	c := call{limited: l, estimate: estimateRequest(req, l.outputs.largest())}
	for {
		response, err = c.ask(ctx, req)
		if err == nil || c.final {
			break
		}
		if stopped := c.pause(ctx, err); stopped != nil {
			err = stopped
			break
		}
	}
	if err == nil {
		l.outputs.add(response.Usage.Output)
	}
	response.Waited = time.Since(start) - c.lastDuration
	response.Attempts, response.Usage, response.Assumed = c.total.Attempts, c.total.Usage, c.total.Assumed
	if response.CostUSD = c.total.CostUSD; response.Attempts == 0 {
		response.CostUSD = new(0.0) // nothing was sent
	}
	return response, err
}

// call holds the state of one call, which may send several requests.
type call struct {
	*limited
	estimate             Estimate      // of each request
	lastDuration         time.Duration // of the last request
	failures, rejections int
	answersSeen          int64 // the limiter's answers before the last request
	nextPause            time.Duration
	final                bool // asking again is of no use
	total                Response
}

// ask sends one request when the Admission allows it.
func (c *call) ask(ctx context.Context, req Request) (response Response, err error) {
	c.lastDuration = 0
	admitted, err := c.cfg.Admission.Admit(ctx, c.estimate)
	if err != nil {
		c.final = true
		return response, err
	}
	// This matters only if the model panics: only the first Done counts.
	defer func() { _ = admitted.Done(ctx, RequestResult{Result: limit.Result{Kind: limit.Abandoned}, Lost: true}) }()
	response, err = c.send(ctx, req)
	fault, failed := errors.AsType[*ModelError](err)
	if err == nil || failed && (fault.Status != 0 || fault.Failure.Class != outcome.Provider) {
		c.reached.Store(true)
	}
	result := c.classify(ctx, response, err)
	ended := RequestResult{Result: result, Usage: response.Usage, CostUSD: response.CostUSD, Assumed: response.Assumed}
	tripped := admitted.Done(ctx, ended)
	if tripped != nil && err != nil && result.Kind != limit.Abandoned {
		c.final = true
		err = tripped // it contains the error of the call that tripped the limiter
	}
	c.add(response)
	return response, err
}

// send sends the request and sets the usage to assume if none was reported.
func (c *call) send(ctx context.Context, req Request) (response Response, err error) {
	inner, cancel := ctx, context.CancelFunc(func() {})
	if c.cfg.Timeout > 0 {
		inner, cancel = limit.WithTimeout(ctx, c.cfg.Timeout)
	}
	defer cancel()
	start := time.Now()
	response, err = c.cfg.Model.Generate(inner, req)
	c.lastDuration = time.Since(start)
	if err != nil && ctx.Err() == nil && errors.Is(inner.Err(), context.DeadlineExceeded) {
		err = &ModelError{Retry: true, Failure: outcome.Failure{
			Class: outcome.Timeout, Message: fmt.Sprintf("the request was given up after %s: %v", c.cfg.Timeout, err),
		}}
	}
	response.Assumed = assumedUsage(c.estimate.usage(), response, err)
	return response, err
}

// classify classifies the end of a request for the limiter and decides whether another request is
// of use.
func (c *call) classify(ctx context.Context, response Response, err error) limit.Result {
	result := limit.Result{Kind: limit.Answered, Tokens: response.Usage.Total() + response.Assumed.Total()}
	fault, failed := errors.AsType[*ModelError](err)
	switch {
	case err == nil:
		return result
	case ctx.Err() != nil || !failed:
		c.final = true
		return limit.Result{Kind: limit.Abandoned}
	}
	result.RetryAfter, result.Reason, result.Unreached = fault.RetryAfter, fault.Error(), fault.Unreached
	c.nextPause = 0 // after a rejection, the pause of the limiter is enough
	switch {
	case fault.Failure.Class == outcome.RateLimited && fault.Retry:
		result.Kind = limit.Rejected
		if answers := c.cfg.Admission.State().Answers; c.rejections == 0 || answers > c.answersSeen {
			c.rejections, c.answersSeen = c.rejections+1, answers
		}
	case fault.Retry && fault.Failure.Class == outcome.InvalidOutput:
		c.failures++ // the provider answered, but not usably
	case fault.Retry:
		result.Kind = limit.Failed
		c.failures++
		c.nextPause = c.cfg.Pause << min(c.failures-1, 30)
		c.nextPause = min(max(c.nextPause, 0), maxPauseFactor*c.cfg.Pause)
	default:
		result.Kind = limit.Refused
		account := fault.Unauthorised || fault.Status == http.StatusUnauthorized || fault.Status == http.StatusPaymentRequired
		result.Fatal = account || fault.Failure.Class == outcome.RateLimited
		result.Forbidden = fault.Status == http.StatusForbidden
		c.final = true
	}
	c.final = c.final || c.failures >= c.cfg.Tries || c.rejections > maxRejections
	result.Final = c.final
	return result
}

// pause announces that the request will be sent again after err, and waits. The caller has
// returned the permit before.
func (c *call) pause(ctx context.Context, err error) error {
	limits, pause := c.cfg.Admission.State(), c.nextPause
	if fault, ok := errors.AsType[*ModelError](err); ok && c.cfg.OnWait != nil {
		until := slices.MaxFunc([]time.Time{time.Now().Add(pause), limits.PausedUntil}, time.Time.Compare)
		c.cfg.OnWait(Wait{Until: until, Asked: fault.RetryAfter, Deadline: limits.GivesUp, Reason: fault.Error()})
	}
	if pause <= 0 {
		return nil
	}
	defer limit.PauseTimeout(ctx)()
	pause -= time.Duration(c.cfg.Jitter() * float64(pause) / 2)
	if !limits.GivesUp.IsZero() {
		pause = min(pause, time.Until(limits.GivesUp))
	}
	select {
	case <-time.After(pause):
		return nil
	case <-limit.Stop(ctx):
		return limit.ErrStopped
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("waiting to send a request again: %w", ctx.Err()), err)
	}
}

// add adds the usage and the cost of a request to the total. A refused request that cost
// nothing does not make an unknown total known.
func (c *call) add(response Response) {
	first, noUsage := c.total.Attempts == 0, outcome.Usage{}
	c.total.Attempts += max(1, response.Attempts)
	switch known := response.CostUSD != nil; {
	case known && c.total.CostUSD != nil:
		sum := *c.total.CostUSD + *response.CostUSD
		c.total.CostUSD = &sum
	case known && c.total.Usage == noUsage && (first || response.Usage != noUsage || *response.CostUSD > 0):
		c.total.CostUSD = response.CostUSD
	case !known && (response.Usage != noUsage || c.total.Usage == noUsage):
		c.total.CostUSD = nil
	}
	c.total.Usage, c.total.Assumed = c.total.Usage.Add(response.Usage), c.total.Assumed.Add(response.Assumed)
}

// assumedUsage returns the usage to assume for a request: the estimate if it reported no input
// but the provider may have worked on it, without the output if that was reported. It is zero for
// a cached answer, one that is known to cost nothing, a request that was not sent, and a failure
// other than a timeout, a cancellation, a connection that broke, or an answer of status 200 that
// broke off or cannot be read.
func assumedUsage(estimate outcome.Usage, response Response, err error) outcome.Usage {
	fault, isFault := errors.AsType[*ModelError](err)
	broke := isFault && (fault.Status == 0 && !fault.Unreached || fault.Status/100 == 2 && !fault.ErrorBody)
	worked := err == nil || broke || errors.Is(err, context.Canceled) ||
		outcome.FailureOf(err, outcome.Provider).Class == outcome.Timeout
	free := response.CostUSD != nil && *response.CostUSD == 0
	if err != nil && response.Attempts == 0 || !worked || free || response.Cached || response.Usage.Input > 0 {
		return outcome.Usage{}
	}
	if response.Usage.Output > 0 {
		estimate.Output = 0
	}
	return estimate
}
