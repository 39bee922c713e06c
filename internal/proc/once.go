package proc

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"

	"extraction-experiment/internal/secret"
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
// *StartError, *InterruptedError (wraps the context's error), *FloodError,
// *ExitError, *UnreadError, *StrayError. Nothing is repeated; safe for
// concurrent use.
func Once(ctx context.Context, cfg Config, input []byte) ([]byte, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	o := &once{cfg: cfg, program: shorten(cfg.Command[0]), flood: make(chan struct{})}
	if err := findProgram(cfg); err != nil {
		return nil, &StartError{Program: o.program, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.program, err)
	}
	mark, err := newMark()
	if err != nil {
		return nil, err
	}
	o.mask = cfg.masker()
	o.cfg.Env = append(append([]string{}, cfg.Env...), envMark+"="+mark)
	if o.process, err = launch(o.cfg, &tee{to: cfg.Stderr}, o.mask, mark, o.read); err != nil {
		return nil, &StartError{Program: o.program, Err: err}
	}
	return o.exchange(ctx, input)
}

func newMark() (string, error) {
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("marking a process: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// once is one program that is asked one thing.
type once struct {
	cfg     Config
	program string
	mask    *secret.Masker
	process *process
	output  bytes.Buffer
	flood   chan struct{} // closed when there is more output than allowed
}

// read keeps the output; what floods is left in the pipe, which holds the
// program back.
func (o *once) read(p *process) {
	// An error here is the end of the pipe, however it came about.
	_, _ = io.Copy(&o.output, io.LimitReader(onlyReader{p.stdout}, int64(o.cfg.MaxLine)+1))
	if o.output.Len() > o.cfg.MaxLine {
		close(o.flood)
	}
}

func (o *once) exchange(ctx context.Context, input []byte) ([]byte, error) {
	p := o.process
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// An error means that the process is gone, which its status tells.
		_, _ = p.stdin.Write(input)
		p.stdin.Close()
	}()
	var cause error
	select {
	case <-p.ended:
	case <-ctx.Done():
		cause = &InterruptedError{Program: o.program, Err: ctx.Err()}
	case <-o.flood:
		cause = &FloodError{Program: o.program, Limit: o.cfg.MaxLine, Once: true}
	}
	if err := p.kill(); err != nil {
		return nil, err
	}
	unread := p.retire(sent)
	said := p.said.text()
	switch cause := cause.(type) {
	case *InterruptedError:
		cause.Stderr = said
		return nil, cause
	case *FloodError:
		cause.Stderr = said
		return nil, cause
	}
	return o.judge(len(input), unread, said)
}

// judge says whether a program that ended by itself answered.
func (o *once) judge(given int, unread int64, said string) ([]byte, error) {
	p := o.process
	select {
	case <-o.flood: // it ended in the same moment
		return nil, &FloodError{Program: o.program, Limit: o.cfg.MaxLine, Once: true, Stderr: said}
	default:
	}
	switch state := p.cmd.ProcessState; {
	case !state.Success():
		return nil, &ExitError{Program: o.program, Status: state.String(), Stderr: said}
	case p.left > 0:
		return nil, &StrayError{Program: o.program, Processes: p.left, Stderr: said}
	case given > 0 && unread >= int64(given):
		return nil, &UnreadError{Program: o.program, Stderr: said}
	}
	return o.mask.JSON(o.output.Bytes()), nil
}
