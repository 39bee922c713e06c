//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
)

// isolate gives a process a group of its own: it can be killed with all of its
// children, and an interrupt typed at the terminal does not reach it, so that
// requests under way can finish. Only on Linux it ends with this process.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the process and every process of its group. That the group is
// gone already is not an error.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// endOrphans finds nothing: only Linux shows the environment of processes. What
// is left in the process group is killed with it all the same.
func endOrphans(string, int) int { return 0 }
