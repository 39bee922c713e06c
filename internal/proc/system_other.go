//go:build !unix

package proc

import (
	"os/exec"
	"time"
)

// isolate does nothing, because the system has no process groups.
func isolate(*exec.Cmd) {}

// killGroup kills the process, but not its children. It ignores the error if the process has
// ended.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// endOrphans does nothing, because only Linux shows the environment of processes.
func endOrphans(string, int, time.Duration) int { return 0 }
