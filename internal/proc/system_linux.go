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
	// orphanTime is how long what a program started may outlive it: the parts of
	// a shell's pipeline end a moment after one another, and tools have helpers
	// that write their statistics.
	orphanTime = time.Second
	orphanStep = 5 * time.Millisecond // the first pause; each is twice as long as the one before
	// orphanRounds is how often orphans are looked for and killed: one that forks
	// while it is looked for is met in the next round.
	orphanRounds = 20
)

// endOrphans kills what an ended process left running, in its group or outside
// of it, and returns how many there were. Without a mark it does nothing.
func endOrphans(mark string, group int) int {
	if mark == "" {
		return 0
	}
	none, left := 0, 0
	until := time.Now().Add(orphanTime)
	for pause := orphanStep; time.Now().Before(until); pause *= 2 {
		if len(orphans(mark, group)) > 0 {
			none = 0
		} else if none++; none == 2 {
			// A process outside of the group that is just being made into another program
			// shows nothing: hence the second look.
			return 0
		}
		time.Sleep(min(pause, time.Until(until)))
	}
	for range orphanRounds {
		found := orphans(mark, group)
		if len(found) == 0 {
			break
		}
		left = max(left, len(found))
		for _, pid := range found {
			// That it has ended in the meantime is not an error.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	return left
}

// orphans returns the processes whose environment holds the mark, and those of the
// group that show none since they are just being made into another program. Ended ones
// that nobody has reaped show none either.
func orphans(mark string, group int) []int {
	entry := []byte(envMark + "=" + mark)
	processes, _ := os.ReadDir("/proc") // what there is of it
	var found []int
	for _, process := range processes {
		name := process.Name()
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // no process
		}
		environ, err := os.ReadFile("/proc/" + name + "/environ")
		if err != nil { // another user's, or gone
			continue
		}
		if bytes.Contains(environ, entry) || len(environ) == 0 && runsIn(name, group) {
			found = append(found, pid)
		}
	}
	return found
}

// runsIn reports whether a process belongs to the group and has not ended. Its line is
// "pid (name) state parent group …", and the name may hold anything.
func runsIn(pid string, group int) bool {
	line, err := os.ReadFile("/proc/" + pid + "/stat")
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if err != nil || len(fields) < 3 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return false
	}
	return string(fields[2]) == strconv.Itoa(group)
}

// isolate gives a process a group of its own: it can be killed with all of its
// children, and an interrupt typed at the terminal does not reach it, so that
// requests under way can finish. It does not outlive this process, even
// one that is killed; what it started itself may then.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills the process and every process of its group. That the group is
// gone already is not an error.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
