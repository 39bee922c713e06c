//go:build unix

package proc

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// startDaemon starts a process that leaves the process group and keeps all pipes open.
func startDaemon() (pid int, err error) {
	daemon := exec.Command(os.Args[0])
	daemon.Env = append(os.Environ(), envBehaviour+"=deaf")
	daemon.Stdin, daemon.Stdout, daemon.Stderr = os.Stdin, os.Stdout, os.Stderr
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := daemon.Start(); err != nil {
		return 0, err
	}
	return daemon.Process.Pid, nil
}

// TestCall_daemons checks that a grandchild outside of the group is not killed and does not block
// the pool: the pool notices the end of the child, the next request gets a new process, and Close
// returns.
func TestCall_daemons(t *testing.T) {
	pool := newPool(t, "daemon", nil)
	for n := range 2 {
		answer, err := call(t, pool, "{}")
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(answer)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Errorf("the daemon %d was to outlive its parent: %v", pid, err)
			}
		})
		if pool.Started() != n+1 {
			t.Errorf("%d processes were started, want %d", pool.Started(), n+1)
		}
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}
