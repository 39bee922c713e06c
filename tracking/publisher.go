package tracking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Bounds of one round of publishing; see Follow.
const (
	roundSize  = 100                    // outcomes read from the run file at once
	linger     = 200 * time.Millisecond // how long a round waits to fill up
	firstPause = time.Second            // after a round that failed
	maxPause   = 30 * time.Second
)

// Config says what to publish, and where. Client and Run are required.
type Config struct {
	Client *langfuse.Client
	// Server is what the client's Probe found.
	Server langfuse.Server
	Run    *runstore.Run
	// Links is how many links are sent at once; 0 means 8.
	Links int
	// LastTries is how often a round may fail in a row once the run is finished
	// before Follow gives up; 0 means 3.
	LastTries int
	// Log takes what a person need not see; nil means nowhere.
	Log *slog.Logger
	// Published is told how many outcomes are in Langfuse now; nil is told nothing.
	Published func(outcomes int)
	// Pages says that the server has a web interface that links can lead to.
	Pages bool
	// Runner names this program on the spans, with its version.
	Runner langfuse.Scope
}

// Publisher carries one run into Langfuse.
type Publisher struct {
	cfg    Config
	header outcome.Header
	// builders by trial, made once the trial has an experiment id.
	builders map[int]builder
	// refused holds what Langfuse will never take, by outcome; it stays
	// unpublished in the run file.
	refused map[int64]error
	sent    int
}

// NewPublisher checks the configuration and returns every problem of it.
func NewPublisher(cfg Config) (*Publisher, error) {
	var problems []error
	if cfg.Client == nil {
		problems = append(problems, errors.New("tracking: Config.Client is missing"))
	}
	if cfg.Run == nil {
		problems = append(problems, errors.New("tracking: Config.Run is missing"))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if cfg.Links <= 0 {
		cfg.Links = 8
	}
	if cfg.LastTries <= 0 {
		cfg.LastTries = 3
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Published == nil {
		cfg.Published = func(int) {}
	}
	return &Publisher{cfg: cfg, builders: map[int]builder{}, refused: map[int64]error{}}, nil
}

// UnpublishedError says that outcomes are in the run file and not in Langfuse.
type UnpublishedError struct {
	Left int64 // outcomes
	Err  error
}

// Error tells how many, why, and what to do.
func (e *UnpublishedError) Error() string {
	return fmt.Sprintf("%d results are scored and not published: %v", e.Left, e.Err)
}

// Unwrap returns the reason.
func (e *UnpublishedError) Unwrap() error { return e.Err }

// ExitCode returns 69: nothing is lost, publish again later.
func (e *UnpublishedError) ExitCode() int { return 69 }

// Follow publishes what is committed to the run file and not acknowledged,
// and what is committed meanwhile, until finished is closed and all of it is
// sent. Give it a closed channel to publish a run that has ended.
//
// Each round takes up to 100 outcomes: links, then spans, then scores, in that
// order, and acknowledges each stage in the run file. A round that fails is
// tried again, with growing pauses; while the run goes on without end, after
// that LastTries times. A wrong key ends it at once. What Langfuse refuses for
// good is set aside and does not hold up the rest. The error is an
// *UnpublishedError, or that of ctx.
//
// Only one Follow may be under way for a run. It never touches what the
// workers wait for.
func (p *Publisher) Follow(ctx context.Context, finished <-chan struct{}) error {
	failures, ending := 0, false
	for {
		last := isClosed(finished)
		if last && !ending {
			failures, ending = 0, true // what failed during the run does not count
		}
		more := p.cfg.Run.Changed() // before reading, so that no commit is missed
		done, err := p.round(ctx)
		switch {
		case ctx.Err() != nil:
			return p.unpublished(ctx.Err())
		case errors.Is(err, langfuse.ErrUnauthorized):
			return p.unpublished(err)
		case err != nil:
			p.cfg.Log.Info("publishing will be tried again", "error", err)
			if failures++; last && failures >= p.cfg.LastTries {
				return p.unpublished(err)
			}
			if last {
				p.wait(ctx, pause(failures), nil, nil)
			} else {
				p.wait(ctx, pause(failures), nil, finished)
			}
		case done > 0:
			failures = 0
		case last:
			return p.unpublished(p.refusals())
		default:
			p.wait(ctx, 0, more, finished)
			p.wait(ctx, linger, nil, finished)
		}
	}
}

// wait returns after d (0 is for ever), on a commit, or when the run finishes.
func (p *Publisher) wait(ctx context.Context, d time.Duration, more, finished <-chan struct{}) {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-ctx.Done():
	case <-after:
	case <-more:
	case <-finished:
	}
}

func pause(failures int) time.Duration {
	return min(firstPause<<min(failures-1, 10), maxPause)
}

// unpublished says what is left; nil where that is nothing.
func (p *Publisher) unpublished(cause error) error {
	counts, err := p.cfg.Run.Counts(context.Background())
	if err != nil {
		return errors.Join(cause, err)
	}
	left := counts.Done - counts.Published
	if left == 0 {
		return nil
	}
	if cause == nil {
		cause = errors.New("publishing stopped early")
	}
	return &UnpublishedError{left, cause}
}

// refusals sums up what was set aside.
func (p *Publisher) refusals() error {
	const shown = 3
	var reasons []error
	for _, err := range p.refused {
		if len(reasons) == shown {
			reasons = append(reasons, fmt.Errorf("and %d more", len(p.refused)-shown))
			break
		}
		reasons = append(reasons, err)
	}
	return errors.Join(reasons...)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
