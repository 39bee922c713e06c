package proc

import (
	"context"
	"time"
)

// exchange is one request and what became of it.
type exchange struct {
	pool    *Pool
	process *process
	request []byte        // with its end of line
	sent    chan struct{} // closed when the request is written, or cannot be
}

// do sends the request and returns the answer. After an error the process has
// been killed; untouched says that it ended before it read any of the request,
// which another process may therefore be given.
func (x *exchange) do(ctx context.Context) (answer []byte, untouched bool, err error) {
	p := x.process
	select {
	case l, ok := <-p.lines:
		if ok {
			return nil, false, x.refuse(l, true)
		}
		_, err := x.ended(ctx, false)
		return nil, true, err
	default:
	}
	x.sent = make(chan struct{})
	go func() {
		defer close(x.sent)
		// An error means that the process is gone, which its output tells.
		_, _ = p.stdin.Write(x.request)
	}()
	var l line
	var more bool
	select {
	case l, more = <-p.lines:
	case <-ctx.Done():
		return nil, false, x.interrupted(ctx.Err())
	case <-x.pool.closed:
		return nil, false, x.interrupted(ErrClosed)
	}
	if !more || l.partial {
		read, err := x.ended(ctx, l.partial)
		return nil, !read, err
	}
	if l.flood || l.surplus != nil {
		return nil, false, x.refuse(l, false)
	}
	select { // a program may answer before it has read all
	case <-x.sent:
	case <-ctx.Done():
		return nil, false, x.interrupted(ctx.Err())
	case <-x.pool.closed:
		return nil, false, x.interrupted(ErrClosed)
	}
	answer = x.pool.mask.JSON(l.text)
	if err := x.accept(answer); err != nil {
		return nil, false, err
	}
	p.answers++
	return answer, false, nil
}

// accept asks Config.Accept.
func (x *exchange) accept(answer []byte) error {
	if x.pool.cfg.Accept == nil {
		return nil
	}
	reason := x.pool.cfg.Accept(x.request[:len(x.request)-1], answer)
	if reason == nil {
		return nil
	}
	x.kill()
	return &RefusedError{Program: x.pool.program, Line: x.excerpt(answer), Err: reason, Stderr: x.stderr()}
}

// ended waits for the end of a process that closed its output, and reports
// whether it had read any of the request.
func (x *exchange) ended(ctx context.Context, partial bool) (read bool, err error) {
	limit := time.NewTimer(x.pool.cfg.Grace)
	defer limit.Stop()
	closed := false
	select {
	case <-x.process.ended:
	case <-limit.C:
		closed = true
	case <-ctx.Done():
		return true, x.interrupted(ctx.Err())
	case <-x.pool.closed:
		return true, x.interrupted(ErrClosed)
	}
	left, killed := x.kill()
	died := x.died(partial)
	if closed {
		died.Status = "it closed its standard output"
	}
	return closed || partial || killed != nil || left < int64(len(x.request)), died
}

func (x *exchange) died(partial bool) *DiedError {
	return &DiedError{Program: x.pool.program, Status: x.process.status(), Partial: partial, Answers: x.process.answers, Stderr: x.stderr()}
}

func (x *exchange) interrupted(reason error) error {
	x.kill()
	return &InterruptedError{Program: x.pool.program, Err: reason, Stderr: x.stderr()}
}

// refuse makes the error for a line that is too long or should not be there.
func (x *exchange) refuse(l line, before bool) error {
	x.kill()
	if l.flood {
		return &FloodError{Program: x.pool.program, Limit: x.pool.cfg.MaxLine, Stderr: x.stderr()}
	}
	surplus := l.surplus
	if before {
		surplus = l.text
	}
	return &DesyncError{Program: x.pool.program, Before: before, Line: x.excerpt(surplus), Stderr: x.stderr()}
}

// kill ends the process and everything that belongs to it. A process that does
// not end is kept by the pool, which reports it when it is closed.
func (x *exchange) kill() (left int64, err error) {
	if err := x.process.kill(); err != nil {
		x.pool.abandon(err)
		return 0, err
	}
	return x.process.retire(x.sent), nil
}

func (x *exchange) stderr() string { return x.process.said.text() }

func (x *exchange) excerpt(text []byte) string {
	return shorten(x.pool.mask.Text(string(text[:min(len(text), 4*tailSize)])))
}
