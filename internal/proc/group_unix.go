//go:build unix

package proc

import (
	"os/exec"
	"syscall"
)

// isolate gives a process a group of its own: it can be killed with all of its
// children, and an interrupt typed at the terminal does not reach it, so that
// requests under way can finish. On Linux it does not outlive this process, even
// one that is killed; what it started itself may then.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
}

// killGroup kills the process and every process of its group. That the group is
// gone already is no error.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
