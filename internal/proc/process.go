package proc

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
)

const (
	// drainTime is how long the output of an ended process is read if another process keeps the
	// pipe open.
	drainTime = 200 * time.Millisecond
	// reapTime is how long end waits for a killed process.
	reapTime = 10 * time.Second
	// orphanTime is how long descendants of a program of Once may outlive it without being killed.
	// The parts of a shell pipeline do not end at exactly the same time, and some tools have helper
	// processes.
	orphanTime = time.Second
)

// process is a running program. Only one goroutine at a time may use it.
type process struct {
	program *program
	cmd     *exec.Cmd
	stdin   *os.File
	// childStdin is the child's end of its standard input. After the process has ended, it
	// contains the bytes that the process has not read.
	childStdin *os.File

	output     output
	stderrTail tail
	ended      chan struct{} // closed when the process is reaped and its output is read
	answers    int
	// mark is in the environment of the process and its descendants. orphans is the number of
	// descendants that outlived the process. Only Once uses them.
	mark    string
	orphans int
}

// start starts a process and a goroutine that waits for its end. Without a mark, the output is
// read in lines; with a mark, it is read as a whole.
func (p *program) start(mark string) (*process, error) {
	cmd := exec.Command(p.cfg.Command[0], p.cfg.Command[1:]...)
	environ := os.Environ()
	if p.cfg.Withhold {
		environ, _ = secret.Withhold(environ, p.cfg.Handed)
	}
	cmd.Dir, cmd.Env = p.cfg.Dir, append(environ, p.cfg.Env...)
	if mark != "" {
		cmd.Env = append(cmd.Env, envMark+"="+mark)
	}
	isolate(cmd)
	c := &process{
		program: p, cmd: cmd, mark: mark, ended: make(chan struct{}),
		output: output{limit: p.cfg.MaxLine, whole: mark != "", lines: make(chan line, 1), quit: make(chan struct{})},
	}
	messages := p.mask.Writer(io.MultiWriter(&c.stderrTail, p.stderr))
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &c.output, messages, drainTime
	if mark != "" {
		cmd.WaitDelay = orphanTime
	}
	var err error
	if c.childStdin, c.stdin, err = os.Pipe(); err == nil {
		cmd.Stdin = c.childStdin
		err = cmd.Start()
	}
	if err != nil {
		_ = errors.Join(c.stdin.Close(), c.childStdin.Close()) // nothing was written
		return nil, &StartError{Program: p.name, Err: err}
	}
	go c.wait(messages)
	return c, nil
}

// wait reaps the process, kills its group and ends its output.
func (c *process) wait(messages io.Closer) {
	patience := orphanTime
	if err := c.cmd.Wait(); errors.Is(err, exec.ErrWaitDelay) {
		patience = 0 // an orphan has kept the output open for as long
	}
	c.orphans = endOrphans(c.mark, c.cmd.Process.Pid, patience)
	// The group exists as long as it has members. If it is empty, its id is almost certainly
	// still unused.
	killGroup(c.cmd)
	_ = messages.Close() // the writers never fail
	c.output.end()
	close(c.ended)
}

// send writes a request in the background, and then closes the input if closeInput is true. The
// channel is closed when the write has succeeded or failed.
func (c *process) send(request []byte, closeInput bool) <-chan struct{} {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// After an error, the process has ended, and so does its output.
		_, _ = c.stdin.Write(request)
		if closeInput {
			c.stdin.Close()
		}
	}()
	return sent
}

// end kills the process with its group, waits for its end, and returns how many bytes of its
// input it has not read. sent is the result of a send that may still be writing, or nil; end
// lets it finish.
func (c *process) end(sent <-chan struct{}) (unread int64) {
	c.output.stop()
	if !limit.Closed(c.ended) {
		killGroup(c.cmd)
	}
	select {
	case <-c.ended:
	case <-time.After(reapTime):
		return 0 // the system does not let it end
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		unread, _ = io.Copy(io.Discard, c.childStdin)
	}()
	if sent != nil {
		<-sent
	}
	c.stdin.Close()
	<-drained
	c.childStdin.Close()
	return unread
}

// stop closes the input of the process, and kills the process if it does not end within
// Config.Grace.
func (c *process) stop() {
	c.output.stop()
	c.stdin.Close()
	select {
	case <-c.ended:
	case <-time.After(c.program.cfg.Grace):
	}
	c.end(nil)
}

// fail returns an *Error for an ended process.
func (c *process) fail(kind Kind, cause error, format string, args ...any) *Error {
	return &Error{
		Kind: kind, Program: c.program.name, Message: fmt.Sprintf(format, args...),
		Stderr: c.stderrTail.text(), Err: cause,
	}
}

func (c *process) interrupted(cause error) error {
	return c.fail(Interrupted, cause, "was killed before it answered: %v", cause)
}

