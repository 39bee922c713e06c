package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"extraction-experiment/internal/testkit/suite"
)

// RunScripts runs every .txtar script in the folders of dir. Folders run in parallel, each with the
// parameters that params returns for it. It fails if there are no scripts.
func RunScripts(t *testing.T, dir string, params func(folder string) testscript.Params) {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(dir, "*", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts below %s: %v", dir, err)
	}
	var folders []string
	for _, script := range scripts {
		folders = append(folders, filepath.Dir(script))
	}
	for _, folder := range slices.Compact(folders) {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, params(folder))
		})
	}
}

// Runner runs a program for a script and returns its exit code.
type Runner func(ts *testscript.TestScript, program string, args []string) int

// ScriptParams returns parameters for the scripts of one folder, whose commands exits and call
// use run. The caller may add commands, or replace Setup by a function that calls it first.
func ScriptParams(folder string, run Runner) testscript.Params {
	return testscript.Params{
		Dir:   folder,
		Setup: setupEnv,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": run.exits, "waitfor": waitFor, "call": run.call,
		},
		Condition:           conditions,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	}
}

// conditions evaluates [hangup]: started programs receive SIGHUP (not under nohup), and [full]:
// EXPERIMENT_TEST_FULL is set, as by .ci/run.
func conditions(name string) (bool, error) {
	switch name {
	case "hangup":
		return !signal.Ignored(syscall.SIGHUP), nil
	case "full":
		return suite.Full(), nil
	}
	return false, fmt.Errorf("there is no condition [%s]", name)
}

// setupEnv gives a script an environment without settings of the machine, except GOGC and
// GOMAXPROCS.
func setupEnv(env *testscript.Env) error {
	env.Setenv("NO_COLOR", "1")
	env.Setenv("GOGC", os.Getenv("GOGC"))
	env.Setenv("GOMAXPROCS", os.Getenv("GOMAXPROCS"))
	root, err := filepath.Abs(filepath.Join("..", ".."))
	env.Setenv("REPO", root)
	return err
}

// exits CODE PROGRAM ARGS… runs a program and checks its exit code, which the built-in "! exec"
// cannot do. Standard output and error are available as after exec.
func (run Runner) exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [args…]")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exits: %v", err)
	}
	if got := run(ts, args[1], args[2:]); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// call PROGRAM ARGS… is like exec PROGRAM ARGS…, but need not start a process for the program
// under test.
func (run Runner) call(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: call program [args…]")
	}
	if code := run(ts, args[0], args[1:]); (code != 0) != neg {
		ts.Fatalf("exit code %d", code)
	}
}

// Exec is the Runner that starts a process for every program.
func Exec(ts *testscript.TestScript, program string, args []string) int {
	err := ts.Exec(program, args...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// waitFor FILE waits up to 5 seconds until a file that another process writes exists and is not
// empty.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfor file")
	}
	for range 500 {
		if info, err := os.Stat(ts.MkAbs(args[0])); err == nil && info.Size() > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s did not appear", args[0])
}
