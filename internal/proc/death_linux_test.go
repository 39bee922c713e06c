package proc

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestOnce_killedParent checks that a program ends if the process that waits for it is killed,
// which leaves that process no time to end the program.
func TestOnce_killedParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), envBehaviour+"=asks")
	stderr, err := parent.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // the error is the kill
	waitGone(t, strings.TrimSpace(line))
}

func TestMemory(t *testing.T) {
	if current, peak := Memory(os.Getpid()); current <= 0 || peak < current {
		t.Errorf("this process has %d bytes, at most %d", current, peak)
	}
	if current, peak := Memory(-1); current != 0 || peak != 0 {
		t.Errorf("no process has %d bytes, at most %d", current, peak)
	}
}
