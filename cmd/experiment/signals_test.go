//go:build !windows

package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"extraction-experiment/internal/cli"
)

// TestSignals_nobodyReads: the reader of a run's output ends at once, and the run goes on. A
// command that reads an export ends, and leaves no copy of it. A gate that fails is told.
func TestSignals_nobodyReads(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	file := f.writeItems(t, makeItems(4, 500))
	script := `(experiment --dataset "$1" --name r --max-failures 4; echo $? >code) 2>&1 | true`
	shell := folder{dir: f.dir, env: f.env, program: "sh"}
	shell.run(t, 0, "-c", script, "sh", file)
	if code, err := os.ReadFile(f.path("code")); err != nil || string(code) == "141\n" || string(code) == "" {
		t.Errorf("exit code %q, %v", code, err)
	}
	if _, committed := outcomes(t, f.runFile(file, "r")); len(committed) != 4 {
		t.Errorf("%d of 4 outcomes", len(committed))
	}
	f.run(t, 0, "export", "r", "--output", "r.jsonl")
	must(t, os.Mkdir(f.path("tmp"), 0o700))
	silent := shell.run(t, 0, "-c", "TMPDIR=tmp experiment export r.jsonl | true")
	if silent.stderr.Len() > 0 {
		t.Errorf("it says: %s", &silent.stderr)
	}
	if left, err := os.ReadDir(f.path("tmp")); err != nil || len(left) > 0 {
		t.Errorf("the imported run is left in %v, %v", left, err)
	}
	gated := shell.run(t, 0, "-c", "experiment compare r r --gate 'error <= base - 0.5' | true")
	if text := gated.stderr.String(); !strings.Contains(text, "does not pass the gate") {
		t.Errorf("of the gate it says %q", text)
	}
}

// TestSignals_terminalGone: SIGHUP stops a run like SIGINT.
func TestSignals_terminalGone(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("programs that are started here are told of no hangup: the tests run under nohup")
	}
	f := newFolder(t)
	file := f.writeItems(t, makeItems(32, 25_000))
	path := f.runFile(file, "r")
	c := f.start(t, "--dataset", file, "--name", "r", "--concurrency", "2", "--max-failures", "1", "--quiet")
	c.reach(t, path, instant{done: 2}, rand.New(rand.NewPCG(3, 3)))
	must(t, c.Process.Signal(syscall.SIGHUP))
	c.exits(t, cli.ExitInterrupted)
	if _, err := os.Stat(path + "-wal"); err == nil {
		t.Error("the log was not written back")
	}
}

// TestSignals_blockedOutput: a command whose output nobody reads ends at the second signal.
func TestSignals_blockedOutput(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	file := f.writeItems(t, makeItems(16, 25_000))                        // 400 kB, more than a pipe takes
	f.run(t, 4, "seed", "--dataset", "d", "--file", file, "--keep-going") // an item has no text
	endsUnread(t, f, "--dataset", file, "--name", "r", "--max-failures", "16", "--quiet", "--output", "-")
	endsUnread(t, f, "seed", "--dataset", "d", "--export", "-")
}

// TestSignals_pipeWithoutReader: a signal ends the wait for a reader of a pipe with exit code 5.
func TestSignals_pipeWithoutReader(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	file := f.writeItems(t, makeItems(1, 500))
	must(t, syscall.Mkfifo(f.path("pipe"), 0o600))
	c := exec.Command("experiment", "--dataset", file, "--name", "r", "--max-failures", "1", "--output", "pipe")
	c.Dir, c.Env = f.dir, f.environment()
	stdout, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	_, err = stdout.Read(make([]byte, 1)) // the summary, which comes before the output
	must(t, err)
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	for wait := 100 * time.Millisecond; wait < time.Minute; wait *= 20 {
		select {
		case <-ended:
			if code := c.ProcessState.ExitCode(); code != cli.ExitInterrupted {
				t.Errorf("it ended with %d (%s)", code, c.ProcessState)
			}
			return
		case <-time.After(wait):
			_ = c.Process.Signal(syscall.SIGTERM)
		}
	}
	t.Error("signals did not end it")
	must(t, c.Process.Kill())
	<-ended
}

// endsUnread sends signals to a command whose output nobody reads, until it ends.
func endsUnread(t *testing.T, f folder, args ...string) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	c := exec.Command("experiment", args...)
	c.Dir, c.Env, c.Stdout = f.dir, f.environment(), w
	must(t, c.Start())
	must(t, w.Close())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	_, err = r.Read(make([]byte, 1)) // the output has begun
	must(t, err)
	tick := time.Tick(10 * time.Millisecond)
	for range 500 { // signals that come together count as one
		select {
		case <-ended:
			return
		case <-tick:
			_ = c.Process.Signal(syscall.SIGTERM) // fails if the process has just ended
		}
	}
	t.Errorf("500 signals did not end %q", args)
	must(t, c.Process.Kill())
	<-ended
}
