package pipeline

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"extraction-experiment/internal/limit"
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
	// Budget, if set, must allow every request when it is about to be sent, the
	// limiter's permit in hand; it may be shared by several models.
	Budget *Budget
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
func (l *limited) Generate(ctx context.Context, req Request) (Response, error) {
	began := time.Now()
	call := tries{limited: l, estimated: estimate(req, l.outputs.largest())}
	for {
		response, err := call.ask(ctx, req)
		response.Waited = time.Since(began) - call.took
		if err == nil {
			l.outputs.add(response.Usage.Output)
		}
		if err == nil || call.over {
			return call.total(response), err
		}
		call.tell(err)
		if stop := call.pause(ctx); stop != nil {
			response.Waited = time.Since(began) - call.took
			if !limit.StopsRun(stop) {
				stop = errors.Join(stop, err)
			}
			return call.total(response), stop
		}
	}
}
