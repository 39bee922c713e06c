package proc

import (
	"context"
	"crypto/rand"
	"fmt"
)

// envMark is the variable by which everything that descends from a process is
// found again, also what left its group.
const envMark = "EXPERIMENT_PROCESS_MARK"

// Once runs a program that answers one request: it writes the input, closes it,
// and returns all that the program printed before it ended with status 0, masked,
// at most Config.MaxLine bytes. Config.Processes and Config.Accept are not used.
//
// However it ends, nothing of the program is left: its process group is killed,
// and on Linux also what left the group. Errors: those of a wrong Config,
// *StartError, *Error (Interrupted, Flooded, Exited, Unread, Orphaned). Nothing is
// repeated; safe for concurrent use.
func Once(ctx context.Context, cfg Config, input []byte) ([]byte, error) {
	p, err := newProgram(cfg)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	c, err := p.start(rand.Text())
	if err != nil {
		return nil, err
	}
	sent := c.send(input, true)
	output, _, interrupted := wait(ctx, nil, c.lines)
	if interrupted == nil && !output.flood {
		_, _, interrupted = wait(ctx, nil, c.ended)
	}
	unread := c.end(sent)
	switch state := c.cmd.ProcessState; {
	case interrupted != nil:
		return nil, c.interrupted(interrupted)
	case output.flood:
		return nil, c.fail(Flooded, nil, "wrote more than %d bytes: print the answer and nothing else to standard output", p.cfg.MaxLine)
	case !state.Success():
		return nil, c.fail(Exited, nil, "ended with %s", state)
	case c.orphans > 0:
		return nil, c.fail(Orphaned, nil, "ended and left a process running, which was killed (%d in all): wait for what you start", c.orphans)
	case len(input) > 0 && unread >= int64(len(input)):
		return nil, c.fail(Unread, nil, "ended without reading its input: read the request from standard input")
	}
	return p.mask.JSON(output.text), nil
}

// wait waits for something of a process, unless ctx ends or closed is closed
// first. Done is false where the channel was closed.
func wait[T any](ctx context.Context, closed <-chan struct{}, from <-chan T) (got T, done bool, err error) {
	select {
	case got, done = <-from:
	case <-ctx.Done():
		err = ctx.Err()
	case <-closed:
		err = ErrClosed
	}
	return got, done, err
}
