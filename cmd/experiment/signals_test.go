//go:build !windows

package main

import (
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"extraction-experiment/internal/cli"
)

// TestSignals_nobodyReads: the reader of a run's output ends at once, and the run goes on.
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
