package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"extraction-experiment/internal/cli"
)

// TestCrash_diskFull limits the size of files during a run, like a full disk. The run stops with
// exit code 74, keeps what was committed, and can be resumed when there is space.
func TestCrash_diskFull(t *testing.T) {
	t.Parallel()
	c := newCrashes(t, 24, "experiment")
	c.runUndisturbed(t)
	const run = "full"
	full := c.folderOf(run)
	full.program = "sh"
	script := `trap '' XFSZ; ulimit -f 300; exec experiment "$@"` // blocks of 512 or 1,024 bytes
	child := full.run(t, cli.ExitIO, append([]string{"-c", script, "sh"}, c.args(run)...)...)
	if !strings.Contains(child.stderr.String(), "--resume") {
		t.Errorf("standard error does not say how to go on:\n%s", &child.stderr)
	}
	_, committed := outcomes(t, c.runFile("made", run))
	if len(committed) == 0 || len(committed) == len(c.items) {
		t.Errorf("%d of %d outcomes were committed: the disk was not full in the middle", len(committed), len(c.items))
	}
	c.resume(t, run)
	checkLangfuse(t, c.client, c.runFile("made", "whole"), c.runFile("made", run))
}

// TestCrash_diskFullAtFirst: the disk is full before the embedded server has stored the built-in
// dataset.
func TestCrash_diskFullAtFirst(t *testing.T) {
	t.Parallel()
	for blocks := 100; ; blocks += 200 { // blocks of 512 or 1,024 bytes
		f := newFolder(t)
		f.program = "sh"
		script := fmt.Sprintf(`trap '' XFSZ; ulimit -f %d; exec experiment --dataset extraction-eval --name r`, blocks)
		child := f.run(t, cli.ExitIO, "-c", script)
		if strings.Contains(child.stderr.String(), "built-in dataset") {
			break // with less space the server does not start
		}
	}
}

// TestCrash_readOnlyFolder: in a read-only folder, no run begins.
func TestCrash_readOnlyFolder(t *testing.T) {
	t.Parallel()
	items := paidItems(2)
	_, env := sharedLangfuse(t, items, direct)
	f := newFolder(t, env...)
	must(t, os.Chmod(f.path(".experiment"), 0o500))
	var c *child
	withoutPrivilege(t, func() { c = f.start(t, "--dataset", "made", "--name", "r") })
	<-c.ended
	c.exits(t, cli.ExitIO)
	if !strings.Contains(c.stderr.String(), ".experiment") {
		t.Errorf("standard error does not name the folder:\n%s", &c.stderr)
	}
}

// withoutPrivilege calls start on a thread whose child processes respect file permissions, even
// those of the superuser.
func withoutPrivilege(t *testing.T, start func()) {
	const dropFromBoundingSet, mayOverrideFilePermissions = 24, 1 // PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if os.Getuid() == 0 {
			if _, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, dropFromBoundingSet, mayOverrideFilePermissions, 0); err != 0 {
				t.Errorf("giving up the privilege: %v", err)
			}
		}
		start()
	}()
	<-ended
}
