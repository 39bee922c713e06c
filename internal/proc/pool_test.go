package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// newPool returns a pool of children with one behaviour. change, if not nil, changes the Config. At
// the end of the test, newPool closes the pool and checks that no process is left.
func newPool(t testing.TB, behaviour string, change func(*Config)) *Pool {
	t.Helper()
	cfg := Config{
		Command: []string{os.Args[0]},
		// With the race detector, each child would sleep for a second at its end.
		Env:   []string{envBehaviour + "=" + behaviour, "GORACE=atexit_sleep_ms=0"},
		Grace: time.Minute, // Close hangs if children do not notice the end of their input
	}
	if change != nil {
		change(&cfg)
	}
	pool, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		if left := children(t); len(left) > 0 {
			t.Errorf("processes %v are left behind", left)
		}
	})
	return pool
}

// children returns the child processes of this process, or none if the system has no /proc.
func children(t testing.TB) (pids []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil { // a thread may have ended
			pids = append(pids, strings.Fields(string(text))...)
		}
	}
	return pids
}

func call(t testing.TB, p *Pool, request string) (string, error) {
	t.Helper()
	answer, err := p.Call(t.Context(), []byte(request))
	return string(answer), err
}

func TestCall_manyOverFewProcesses(t *testing.T) {
	pool := newPool(t, "good", func(c *Config) { c.Processes = 3 })
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			want := strings.Repeat("é", 20_000) + strconv.Itoa(i) // more than a pipe holds
			got, err := call(t, pool, want)
			if err != nil || got != want {
				t.Errorf("request %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	all.Wait()
	if n := pool.Started(); n < 1 || n > 3 {
		t.Errorf("%d processes were started for a limit of 3", n)
	}
}

// TestCall_unreadRequest checks that the answer counts of a process that ends before it has read its
// request, which is longer than a pipe holds, and that the next request gets a new process.
func TestCall_unreadRequest(t *testing.T) {
	pool := newPool(t, "refuses", nil)
	for n := 1; n <= 2; n++ {
		got, err := call(t, pool, strings.Repeat("x", 1<<20))
		if got != "{}" || err != nil || pool.Started() != n {
			t.Errorf("request %d: %q, %v, %d processes", n, got, err, pool.Started())
		}
	}
}

func TestCall_startsOnlyWhatIsNeeded(t *testing.T) {
	pool := newPool(t, "good", func(c *Config) { c.Processes = 8 })
	if pool.Started() != 0 {
		t.Error("a process was started before the first request")
	}
	for range 5 {
		if got, err := call(t, pool, `{}`); got != `{}` || err != nil {
			t.Fatal(got, err)
		}
	}
	if n := pool.Started(); n != 1 {
		t.Errorf("%d processes were started for one request at a time", n)
	}
}

// TestCall_diesAtEveryTenth uses processes that end at their 10th request: of 35 sequential
// requests, the requests 10, 20 and 30 must fail, and 4 processes be started.
func TestCall_diesAtEveryTenth(t *testing.T) {
	pool := newPool(t, "tenth", nil)
	for n := 1; n <= 35; n++ {
		got, err := call(t, pool, strconv.Itoa(n))
		if n%10 != 0 {
			if err != nil || got != strconv.Itoa(n) {
				t.Errorf("request %d: %q, %v", n, got, err)
			}
			continue
		}
		var died *Error
		if !errors.As(err, &died) || died.Kind != Died || !strings.Contains(died.Message, "(exit status 9, after 9 answers)") ||
			died.Stderr != fmt.Sprintf("request %d was too much", n) {
			t.Errorf("request %d: %+v", n, err)
		}
		var start *StartError
		if errors.As(err, &start) {
			t.Errorf("request %d: counts as a failed start", n)
		}
	}
	if pool.Started() != 4 {
		t.Errorf("%d processes were started, want 4", pool.Started())
	}
}

// TestCall_diesOfItsFirstRequest checks that a process that ends at its first request counts as a
// failed start only if no process has ever answered.
func TestCall_diesOfItsFirstRequest(t *testing.T) {
	pool := newPool(t, "mortal", nil)
	var start *StartError
	if _, err := call(t, pool, "die"); !errors.As(err, &start) {
		t.Errorf("before any answer: %v", err)
	}
	if got, err := call(t, pool, "{}"); got != "{}" || err != nil {
		t.Error(got, err)
	}
	for answers := 1; answers >= 0; answers-- {
		var died *Error
		if _, err := call(t, pool, "die"); !errors.As(err, &died) || died.Kind != Died || !strings.Contains(died.Message, fmt.Sprintf("after %d answers", answers)) || errors.As(err, &start) {
			t.Errorf("after an answer: %v", err)
		}
	}
}

// TestCall_diesBetweenRequests checks that the end of a process after an answer does not fail the
// next request, even if it is noticed late.
func TestCall_diesBetweenRequests(t *testing.T) {
	pool := newPool(t, "once", nil)
	for n := range 10 {
		if got, err := call(t, pool, strconv.Itoa(n)); err != nil || got != strconv.Itoa(n) {
			t.Fatalf("request %d: %q, %v", n, got, err)
		}
	}
	if pool.Started() != 10 {
		t.Errorf("%d processes were started, want 10", pool.Started())
	}
}

func TestCall_misbehaviour(t *testing.T) {
	tests := map[string]struct {
		behaviour string
		check     func(error) bool
		message   string
	}{
		"exits at start": {"fails", func(err error) bool {
			var start *StartError
			return errors.As(err, &start) && start.ExitCode() == 69 && Is(err, Died) && strings.Contains(err.Error(), "(exit status 3")
		}, "no such config: extract.toml"},
		"floods":  {"floods", func(err error) bool { return Is(err, Flooded) }, "more than 1048576 bytes without an end of line"},
		"babbles": {"babbles", func(err error) bool { return Is(err, OutOfStep) }, "more than one line per request"},
		"answers twice": {"twice", func(err error) bool { return Is(err, OutOfStep) },
			`after its answer came "{}"; print one line of JSON for each request and everything else to standard error`},
		"ends within a line": {"partial", func(err error) bool { return Is(err, Died) },
			"(exit status 0, after 0 answers); its last line had no newline"},
		"leaks a secret": {"leaks", func(err error) bool { return !strings.Contains(err.Error(), "sk-12345678") }, "using ***"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, test.behaviour, func(c *Config) {
				c.MaxLine = 1 << 20
				c.Env = append(c.Env, "MY_API_KEY=sk-12345678")
			})
			for range 2 { // each request gets a new process
				_, err := call(t, pool, `{}`)
				if err == nil || !test.check(err) || !strings.Contains(err.Error(), test.message) {
					t.Fatalf("got %T: %v", err, err)
				}
			}
			if pool.Started() != 2 {
				t.Errorf("%d processes were started, want 2", pool.Started())
			}
		})
	}
}

