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
	slots   chan struct{} // one token for each request under way
	closed  chan struct{}
	closing sync.Once

	idle     chan *process // has room for all
	started  atomic.Int64
	answered atomic.Bool // some process has answered at least once
	reminded sync.Once
}

// New makes a Pool and starts nothing. It looks whether the program is there:
// if not, the error is a *StartError; other errors join everything that is
// wrong with the Config.
func New(cfg Config) (*Pool, error) {
	p, err := newProgram(cfg)
	if err != nil {
		return nil, err
	}
	return &Pool{
		program: p, slots: make(chan struct{}, p.cfg.Processes), closed: make(chan struct{}),
		idle: make(chan *process, p.cfg.Processes),
	}, nil
}

// Call sends one request, which must be a single line without its end, and
// returns the one line of the answer without its end, masked. It starts a process
// if none is idle, and waits while all of them are busy.
//
// A process that ended between requests is replaced without a word: a request
// of which nothing was read is given to a fresh process, once. Otherwise
// nothing is repeated. Errors: *StartError, *Error (Died, Interrupted, Flooded,
// OutOfStep, Refused), ErrClosed. A process that answers neither in time nor ever
// is ended by ctx only.
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
		answer, untouched, err := p.ask(ctx, c, line)
		if err == nil {
			p.answered.Store(true)
			p.idle <- c
			return answer, nil
		}
		if untouched && c.answers > 0 {
			continue // it ended after an earlier answer; a fresh one has none
		}
		if Is(err, Died) && !p.answered.Load() { // nor any other before
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

// take returns an idle process that lives, or a new one.
func (p *Pool) take() (*process, error) {
	for {
		select {
		case c := <-p.idle:
			if !limit.Closed(c.ended) || len(c.lines) > 0 {
				return c, nil
			}
			c.end(nil) // it has ended
		default:
			p.started.Add(1)
			return p.start("")
		}
	}
}

// ask sends the request and returns the answer. After an error the process has
// been killed; untouched says that it ended before it read any of the request,
// which another process may therefore be given.
func (p *Pool) ask(ctx context.Context, c *process, request []byte) (answer []byte, untouched bool, err error) {
	if len(c.lines) > 0 { // which only this goroutine takes
		l := <-c.lines
		c.end(nil)
		return nil, false, p.refuse(c, l, l.text, "without being asked")
	}
	sent := c.send(request, false)
	if !p.answered.Load() {
		defer time.AfterFunc(p.cfg.Patience, func() { p.reminded.Do(p.remind) }).Stop()
	}
	l, more, interrupted := wait(ctx, p.closed, c.lines)
	switch {
	case interrupted != nil:
	case !more || l.partial:
		untouched, err = p.died(ctx, c, sent, l, request)
		return nil, untouched, err
	case l.flood || l.surplus != nil:
		c.end(sent)
		return nil, false, p.refuse(c, l, l.surplus, "after its answer")
	default: // a program may answer before it has read all
		_, _, interrupted = wait(ctx, p.closed, sent)
	}
	if interrupted != nil {
		c.end(sent)
		if err = c.interrupted(interrupted); !p.answered.Load() && errors.Is(interrupted, context.DeadlineExceeded) {
			err = c.fail(Interrupted, interrupted, "was killed before it answered: %s", howToAnswer)
		}
		return nil, false, err
	}
	answer = p.mask.JSON(l.text)
	if p.cfg.Accept != nil {
		if reason := p.cfg.Accept(request[:len(request)-1], answer); reason != nil {
			c.end(sent)
			return nil, false, c.fail(Refused, reason, "answered %q: %v", c.excerpt(answer), reason)
		}
	}
	c.answers++
	return answer, false, nil
}

// howToAnswer is what programs do wrong that never answer.
const howToAnswer = "it must answer each line as it comes, not at the end of its input, and flush"

// remind says on standard error why nothing may come.
func (p *Pool) remind() {
	if !p.answered.Load() {
		// An error is no matter, as with what the program itself writes there.
		_, _ = fmt.Fprintf(p.stderr, "%s has not answered for %s: %s\n", p.name, p.cfg.Patience, howToAnswer)
	}
}

// died waits for the end of a process that closed its output, and reports
// whether it had read nothing of the request.
func (p *Pool) died(ctx context.Context, c *process, sent <-chan struct{}, l line, request []byte) (untouched bool, err error) {
	short, cancel := context.WithTimeout(ctx, p.cfg.Grace)
	defer cancel()
	_, _, late := wait(short, p.closed, c.ended)
	unread := c.end(sent)
	if errors.Is(late, ErrClosed) || ctx.Err() != nil && late != nil {
		return false, c.interrupted(late)
	}
	status, rest := fmt.Sprint(c.cmd.ProcessState), ""
	if late != nil {
		status = "it closed its standard output"
	}
	if l.partial {
		rest = "; its last line had no newline"
	}
	untouched = !l.partial && unread >= int64(len(request))
	return untouched, c.fail(Died, nil, "ended without an answer (%s, after %d answers)%s", status, c.answers, rest)
}

// refuse makes the error for a line that is too long or should not be there.
func (p *Pool) refuse(c *process, l line, surplus []byte, when string) error {
	if l.flood {
		return c.fail(Flooded, nil, "wrote more than %d bytes without an end of line: an answer is one line of JSON", p.cfg.MaxLine)
	}
	return c.fail(OutOfStep, nil, "printed more than one line per request: %s came %q; print one line of JSON for each request and everything else to standard error",
		when, c.excerpt(surplus))
}

// Close ends all processes: those at work are killed and their Calls return an
// *Error that wraps ErrClosed; idle ones see the end of their input and are
// killed if they have not ended after Config.Grace. When it returns, no process
// and no goroutine of the pool is left. The error is nil. Closing again does nothing.
func (p *Pool) Close() error {
	p.closing.Do(func() {
		close(p.closed)
		for range p.cfg.Processes { // every Call has ended
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
