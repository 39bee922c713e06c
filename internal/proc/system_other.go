//go:build !unix

package proc

import "os/exec"

// isolate does nothing: there are no process groups here.
func isolate(*exec.Cmd) {}

// killGroup kills the process; its children live on. That it is gone already
// is no error.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// endOrphans finds nothing: only Linux shows the environment of processes.
func endOrphans(string, int) int { return 0 }