// excerpt returns the masked beginning of an output for a message.
func (c *process) excerpt(text []byte) string {
	return shorten(c.program.mask.Text(string(text[:min(len(text), 4*tailSize)])))
}

// line is a line of standard output.
type line struct {
	text    []byte // without the end of line
	surplus []byte // the output after the line that has already been read, if it is not blank
	flood   bool   // the line is too long; nothing is read after it
	partial bool   // the output ended within the line
}

// output is a writer that sends the lines of standard output to a channel, except for blank ones,
// or the whole output at its end. It takes at most one line more than the channel holds, so a
// program that prints too much blocks on its pipe.
type output struct {
	limit  int  // bytes of a line
	whole  bool // all output is one line
	begun  []byte
	lines  chan line     // closed at the end of the output
	quit   chan struct{} // closed by stop
	ending sync.Once
}

// stop makes Write fail instead of waiting for a receiver of lines.
func (o *output) stop() { o.ending.Do(func() { close(o.quit) }) }

// Write fails after stop and after a line that is too long.
func (o *output) Write(p []byte) (int, error) {
	for rest := p; ; {
		var text []byte
		var complete bool
		if text, rest, complete = bytes.Cut(rest, []byte("\n")); o.whole {
			text, complete = p, false
		}
		if o.begun = append(o.begun, text...); len(bytes.TrimRight(o.begun, "\r")) > o.limit {
			o.begun = nil
			o.send(line{flood: true})
			return 0, io.ErrClosedPipe
		}
		if !complete {
			return len(p), nil
		}
		l := line{text: bytes.TrimSpace(o.begun)}
		if o.begun = nil; len(l.text) == 0 {
			continue
		}
		if ahead := bytes.TrimSpace(rest); len(ahead) > 0 {
			l.surplus = bytes.Clone(ahead[:min(len(ahead), 200)])
		}
		if !o.send(l) {
			return 0, io.ErrClosedPipe
		}
	}
}

// send sends a line, unless stop is called before somebody receives it.
func (o *output) send(l line) bool {
	select {
	case o.lines <- l:
		return true
	case <-o.quit:
		return false
	}
}

// end sends what follows the last complete line.
func (o *output) end() {
	if o.whole || len(bytes.TrimSpace(o.begun)) > 0 {
		o.send(line{text: o.begun, partial: true})
	}
	close(o.lines)
}

const (
	tailSize  = 4 << 10 // bytes of standard error that are kept
	tailLines = 10      // lines of standard error in a message
)

// tail is a writer that keeps the last tailSize bytes.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = bytes.Clone(t.buf[max(0, len(t.buf)-tailSize):])
	return len(p), nil
}

// text returns the last lines as valid UTF-8. The beginning of the first may be lost.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.ToValidUTF8(strings.TrimSpace(string(t.buf)), string(utf8.RuneError)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// tee passes the standard error of all processes to one writer, one write at a time. It ignores
// errors of the writer, because messages of programs must not fail a run.
type tee struct {
	mu sync.Mutex
	to io.Writer
}

// Write never fails.
func (t *tee) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.to.Write(p)
	return len(p), nil
}

// envMark is the environment variable that identifies all descendants of a process, including
// those that left its group.
const envMark = "EXPERIMENT_PROCESS_MARK"

// Once runs a program that answers one request. It writes the input, closes it, and returns the
// masked standard output of the program, at most Config.MaxLine bytes. The program must end
// with status 0. Once does not use Config.Processes and Config.Accept.
//
// When Once returns, it has killed the process group of the program, and on Linux also the
// processes that left the group. Errors: those of an invalid Config, that of ctx, *StartError,
// *Error (Interrupted, Flooded, Exited, Unread, Orphaned). Once does not retry. It is safe for
// concurrent use.
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
	output, _, interrupted := receive(ctx, nil, c.output.lines)
	if interrupted == nil && !output.flood {
		_, _, interrupted = receive(ctx, nil, c.ended)
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

// receive receives a value from a channel. ok is false if the channel is closed. The error is
// that of ctx if it ends first, or ErrClosed if closed is closed first.
func receive[T any](ctx context.Context, closed <-chan struct{}, from <-chan T) (value T, ok bool, err error) {
	select {
	case value, ok = <-from:
	case <-ctx.Done():
		err = ctx.Err()
	case <-closed:
		err = ErrClosed
	}
	return value, ok, err
}

// Memory returns the resident memory of a running process and its maximum, in bytes. Both are 0
// if the system has no /proc or the process has ended. (The resource usage of an ended process
// is useless on Linux, because it includes the memory of the process that started it.)
func Memory(pid int) (current, peak int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		var kilobytes int64
		_, _ = fmt.Sscan(value, &kilobytes) // other lines have other values
		switch name {
		case "VmRSS":
			current = kilobytes << 10
		case "VmHWM":
			peak = kilobytes << 10
		}
	}
	return current, peak
}
