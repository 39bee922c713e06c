package proc

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"extraction-experiment/internal/testkit/suite"

	"go.uber.org/goleak"
)

// envBehaviour is the environment variable that turns the test binary into a child program with
// that behaviour.
const envBehaviour = "PROC_TEST_CHILD"

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(envBehaviour); behaviour != "" {
		os.Exit(runChild(behaviour))
	}
	if err := suite.SetParallel(4); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// runChild is the child program: it answers requests as its behaviour says, most often with the
// request itself, and returns its exit code.
func runChild(behaviour string) int {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	if code, done := beforeReading(behaviour); done {
		return code
	}
	for n := 1; ; n++ {
		request, err := in.ReadString('\n')
		if err != nil {
			if behaviour == "stays" {
				time.Sleep(time.Minute)
			}
			return 0
		}
		request = strings.TrimSpace(request)
		if code, done := answer(behaviour, request, n); done {
			return code
		}
	}
}

// beforeReading does what a child does before it reads anything. If done is true, it ends with
// code.
func beforeReading(behaviour string) (code int, done bool) {
	switch behaviour {
	case "fails":
		fmt.Fprintln(os.Stderr, "no such config: extract.toml")
		return 3, true
	case "asks": // the test kills it while it waits
		_, err := Once(context.Background(), Config{Command: []string{"/bin/sh", "-c", "echo $$ >&2; exec sleep 60"}, Stderr: os.Stderr}, []byte("x"))
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	case "deaf":
		time.Sleep(time.Minute)
		return 0, true
	case "refuses": // answers from the first byte and ends
		os.Stdin.Read(make([]byte, 1))
		fmt.Println("{}")
		return 0, true
	case "greets":
		fmt.Println("loading the model")
	}
	return 0, false
}

// answer does what a child does for its n-th request. If done is true, it ends with code.
func answer(behaviour, request string, n int) (code int, done bool) {
	switch behaviour {
	case "slow":
		time.Sleep(time.Minute)
	case "tenth":
		if n == 10 {
			fmt.Fprintf(os.Stderr, "request %s was too much\n", request)
			return 9, true
		}
	case "mortal":
		if request == "die" {
			return 1, true
		}
	case "once": // ends after an answer
		fmt.Println(request)
		return 4, true
	case "floods":
		block := bytes.Repeat([]byte("x"), 64<<10)
		for {
			if _, err := os.Stdout.Write(block); err != nil {
				return 1, true
			}
		}
	case "babbles":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("1\n", 1000)); err != nil {
				return 1, true
			}
		}
	case "twice":
		fmt.Printf("%s\n%s\n", request, request)
		return 0, false
	case "blank":
		fmt.Printf("\n%s\r\n\n", request)
		return 0, false
	case "partial":
		fmt.Print(`{"entities":`)
		return 0, true
	case "shouts": // 10 MB of standard error
		line := strings.Repeat("e", 99) + "\n"
		os.Stderr.WriteString(strings.Repeat(line, 100_000))
		fmt.Fprintln(os.Stderr, "the end")
		if request == "die" {
			return 1, true
		}
	case "forks", "forks and dies": // the grandchild keeps all pipes open
		grandchild := exec.Command(os.Args[0])
		grandchild.Env = append(os.Environ(), envBehaviour+"=deaf")
		grandchild.Stdout, grandchild.Stderr = os.Stdout, os.Stderr
		if err := grandchild.Start(); err != nil {
			return 1, true
		}
		fmt.Fprintln(os.Stderr, "grandchild", grandchild.Process.Pid)
		if behaviour == "forks and dies" {
			return 5, true
		}
		fmt.Println(grandchild.Process.Pid)
		return 0, false
	case "daemon": // ends after its answer, but the daemon does not
		pid, err := startDaemon()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1, true
		}
		fmt.Println(pid)
		return 0, true
	case "leaks":
		fmt.Fprintln(os.Stderr, "using", os.Getenv("MY_API_KEY"))
		return 1, true
	}
	fmt.Println(request)
	return 0, false
}
