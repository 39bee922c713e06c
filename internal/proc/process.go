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
)

const (
	// drainTime is how long the output of an ended process is still read when a
	// process outside of its group holds the pipe.
	drainTime = 200 * time.Millisecond
	// reapTime is how long a killed process may take to end.
	reapTime = 10 * time.Second
)

// process is one running program. One goroutine at a time exchanges lines with
// it and finally retires it.
type process struct {
	program *program
	cmd     *exec.Cmd
	stdin   *os.File
	stdout  io.ReadCloser
	stderr  io.ReadCloser
	// unread is our own copy of the child's end of standard input: what is
	// still in it when the process has ended was never read.
	unread *os.File

	said    tail
	lines   chan line     // closed when there is no more output
	quit    chan struct{} // closed when nobody wants lines any more
	ended   chan struct{} // closed when the process is reaped and its output read
	answers int
	once    sync.Once
	// mark names the process in the environment of all that descends from it;
	// orphans is how many of those outlived it. Both are used by Once only.
	mark    string
	orphans int
}

// start starts a process with its three goroutines: one for each output and one
// that waits for its end. Its output is read in lines, or with a mark as one.
func (p *program) start(mark string) (*process, error) {
	cmd := exec.Command(p.cfg.Command[0], p.cfg.Command[1:]...)
	cmd.Dir, cmd.Env = p.cfg.Dir, p.environ()
	if mark != "" {
		cmd.Env = append(cmd.Env, envMark+"="+mark)
	}
	isolate(cmd)
	c := &process{
		program: p, cmd: cmd, mark: mark, lines: make(chan line, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	var noInput, noOutput, noErrors error
	c.unread, c.stdin, noInput = os.Pipe()
	c.stdout, noOutput = cmd.StdoutPipe()
	c.stderr, noErrors = cmd.StderrPipe()
	err := errors.Join(noInput, noOutput, noErrors)
	if err == nil {
		cmd.Stdin = c.unread
		err = cmd.Start()
	}
	if err != nil {
		_ = errors.Join(c.stdin.Close(), c.unread.Close()) // nothing was written; the library closes the others
		return nil, &StartError{Program: p.name, Err: err}
	}
	var readers sync.WaitGroup
	readers.Go(c.readOutput)
	readers.Go(func() {
		masked := p.mask.Writer(io.MultiWriter(&c.said, p.stderr))
		// An error here is the end of the pipe, however it came about: the writers
		// after it never fail.
		_, _ = io.Copy(masked, onlyReader{c.stderr})
		_ = masked.Close()
	})
	go c.wait(&readers)
	return c, nil
}

// onlyReader hides that a file can copy itself, which would bypass the writers.
type onlyReader struct{ io.Reader }

// wait reaps the process and ends what belongs to it: its group, and its
// output, which a process outside of the group may still hold open.
func (c *process) wait(readers *sync.WaitGroup) {
	// That of Cmd would close the output, which is still read. Nobody else waits, so that
	// there is no error.
	c.cmd.ProcessState, _ = c.cmd.Process.Wait()
	c.orphans = endOrphans(c.mark, c.cmd.Process.Pid)
	// The group outlives its leader as long as it has members; an empty one
	// could only be taken by a new process with the same id in this instant.
	killGroup(c.cmd)
	read := make(chan struct{})
	go func() { readers.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(drainTime):
	}
	c.stdout.Close()
	c.stderr.Close()
	c.unwanted()
	<-read
	close(c.ended)
}

// unwanted tells the reader that nobody takes lines any more.
func (c *process) unwanted() { c.once.Do(func() { close(c.quit) }) }

// send writes a request in the background; the channel is closed when all is
// written, or cannot be. With last, the process sees the end of its input then.
func (c *process) send(request []byte, last bool) <-chan struct{} {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// An error means that the process is gone, which its output tells.
		_, _ = c.stdin.Write(request)
		if last {
			c.stdin.Close()
		}
	}()
	return sent
}

// end kills the process with its group, waits for its end, and returns how many
// bytes of its input nobody read. A write that is still under way is let through,
// and sent is closed when it is done; nil means that there is none.
func (c *process) end(sent <-chan struct{}) (unread int64) {
	c.unwanted()
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
		unread, _ = io.Copy(io.Discard, onlyReader{c.unread})
	}()
	if sent != nil {
		<-sent
	}
	c.stdin.Close()
	<-drained
	c.unread.Close()
	return unread
}

// stop asks the process to end by closing its input, and kills it if it takes
// longer than grace.
func (c *process) stop() {
	c.unwanted()
	c.stdin.Close()
	select {
	case <-c.ended:
	case <-time.After(c.program.cfg.Grace):
	}
	c.end(nil)
}

// fail makes an error of what an ended process did.
func (c *process) fail(kind Kind, cause error, format string, args ...any) error {
	return &Error{
		Kind: kind, Program: c.program.name, Message: fmt.Sprintf(format, args...),
		Stderr: c.said.text(), Err: cause,
	}
}

func (c *process) interrupted(cause error) error {
	return c.fail(Interrupted, cause, "was killed before it answered: %v", cause)
}

// excerpt is the beginning of an output for a message.
func (c *process) excerpt(text []byte) string {
	return shorten(c.program.mask.Text(string(text[:min(len(text), 4*tailSize)])))
}

// line is what the reader of standard output reports.
type line struct {
	text    []byte // without the end of line
	surplus []byte // what followed the line already, if it is not blank
	flood   bool   // longer than allowed; nothing is read after it
	partial bool   // the output ended within it
}

// readOutput reads standard output until it ends, floods, or nobody wants it.
// Blank lines are passed over. One line waits in the channel and one in the
// reader's hand: a program that babbles is held back by its pipe.
func (c *process) readOutput() {
	defer close(c.lines)
	limit := c.program.cfg.MaxLine
	if c.mark != "" {
		// An error here is the end of the pipe, however it came about.
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

// readLine reads the next line that is not blank; ok is false at the end. It
// keeps at most limit bytes and the reader's buffer.
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

// tailSize is how much of standard error is kept, in bytes; tailLines how many
// of its last lines a message shows.
const (
	tailSize  = 4 << 10
	tailLines = 10
)

// tail is a writer that keeps the last tailSize bytes.
type tail struct {
	mu   sync.Mutex
	kept []byte
	cut  bool // there was more before
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if surplus := len(t.kept) - tailSize; surplus > 0 {
		t.kept, t.cut = bytes.Clone(t.kept[surplus:]), true
	}
	return len(p), nil
}

// text returns the last lines, valid UTF-8. A line whose beginning is lost is
// left out unless it is the only one.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := string(t.kept)
	if _, rest, ok := strings.Cut(kept, "\n"); t.cut && ok && strings.TrimSpace(rest) != "" {
		kept = rest
	}
	lines := strings.Split(strings.ToValidUTF8(strings.TrimSpace(kept), string(utf8.RuneError)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// tee hands what processes write to standard error on to one writer, one
// write at a time. That a writer fails is no matter: what a program says beside
// its answers must not fail a run.
type tee struct {
	mu sync.Mutex
	to io.Writer
}

// Write never fails.
func (t *tee) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.to != nil {
		_, _ = t.to.Write(p)
	}
	return len(p), nil
}

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

// Memory returns the resident memory of a running process and the most that it had, in bytes;
// 0 where the system has no /proc, or the process is gone. The resource usage of one that
// has ended is no use: on Linux it begins with the memory of the process that started it.
func Memory(pid int) (now, most int64) {
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
			now = kilobytes << 10
		case "VmHWM":
			most = kilobytes << 10
		}
	}
	return now, most
}
