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

// RunScripts runs every script below the given folder, in folders of their own, several
// at once, with the parameters for each folder that has some. The scripts are discovered,
// so that none can be forgotten; none is a failure.
func RunScripts(t *testing.T, dir string, params func(folder string) testscript.Params) {
	t.Helper()
	var folders []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if folder := filepath.Dir(path); filepath.Ext(path) == ".txtar" && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
		return err
	})
	if err != nil || len(folders) == 0 {
		t.Fatalf("no scripts below %s: %v", dir, err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, params(folder))
		})
	}
}

// Runner runs a program for a script and returns its exit code.
type Runner func(ts *testscript.TestScript, program string, args []string) int

// ScriptParams are for the scripts of one folder, whose commands exits and call run
// programs by the runner. The caller may add commands of its own, or another setup after
// this one.
func ScriptParams(folder string, run Runner) testscript.Params {
	return testscript.Params{
		Dir:   folder,
		Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": run.exits, "waitfor": waitFor, "call": run.call,
		},
		Condition:           condition,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	}
}

// condition knows [hangup]: a program that is started here is told of a hangup (under
// nohup none is), and [full]: EXPERIMENT_TEST_FULL is set, as .ci/run sets it.
func condition(name string) (bool, error) {
	switch name {
	case "hangup":
		return !signal.Ignored(syscall.SIGHUP), nil
	case "full":
		return suite.Full(), nil
	}
	return false, fmt.Errorf("there is no condition [%s]", name)
}

// setup gives a script an environment without any setting of the machine, but for
// how often garbage is collected and how many processors a process has.
func setup(env *testscript.Env) error {
	env.Setenv("NO_COLOR", "1")
	env.Setenv("GOGC", os.Getenv("GOGC"))
	env.Setenv("GOMAXPROCS", os.Getenv("GOMAXPROCS"))
	root, err := filepath.Abs(filepath.Join("..", ".."))
	env.Setenv("REPO", root)
	return err
}

// exits CODE PROGRAM ARGS… runs a program and demands the exit code exactly:
// the built-in "! exec" only knows that it is not 0. Standard output and error
// can be looked at as after exec.
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

// call PROGRAM ARGS… is exec PROGRAM ARGS…, but that the program under test need not be
// started for it.
func (run Runner) call(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: call program [args…]")
	}
	if code := run(ts, args[0], args[1:]); (code != 0) != neg {
		ts.Fatalf("exit code %d", code)
	}
}

// Exec is the Runner that starts every program.
func Exec(ts *testscript.TestScript, program string, args []string) int {
	err := ts.Exec(program, args...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// waitFor FILE waits until a file that another process writes is there and not
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
