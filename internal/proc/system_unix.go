//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
	"time"
)

// isolate puts a process into a group of its own, so that it can be killed with all of its
// children, and so that an interrupt from the terminal does not reach it and its requests can
// finish. Unlike on Linux, the process may outlive this process.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the process and every process of its group. It ignores the error if the group
// has ended.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// endOrphans does nothing, because only Linux shows the environment of processes. killGroup
// kills the descendants in the process group.
func endOrphans(string, int, time.Duration) int { return 0 }
