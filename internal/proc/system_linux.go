package proc

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

const (
	orphanStep = 5 * time.Millisecond // the first pause between two checks; pauses double
	// orphanRounds is the maximum number of times orphans are searched and killed. An orphan
	// that is forked during a search is found in the next.
	orphanRounds = 20
)

// endOrphans kills the descendants of an ended process, inside and outside of its group, and
// returns their number. They may still end by themselves for patience. Without a mark it does
// nothing.
func endOrphans(mark string, group int, patience time.Duration) int {
	if mark == "" {
		return 0
	}
	emptyRounds, killed := 0, 0
	until := time.Now().Add(patience)
	for pause := orphanStep; time.Now().Before(until); pause *= 2 {
		if len(orphans(mark, group)) > 0 {
			emptyRounds = 0
		} else if emptyRounds++; emptyRounds == 2 {
			// One round is not enough: a process outside of the group has no environment during
			// execve.
			return 0
		}
		time.Sleep(min(pause, time.Until(until)))
	}
	for range orphanRounds {
		found := orphans(mark, group)
		if len(found) == 0 {
			break
		}
		killed = max(killed, len(found))
		for _, pid := range found {
			// It is not an error if the process has already ended.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	return killed
}

// orphans returns the processes with the mark in their environment, and the processes of the
// group without an environment, which are in execve. Zombies have no environment either, but
// are not included.
func orphans(mark string, group int) []int {
	entry := []byte(envMark + "=" + mark)
	processes, _ := os.ReadDir("/proc") // may be incomplete
	var found []int
	for _, process := range processes {
		name := process.Name()
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		environ, err := os.ReadFile("/proc/" + name + "/environ")
		if err != nil { // the process belongs to another user or has ended
			continue
		}
		if bytes.Contains(environ, entry) || len(environ) == 0 && runsIn(name, group) {
			found = append(found, pid)
		}
	}
	return found
}

// runsIn reports whether a process belongs to the group and has not ended. The content of its
// file stat is "pid (name) state parent group …", where name may contain any characters.
func runsIn(pid string, group int) bool {
	line, err := os.ReadFile("/proc/" + pid + "/stat")
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if err != nil || len(fields) < 3 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return false
	}
	return string(fields[2]) == strconv.Itoa(group)
}

// isolate puts a process into a group of its own, so that it can be killed with all of its
// children, and so that an interrupt from the terminal does not reach it and its requests can
// finish. The process does not outlive this process, even if this process is killed. In that
// case its own children may.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills the process and every process of its group. It ignores the error if the group
// has ended.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
