package proc

import (
	"bufio"
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
	// drainTime is how long the output of an ended process is read if a process outside of its
	// group keeps the pipe open.
	drainTime = 200 * time.Millisecond
	// reapTime is how long end waits for a killed process.
	reapTime = 10 * time.Second
)

// process is a running program. Only one goroutine at a time may use it.
type process struct {
	program *program
	cmd     *exec.Cmd
	stdin   *os.File
	stdout  io.ReadCloser
	stderr  io.ReadCloser
	// childStdin is the child's end of its standard input. After the process has ended, it
	// contains the bytes that the process has not read.
	childStdin *os.File

	stderrTail tail
	lines      chan line     // closed at the end of the output
	quit       chan struct{} // closed by stopReading
	ended      chan struct{} // closed when the process is reaped and its output is read
	answers    int
	quitOnce   sync.Once
	// mark is in the environment of the process and its descendants. orphans is the number of
	// descendants that outlived the process. Only Once uses them.
	mark    string
	orphans int
}

// start starts a process and three goroutines: one for each output and one that waits for the
// end of the process. Without a mark, the output is read in lines; with a mark, it is read as a
// whole.
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
		program: p, cmd: cmd, mark: mark, lines: make(chan line, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	var noInput, noOutput, noErrors error
	c.childStdin, c.stdin, noInput = os.Pipe()
	c.stdout, noOutput = cmd.StdoutPipe()
	c.stderr, noErrors = cmd.StderrPipe()
	err := errors.Join(noInput, noOutput, noErrors)
	if err == nil {
		cmd.Stdin = c.childStdin
		err = cmd.Start()
	}
	if err != nil {
		_ = errors.Join(c.stdin.Close(), c.childStdin.Close()) // nothing was written; cmd closes the other pipes
		return nil, &StartError{Program: p.name, Err: err}
	}
	var readers sync.WaitGroup
	readers.Go(c.readOutput)
	readers.Go(func() {
		masked := p.mask.Writer(io.MultiWriter(&c.stderrTail, p.stderr))
		// The writers never fail, so any error is the end of the pipe.
		_, _ = io.Copy(masked, onlyReader{c.stderr})
		_ = masked.Close()
	})
	go c.wait(&readers)
	return c, nil
}

// onlyReader hides the method WriteTo of a file.
type onlyReader struct{ io.Reader }

// wait reaps the process, kills its group and closes its output, which a process outside of the
// group may keep open.
func (c *process) wait(readers *sync.WaitGroup) {
	// Cmd.Wait would close the output while it is read. There is no error, because nothing else
	// waits for the process.
	c.cmd.ProcessState, _ = c.cmd.Process.Wait()
	c.orphans = endOrphans(c.mark, c.cmd.Process.Pid)
	// The group exists as long as it has members. If it is empty, its id is almost certainly
	// still unused.
	killGroup(c.cmd)
	read := make(chan struct{})
	go func() { readers.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(drainTime):
	}
	c.stdout.Close()
	c.stderr.Close()
	c.stopReading()
	<-read
	close(c.ended)
}

// stopReading makes readOutput return instead of waiting for a receiver of lines.
func (c *process) stopReading() { c.quitOnce.Do(func() { close(c.quit) }) }

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
	c.stopReading()
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
		unread, _ = io.Copy(io.Discard, onlyReader{c.childStdin})
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
	c.stopReading()
	c.stdin.Close()
	select {
	case <-c.ended:
	case <-time.After(c.program.cfg.Grace):
	}
	c.end(nil)
}

// fail returns an *Error for an ended process.
func (c *process) fail(kind Kind, cause error, format string, args ...any) error {
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

// readOutput reads standard output until it ends, a line is too long, or stopReading is called.
// It skips blank lines. It reads at most one line more than the channel holds, so a program
// that prints too much blocks on its pipe.
func (c *process) readOutput() {
	defer close(c.lines)
	limit := c.program.cfg.MaxLine
	if c.mark != "" {
		// Any error is the end of the pipe.
		all, _ := io.ReadAll(io.LimitReader(onlyReader{c.stdout}, int64(limit)+1))
		c.lines <- line{text: all, flood: len(all) > limit}
		return
	}
	in := bufio.NewReaderSize(c.stdout, 64<<10)
	for {
		l, ok := readLine(in, limit)
		if !ok {
			return
		}
		select {
		case c.lines <- l:
		case <-c.quit:
			return
		}
		if l.flood || l.partial {
			return
		}
	}
}

// readLine reads the next line that is not blank. ok is false at the end of the output. It
// holds at most limit bytes and the buffer of the reader in memory.
func readLine(in *bufio.Reader, limit int) (l line, ok bool) {
	for {
		part, err := in.ReadSlice('\n')
		l.text = append(l.text, part...)
		if len(bytes.TrimRight(l.text, "\r\n")) > limit {
			return line{flood: true}, true
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.text = bytes.TrimSpace(l.text)
		if err != nil {
			l.partial = true
			return l, len(l.text) > 0
		}
		if len(l.text) == 0 {
			continue
		}
		ahead, _ := in.Peek(in.Buffered())
		if ahead = bytes.TrimSpace(ahead); len(ahead) > 0 {
			l.surplus = bytes.Clone(ahead[:min(len(ahead), 200)])
		}
		return l, true
	}
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
	output, _, interrupted := receive(ctx, nil, c.lines)
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
