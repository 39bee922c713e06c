package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"extraction-experiment/internal/limit"
)

// Pool runs one program in several processes. It is safe for concurrent use.
type Pool struct {
	*program
	slots     chan struct{} // one element for each Call
	closed    chan struct{}
	closeOnce sync.Once

	idle     chan *process // has room for all processes
	started  atomic.Int64
	answered atomic.Bool // a process has answered at least once
	remind   func()      // writes howToAnswer to standard error, once, unless a process has answered
}

// New returns a Pool. It starts no process, but returns a *StartError if the program does not
// exist. Any other error describes the problem of the Config.
func New(cfg Config) (*Pool, error) {
	p, err := newProgram(cfg)
	if err != nil {
		return nil, err
	}
	pool := &Pool{
		program: p, slots: make(chan struct{}, p.cfg.Processes), closed: make(chan struct{}),
		idle: make(chan *process, p.cfg.Processes),
	}
	pool.remind = sync.OnceFunc(func() {
		if !pool.answered.Load() {
			// Errors are ignored, like those for the program's own standard error.
			_, _ = fmt.Fprintf(p.stderr, "%s has not answered for %s: %s\n", p.name, p.cfg.Patience, howToAnswer)
		}
	})
	return pool, nil
}

// Call sends a request, which must be one line without an end of line, and returns the masked
// answer, one line without its end. It starts a process if none is idle and there are fewer
// than Config.Processes, and waits if all are busy.
//
// If a process ends between two requests, without reading any of the next one, Call sends that
// request to another process. It does not retry in any other case. Errors: *StartError, *Error
// (Died, Interrupted, Flooded, OutOfStep, Refused), ErrClosed, or that of ctx. There is no
// timeout: a process that does not answer is only ended by ctx.
func (p *Pool) Call(ctx context.Context, request []byte) ([]byte, error) {
	if bytes.ContainsAny(request, "\n\r") || len(request) == 0 {
		return nil, errors.New("a request to a program must be one line that is not empty")
	}
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-p.slots }()
	line := append(bytes.Clone(request), '\n')
	for {
		c, err := p.take()
		if err != nil {
			return nil, err
		}
		answer, err := p.ask(ctx, c, line)
		if err == nil {
			p.answered.Store(true)
			p.idle <- c
			return answer, nil
		}
		failed, ok := errors.AsType[*Error](err)
		if ok && failed.NothingRead && c.answers > 0 {
			continue // the process ended after its last answer
		}
		if ok && failed.Kind == Died && !p.answered.Load() {
			err = &StartError{Program: p.name, Err: err}
		}
		return nil, err
	}
}

// enter waits for a free slot.
func (p *Pool) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting for %s: %w", p.name, err)
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-p.closed:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("waiting for a free process of %s: %w", p.name, ctx.Err())
	}
}

// take returns an idle process, or a new one.
func (p *Pool) take() (*process, error) {
	for {
		select {
		case c := <-p.idle:
			if !limit.Closed(c.ended) || len(c.output.lines) > 0 {
				return c, nil
			}
			c.end(nil) // releases the resources of an ended process
		default:
			p.started.Add(1)
			return p.start("")
		}
	}
}

// ask sends the request and returns the answer. After an error, the process has been killed.
func (p *Pool) ask(ctx context.Context, c *process, request []byte) ([]byte, error) {
	if len(c.output.lines) > 0 { // only this goroutine receives from it
		l := <-c.output.lines
		c.end(nil)
		return nil, p.refuse(c, l, l.text, "without being asked")
	}
	sent := c.send(request, false)
	if !p.answered.Load() {
		defer time.AfterFunc(p.cfg.Patience, p.remind).Stop()
	}
	l, more, interrupted := receive(ctx, p.closed, c.output.lines)
	switch {
	case interrupted != nil:
	case !more || l.partial:
		return nil, c.died(sent, l, request)
	case l.flood || l.surplus != nil:
		c.end(sent)
		return nil, p.refuse(c, l, l.surplus, "after its answer")
	default: // a program may answer, and end, before it has read the whole request
		select {
		case <-sent:
		case <-c.ended:
		case <-ctx.Done():
			interrupted = ctx.Err()
		case <-p.closed:
			interrupted = ErrClosed
		}
	}
	if interrupted != nil {
		c.end(sent)
		if !p.answered.Load() && errors.Is(interrupted, context.DeadlineExceeded) {
			return nil, c.fail(Interrupted, interrupted, "was killed before it answered: %s", howToAnswer)
		}
		return nil, c.interrupted(interrupted)
	}
	answer := p.mask.JSON(l.text)
	if p.cfg.Accept != nil {
		if reason := p.cfg.Accept(request[:len(request)-1], answer); reason != nil {
			c.end(sent)
			return nil, c.fail(Refused, reason, "answered %q: %v", c.excerpt(answer), reason)
		}
	}
	c.answers++
	return answer, nil
}

// howToAnswer explains why a program may never answer.
const howToAnswer = "it must answer each line as it comes, not at the end of its input, and flush"

// died returns the error of a process that has ended.
func (c *process) died(sent <-chan struct{}, l line, request []byte) error {
	unread, suffix := c.end(sent), ""
	if l.partial {
		suffix = "; its last line had no newline"
	}
	died := c.fail(Died, nil, "ended without an answer (%s, after %d answers)%s", c.cmd.ProcessState, c.answers, suffix)
	died.NothingRead = !l.partial && unread >= int64(len(request))
	return died
}

// refuse returns the error for a line that is too long or unexpected.
func (p *Pool) refuse(c *process, l line, surplus []byte, when string) error {
	if l.flood {
		return c.fail(Flooded, nil, "wrote more than %d bytes without an end of line: an answer is one line of JSON", p.cfg.MaxLine)
	}
	return c.fail(OutOfStep, nil, "printed more than one line per request: %s came %q; print one line of JSON for each request and everything else to standard error",
		when, c.excerpt(surplus))
}

// Close ends all processes. It kills busy processes, whose Calls return an *Error that wraps
// ErrClosed. It closes the input of idle processes, and kills those that have not ended after
// Config.Grace. When it returns, no process and no goroutine of the pool is left. The error is
// always nil. Calling Close again has no effect.
func (p *Pool) Close() error {
	p.closeOnce.Do(func() {
		close(p.closed)
		for range p.cfg.Processes { // waits until every Call has returned
			p.slots <- struct{}{}
		}
		var stops sync.WaitGroup
		close(p.idle)
		for process := range p.idle {
			stops.Go(process.stop)
		}
		stops.Wait()
	})
	return nil
}
