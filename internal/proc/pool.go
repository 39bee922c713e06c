package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"extraction-experiment/internal/secret"
)

// Pool runs one program in several processes. It is safe for concurrent use.
type Pool struct {
	cfg     Config
	program string // for messages
	mask    *secret.Masker
	stderr  *tee
	slots   chan struct{} // one token for each request under way
	closed  chan struct{}
	closing sync.Once

	mu       sync.Mutex
	idle     []*process // the one used last is taken first
	started  int
	answered bool    // some process has answered at least once
	stuck    []error // processes that could not be killed
}

// New makes a Pool and starts nothing. It looks whether the program is there:
// if not, the error is a *StartError; other errors join everything that is
// wrong with the Config.
func New(cfg Config) (*Pool, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if err := findProgram(cfg); err != nil {
		return nil, &StartError{Program: shorten(cfg.Command[0]), Err: err}
	}
	return &Pool{
		cfg: cfg, program: shorten(cfg.Command[0]), mask: cfg.masker(),
		stderr: &tee{to: cfg.Stderr}, slots: make(chan struct{}, cfg.Processes), closed: make(chan struct{}),
	}, nil
}

// Call sends one request, which must be a single line without its end, and
// returns the one line of the answer without its end, masked. It starts a process
// if none is idle, and waits while all of them are busy.
//
// A process that ended between requests is replaced without a word: a request
// of which nothing was read is given to a fresh process, once. Otherwise
// nothing is repeated. Errors: *StartError, *DiedError, *InterruptedError (wraps
// the context's error; also with ErrClosed), *FloodError, *DesyncError,
// *RefusedError, ErrClosed. A process that answers neither in time nor ever is
// ended by ctx only.
func (p *Pool) Call(ctx context.Context, request []byte) ([]byte, error) {
	if bytes.ContainsAny(request, "\n\r") || len(request) == 0 {
		return nil, errors.New("a request to a program must be one line that is not empty")
	}
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-p.slots }()
	line := make([]byte, len(request)+1)
	line[copy(line, request)] = '\n'
	for {
		process, err := p.take()
		if err != nil {
			return nil, err
		}
		x := &exchange{pool: p, process: process, request: line}
		answer, untouched, err := x.do(ctx)
		if err == nil {
			p.put(process)
			return answer, nil
		}
		if untouched && process.answers > 0 {
			continue // it ended after an earlier answer; a fresh one has none
		}
		return nil, p.explain(err)
	}
}

// enter waits for a free slot.
func (p *Pool) enter(ctx context.Context) error {
	select {
	case <-p.closed:
		return ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting for %s: %w", p.program, err)
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-p.closed:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("waiting for a free process of %s: %w", p.program, ctx.Err())
	}
}

// take returns the idle process that was used last and lives, or a new one.
func (p *Pool) take() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if last.alive() || len(last.lines) > 0 {
			return last, nil
		}
		last.retire(nil)
	}
	fresh, err := start(p.cfg, p.stderr, p.mask)
	if err != nil {
		return nil, &StartError{Program: p.program, Err: err}
	}
	p.started++
	return fresh, nil
}

func (p *Pool) put(process *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = true
	p.idle = append(p.idle, process)
}

// explain turns the end of a process into a StartError while no process of this
// pool has ever answered.
func (p *Pool) explain(err error) error {
	died, ok := err.(*DiedError)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok && !p.answered && died.Answers == 0 {
		return &StartError{Program: p.program, Err: died}
	}
	return err
}

func (p *Pool) abandon(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck = append(p.stuck, err)
}

// Started returns how many processes have been started so far.
func (p *Pool) Started() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// Close ends all processes: those at work are killed and their Calls return an
// *InterruptedError with ErrClosed; idle ones see the end of their input and are
// killed if they have not ended after Config.Grace. When it returns, no process
// and no goroutine of the pool is left; the error names processes that the
// system would not kill. Closing again does nothing.
func (p *Pool) Close() error {
	p.closing.Do(func() {
		close(p.closed)
		for range p.cfg.Processes { // every Call has ended
			p.slots <- struct{}{}
		}
		var stops sync.WaitGroup
		for _, process := range p.idle {
			stops.Go(func() {
				if err := process.stop(p.cfg.Grace); err != nil {
					p.abandon(err)
				}
			})
		}
		stops.Wait()
		p.idle = nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.stuck...)
}
