package proc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"extraction-experiment/internal/secret"
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
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	// unread is our own copy of the child's end of standard input: what is
	// still in it when the process has ended was never read.
	unread *os.File

	said    *tail
	lines   chan line     // closed when there is no more output
	quit    chan struct{} // closed when nobody wants lines any more
	ended   chan struct{} // closed when the process is reaped and its output read
	answers int
	once    sync.Once
	// mark names the process in the environment of all that descends from it;
	// left is how many of those outlived it. Both are used by Once only.
	mark string
	left int
}

// start starts a process that is asked line by line.
func start(cfg Config, all *tee, mask *secret.Masker) (*process, error) {
	return launch(cfg, all, mask, "", func(p *process) { p.readLines(cfg.MaxLine) })
}

// launch starts a process with its three goroutines: one for each output and one
// that waits for its end. read takes standard output.
func launch(cfg Config, all *tee, mask *secret.Masker, mark string, read func(*process)) (*process, error) {
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Dir = cfg.Dir
	cmd.Env = cfg.environ()
	isolate(cmd)
	var files []*os.File // child's end and ours, in turn
	closeAll := func() {
		for _, f := range files {
			f.Close()
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("opening a pipe: %w", err)
		}
		files = append(files, r, w)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	if err := cmd.Start(); err != nil {
		closeAll()
		return nil, err
	}
	files[3].Close()
	files[5].Close()
	p := &process{
		cmd: cmd, stdin: files[1], unread: files[0], stdout: files[2], stderr: files[4],
		mark: mark, said: &tail{}, lines: make(chan line, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	var readers sync.WaitGroup
	readers.Go(func() { read(p) })
	readers.Go(func() { p.readErrors(mask.Writer(io.MultiWriter(p.said, all))) })
	go p.wait(&readers)
	return p, nil
}

func (p *process) readErrors(masked io.WriteCloser) {
	// An error here is the end of the pipe, however it came about: the writers
	// behind it never fail.
	_, _ = io.Copy(masked, onlyReader{p.stderr})
	_ = masked.Close()
}

// onlyReader hides that a file can copy itself, which would bypass the writers.
type onlyReader struct{ io.Reader }

// wait reaps the process and ends what belongs to it: its group, and its
// output, which a process outside of the group may still hold open.
func (p *process) wait(readers *sync.WaitGroup) {
	// The error is the status, which ProcessState holds too.
	_ = p.cmd.Wait()
	p.left = p.endStrays()
	// The group outlives its leader as long as it has members; an empty one
	// could only be taken by a new process with the same id in this instant.
	killGroup(p.cmd)
	read := make(chan struct{})
	go func() { readers.Wait(); close(read) }()
	late := time.NewTimer(drainTime)
	defer late.Stop()
	select {
	case <-read:
	case <-late.C:
		p.stdout.Close()
		p.stderr.Close()
		p.unwanted()
		<-read
	}
	p.stdout.Close()
	p.stderr.Close()
	close(p.ended)
}

// unwanted tells the reader that nobody takes lines any more.
func (p *process) unwanted() { p.once.Do(func() { close(p.quit) }) }

// alive reports whether the process has not ended, as far as is known.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill kills the process with its group and waits for its end.
func (p *process) kill() error {
	p.unwanted()
	if p.alive() {
		killGroup(p.cmd)
	}
	limit := time.NewTimer(reapTime)
	defer limit.Stop()
	select {
	case <-p.ended:
		return nil
	case <-limit.C:
		return fmt.Errorf("process %d (%s) was killed and does not end", p.cmd.Process.Pid, p.cmd.Path)
	}
}

// retire closes standard input after the process has ended and returns how many
// bytes of it nobody read. A write that is still under way is let through, and
// sent is closed when it is done; nil means that there is none.
func (p *process) retire(sent <-chan struct{}) (left int64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		left, _ = io.Copy(io.Discard, onlyReader{p.unread})
	}()
	if sent != nil {
		<-sent
	}
	p.stdin.Close()
	<-done
	p.unread.Close()
	return left
}

// stop asks the process to end by closing its input, and kills it if it takes
// longer than grace.
func (p *process) stop(grace time.Duration) error {
	p.unwanted()
	p.stdin.Close()
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
	}
	err := p.kill()
	if err == nil {
		p.retire(nil)
	}
	return err
}

// status says how an ended process ended.
func (p *process) status() string {
	if state := p.cmd.ProcessState; state != nil {
		return state.String()
	}
	return "unknown status"
}
