package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// strayTime is how long what a program started may outlive it: the parts of
	// a shell's pipeline end a moment after one another, and tools have helpers
	// that write their statistics.
	strayTime = time.Second
	strayStep = 10 * time.Millisecond
	// strayRounds is how often strays are looked for and killed: one that forks
	// while it is looked for is met in the next round.
	strayRounds = 20
)

// endStrays kills what the ended process left running, in its group or outside
// of it, and returns how many there were. Without a mark it does nothing.
func (p *process) endStrays() int {
	if p.mark == "" || len(strays(p.mark)) == 0 {
		return 0
	}
	for waited := time.Duration(0); waited < strayTime; waited += strayStep {
		time.Sleep(strayStep)
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
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var found []int
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, entry) {
			continue // not ours: another user's, or gone
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}
