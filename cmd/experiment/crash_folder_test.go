package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// folder is a project folder in which a test starts the program as a user would.
type folder struct {
	dir string
	env []string // added to an environment without settings of this machine
	// program is the program to start; if empty, the test binary.
	program string
	// out, if not nil, receives the output of the program while it runs.
	out io.Writer
}

func newFolder(t testing.TB, env ...string) folder {
	t.Helper()
	f := folder{dir: t.TempDir(), env: env}
	must(t, os.Mkdir(f.path(settings.Folder), 0o700))
	return f
}

// with returns the folder with additional environment variables.
func (f folder) with(env ...string) folder {
	f.env = append(slices.Clone(f.env), env...)
	return f
}

func (f folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.dir}, parts...)...)
}

// store returns the path of the embedded Langfuse's database.
func (f folder) store() string { return f.path(settings.Folder, "langfuse.db") }

// runFile returns the path of a run file.
func (f folder) runFile(dataset, name string) string {
	return runstore.Path(f.path(settings.Folder), embedded.DefaultProjectID, dataset, name)
}

// child is the program in a process of its own. TestMain has put the test binary on the path
// under the name of the program.
type child struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{} // closed when the process has ended
	err            error         // the result of Wait, once ended is closed
}

func (f folder) start(t testing.TB, args ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(cmp.Or(f.program, "experiment"), args...), ended: make(chan struct{})}
	c.Dir, c.Stdout, c.Stderr = f.dir, &c.stdout, &c.stderr
	if f.out != nil {
		c.Stdout = io.MultiWriter(&c.stdout, f.out)
	}
	c.Env = f.environment()
	must(t, c.Start())
	go func() {
		defer close(c.ended)
		c.err = c.Wait()
	}()
	t.Cleanup(func() { // has an effect only if the test failed
		_ = c.Process.Kill()
		<-c.ended
	})
	return c
}

// memory waits for the end of the process and returns its peak memory in bytes.
func (c *child) memory() (most int64) {
	for ticker := time.Tick(5 * time.Millisecond); ; {
		if _, now := proc.Memory(c.Process.Pid); now > 0 {
			most = now
		}
		select {
		case <-c.ended:
			return most
		case <-ticker:
		}
	}
}

// environment returns the environment of the folder's processes: that of this process without
// the settings of Langfuse and of the program.
func (f folder) environment() (env []string) {
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "LANGFUSE_") && !strings.HasPrefix(setting, "EXPERIMENT_") {
			env = append(env, setting)
		}
	}
	return append(env, f.env...)
}

// run runs one command line and checks its exit code. With EXPERIMENT_TEST_FULL it starts a
// process.
func (f folder) run(t testing.TB, code int, args ...string) *child {
	t.Helper()
	if suite.Full() || f.program != "" || f.out != nil {
		c := f.start(t, args...)
		c.exits(t, code)
		return c
	}
	r, err := idle.acquire()
	must(t, err)
	a, err := r.exchange(commandLine{Args: args, Env: f.environment(), Dir: f.dir})
	must(t, err)
	idle.release(r)
	c := &child{}
	c.stdout.Write(a.Stdout)
	c.stderr.Write(a.Stderr)
	if a.Code != code {
		t.Fatalf("experiment %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), a.Code, code, &c.stdout, &c.stderr)
	}
	return c
}

func (c *child) exits(t testing.TB, code int) {
	t.Helper()
	<-c.ended
	var exit *exec.ExitError
	if c.err != nil && !errors.As(c.err, &exit) {
		t.Fatal(c.err)
	}
	if got := c.ProcessState.ExitCode(); got != code {
		t.Fatalf("%s: exit code %d, want %d\n%s%s", strings.Join(c.Args, " "), got, code, &c.stdout, &c.stderr)
	}
}

// outcomes returns the committed outcomes of a run file, by item. Two outcomes of an item fail
// the test.
func outcomes(t testing.TB, path string) (outcome.Header, map[string]outcome.Outcome) {
	t.Helper()
	r, err := runstore.Load(path)
	must(t, err)
	defer func() { must(t, r.Close()) }()
	header, err := r.Header(t.Context())
	must(t, err)
	found := map[string]outcome.Outcome{}
	for o, err := range r.Outcomes(t.Context(), runstore.Query{Depth: runstore.Full}) {
		must(t, err)
		if _, duplicate := found[o.Item]; duplicate {
			t.Errorf("%s: %s has two outcomes", path, o.Item)
		}
		found[o.Item] = o
	}
	return header, found
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