func TestCall_blankLinesAreNoAnswers(t *testing.T) {
	pool := newPool(t, "blank", nil)
	for range 3 {
		if got, err := call(t, pool, `{"a":1}`); err != nil || got != `{"a":1}` {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// TestCall_lineBeforeRequest checks that a line without a request is noticed before the next
// request is sent.
func TestCall_lineBeforeRequest(t *testing.T) {
	pool := newPool(t, "greets", nil)
	process, err := pool.take()
	if err != nil {
		t.Fatal(err)
	}
	for len(process.output.lines) == 0 {
		time.Sleep(time.Millisecond)
	}
	pool.idle <- process
	_, err = call(t, pool, `{}`)
	if !Is(err, OutOfStep) || !strings.Contains(err.Error(), `without being asked came "loading the model"`) {
		t.Errorf("got %v", err)
	}
}

func TestCall_refusedAnswer(t *testing.T) {
	errNoJSON := errors.New("is not JSON")
	pool := newPool(t, "good", func(c *Config) {
		c.Accept = func(request, answer []byte) error {
			if string(request) != string(answer) {
				t.Errorf("asked %q, answered %q", request, answer)
			}
			if !json.Valid(answer) {
				return errNoJSON
			}
			return nil
		}
	})
	if _, err := call(t, pool, `garbage`); !Is(err, Refused) || !errors.Is(err, errNoJSON) || !strings.Contains(err.Error(), `answered "garbage"`) {
		t.Fatalf("got %v", err)
	}
	if got, err := call(t, pool, `{}`); got != `{}` || err != nil || pool.Started() != 2 {
		t.Errorf("%q, %v, %d processes", got, err, pool.Started())
	}
}

func TestCall_contextEnds(t *testing.T) {
	for _, behaviour := range []string{"slow", "deaf"} {
		pool := newPool(t, behaviour, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for pool.Started() == 0 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		request := []byte(strings.Repeat("x", 1<<20)) // does not fit into the pipe
		_, err := pool.Call(ctx, request)
		if !Is(err, Interrupted) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", behaviour, err)
		}
		if _, err := pool.Call(ctx, request); !errors.Is(err, context.Canceled) || pool.Started() != 1 {
			t.Errorf("%s: after the end: %v, %d processes", behaviour, err, pool.Started())
		}
	}
}

// TestCall_neverAnswers checks that the pool explains once how a program must answer if it never
// answers, but not if a process of the program has answered.
func TestCall_neverAnswers(t *testing.T) {
	var stderr bytes.Buffer
	pool := newPool(t, "slow", func(c *Config) { c.Patience, c.Stderr, c.Processes = time.Millisecond, &stderr, 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if _, err := pool.Call(ctx, []byte("{}")); !Is(err, Interrupted) || !strings.Contains(err.Error(), "must answer each line as it comes") {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	text := ""
	for began := time.Now(); text == "" && time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
		pool.stderr.mu.Lock()
		text = stderr.String()
		pool.stderr.mu.Unlock()
	}
	if strings.Count(text, "has not answered for 1ms: it must answer each line as it comes") != 1 {
		t.Errorf("it said %q", text)
	}
	pool.answered.Store(true)
	late, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if _, err := pool.Call(late, []byte("{}")); !Is(err, Interrupted) || strings.Contains(err.Error(), "must answer") {
		t.Errorf("one that has answered: %v", err)
	}
}

// TestCall_grandchildren checks that a grandchild that inherited the pipes does not block the pool
// and is killed with its parent.
func TestCall_grandchildren(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no process groups on windows")
	}
	t.Run("killed when the pool is closed", func(t *testing.T) {
		pool := newPool(t, "forks", nil)
		pid, err := call(t, pool, `{}`)
		if err != nil {
			t.Fatal(err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		waitGone(t, pid)
	})
	t.Run("killed when its parent dies", func(t *testing.T) {
		pool := newPool(t, "forks and dies", nil)
		_, err := call(t, pool, `{}`)
		var died *Error
		if !errors.As(err, &died) || died.Kind != Died || !strings.Contains(died.Message, "(exit status 5") {
			t.Fatal(err)
		}
		waitGone(t, strings.TrimPrefix(died.Stderr, "grandchild "))
	})
}

// waitGone waits until a process has ended, or is a zombie that another process has to reap.
func waitGone(t *testing.T, pid string) {
	t.Helper()
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc to look into")
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s is alive: %s", pid, stat)
		}
	}
}

func TestCall_tenMegabytesOfStandardError(t *testing.T) {
	var count counter
	pool := newPool(t, "shouts", func(c *Config) { c.Stderr = &count })
	if got, err := call(t, pool, `{}`); got != `{}` || err != nil {
		t.Fatal(got, err)
	}
	_, err := call(t, pool, "die")
	var died *Error
	if !errors.As(err, &died) || died.Kind != Died || !strings.HasSuffix(died.Stderr, "e\nthe end") || len(died.Stderr) > tailSize {
		t.Errorf("got %v", err)
	}
	if want := 2 * (10_000_000 + len("the end\n")); int(count) != want {
		t.Errorf("the writer was given %d bytes, want %d", count, want)
	}
}

// counter counts written bytes. It needs no lock, because there is one write at a time and the
// test reads the counter after the process has ended.
type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func TestTee_failingWriter(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	all := &tee{to: w}
	for range 2 {
		if n, err := all.Write([]byte("abc")); n != 3 || err != nil {
			t.Error(n, err)
		}
	}
}

func TestClose_whileWorking(t *testing.T) {
	pool := newPool(t, "slow", func(c *Config) { c.Processes = 2 })
	failed := make(chan error)
	for range 4 { // two at work, two waiting
		go func() {
			_, err := pool.Call(context.WithoutCancel(t.Context()), []byte("{}"))
			failed <- err
		}()
	}
	for pool.Started() < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	for range 4 {
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := call(t, pool, "{}"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestClose_processThatStays(t *testing.T) {
	pool := newPool(t, "stays", func(c *Config) { c.Grace = 20 * time.Millisecond })
	if _, err := call(t, pool, "{}"); err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestCall_requestOfSeveralLines(t *testing.T) {
	pool := newPool(t, "good", nil)
	for _, request := range []string{"", "a\nb", "a\r"} {
		if _, err := call(t, pool, request); err == nil || pool.Started() != 0 {
			t.Errorf("%q: %v, %d processes", request, err, pool.Started())
		}
	}
}

func TestNew_problems(t *testing.T) {
	tests := map[string]struct {
		cfg     Config
		message []string
		code    int
	}{
		"nothing":   {Config{}, []string{"names no program"}, 0},
		"no name":   {Config{Command: []string{"", "x"}}, []string{"names no program"}, 0},
		"unknown":   {Config{Command: []string{"no-such-program-here", "--x"}}, []string{"starting no-such-program-here", "not found"}, 69},
		"no file":   {Config{Command: []string{"./no-such-file"}}, []string{"no such file"}, 69},
		"directory": {Config{Command: []string{"./proc"}, Dir: ".."}, []string{"starting ./proc", "is a directory"}, 69},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pool, err := New(test.cfg)
			if pool != nil || err == nil {
				t.Fatal(pool, err)
			}
			for _, part := range test.message {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			var start *StartError
			if errors.As(err, &start) != (test.code == 69) {
				t.Errorf("%T", err)
			}
		})
	}
}

func TestNew_relativeToDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "extract")); err != nil {
		t.Skip(err)
	}
	pool := newPool(t, "good", func(c *Config) { c.Command, c.Dir = []string{"./extract", "-x"}, dir })
	if got, err := call(t, pool, "1"); got != "1" || err != nil {
		t.Error(got, err)
	}
}

func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 4_000, 100_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			pool := newPool(b, "good", nil)
			request := []byte(strings.Repeat("x", size))
			b.SetBytes(int64(2 * size))
			for b.Loop() {
				if _, err := pool.Call(b.Context(), request); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// Started returns how many processes have been started so far.
func (p *Pool) Started() int {
	return int(p.started.Load())
}
