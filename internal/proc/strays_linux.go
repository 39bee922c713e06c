package proc

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

const (
	// strayTime is how long what a program started may outlive it: the parts of
	// a shell's pipeline end a moment after one another, and tools have helpers
	// that write their statistics.
	strayTime = time.Second
	strayStep = 5 * time.Millisecond // the first pause; each is twice as long as the one before
	// strayRounds is how often strays are looked for and killed: one that forks
	// while it is looked for is met in the next round.
	strayRounds = 20
)

// endStrays kills what the ended process left running, in its group or outside
// of it, and returns how many there were. Without a mark it does nothing.
func (p *process) endStrays() int {
	if p.mark == "" {
		return 0
	}
	if len(strays(p.mark)) == 0 {
		// A process that is just being made into another program shows no
		// environment: look a second time.
		time.Sleep(strayStep)
		if len(strays(p.mark)) == 0 {
			return 0
		}
	}
	until := time.Now().Add(strayTime)
	for pause := strayStep; time.Now().Before(until); pause *= 2 {
		time.Sleep(min(pause, time.Until(until)))
		if len(strays(p.mark)) == 0 {
			return 0
		}
	}
	left := 0
	for range strayRounds {
		found := strays(p.mark)
		if len(found) == 0 {
			break
		}
		left = max(left, len(found))
		for _, pid := range found {
			// That it has ended in the meantime is no error.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	return left
}

// strays returns the processes whose environment holds the mark. Ended ones that
// nobody has reaped have no environment any more.
func strays(mark string) []int {
	entry := []byte(envMark + "=" + mark)
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close() // only read
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var found []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // no process
		}
		environ, err := os.ReadFile("/proc/" + name + "/environ")
		if err == nil && bytes.Contains(environ, entry) { // else another user's, or gone
			found = append(found, pid)
		}
	}
	return found
}
