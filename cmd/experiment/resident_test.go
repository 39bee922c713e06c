package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"extraction-experiment/internal/testkit"
)

// resident is a process of the program under test that carries out one command line of a
// script after the other: to start a process costs more than most commands do. With
// EXPERIMENT_TEST_FULL, in the background and through exec a command has its own.
type resident struct {
	names   []string // of the environment
	lines   *json.Encoder
	answers *json.Decoder
}

// residentKey is under which a script finds its resident.
type residentKey struct{}

// residentEnv tells a process that it is a resident.
const residentEnv = "EXPERIMENT_TEST_RESIDENT"

// commandLine is what a resident is asked to carry out, residentAnswer what came of it.
type commandLine struct {
	Args, Env []string
	Dir       string
}

type residentAnswer struct {
	Code           int
	Stdout, Stderr []byte
	Problem        string // of the resident itself
}

// program is a command of testscript.Main that is the program whose main function
// reads os.Args and returns the exit code.
func program(main func() int) func() {
	return func() {
		if os.Getenv(residentEnv) == "" {
			os.Exit(main())
		}
		lines, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
		for {
			var line commandLine
			if lines.Decode(&line) != nil {
				os.Exit(0) // the script has ended
			}
			var a residentAnswer
			if err := line.carryOut(main, &a); err != nil {
				a.Problem = err.Error()
			}
			if answers.Encode(a) != nil {
				os.Exit(1)
			}
		}
	}
}

// carryOut gives the process the folder, the environment, the arguments and the streams
// that it would have been started with.
func (l commandLine) carryOut(main func() int, a *residentAnswer) error {
	os.Clearenv()
	for _, pair := range l.Env {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	null, err1 := os.Open(os.DevNull)
	stdout, err2 := os.CreateTemp("", "stdout")
	stderr, err3 := os.CreateTemp("", "stderr")
	if err := errors.Join(err1, err2, err3, os.Chdir(l.Dir)); err != nil {
		return err
	}
	os.Args, os.Stdin, os.Stdout, os.Stderr = append([]string{"experiment"}, l.Args...), null, stdout, stderr
	a.Code = main()
	a.Stdout, err1 = written(stdout)
	a.Stderr, err2 = written(stderr)
	return errors.Join(err1, err2, null.Close())
}

// written returns what a temporary file holds, which goes.
func written(f *os.File) ([]byte, error) {
	_, err1 := f.Seek(0, io.SeekStart)
	text, err2 := io.ReadAll(f)
	return text, errors.Join(err1, err2, f.Close(), os.Remove(f.Name()))
}

// carryOut has the resident carry out a command line of the script, starting it before
// the first, and returns the exit code.
func (r *resident) carryOut(ts *testscript.TestScript, args []string) int {
	if r.lines == nil {
		ts.Check(r.start(ts))
	}
	var env []string
	for _, name := range r.names {
		env = append(env, name+"="+ts.Getenv(name))
	}
	ts.Check(r.lines.Encode(commandLine{Args: args, Env: env, Dir: ts.MkAbs(".")}))
	var a residentAnswer
	if err := r.answers.Decode(&a); err != nil {
		ts.Fatalf("the program ended, its standard error is above: %v", err)
	}
	if a.Problem != "" {
		ts.Fatalf("%s", a.Problem)
	}
	_, err1 := ts.Stdout().Write(a.Stdout)
	_, err2 := ts.Stderr().Write(a.Stderr)
	ts.Check(errors.Join(err1, err2))
	return a.Code
}

// residentScripts are the parameters of the scripts in a folder, of which each has a
// resident.
func residentScripts(folder string) testscript.Params {
	params := testkit.ScriptParams(folder, byResident)
	before := params.Setup
	params.Setup = func(env *testscript.Env) error {
		err := before(env)
		script := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-") + ".txtar"
		r, err2 := newResident(env.Vars, filepath.Join(folder, script))
		env.Values[residentKey{}] = r
		return errors.Join(err, err2)
	}
	return params
}

// byResident carries out a command line of the program under test by the script's
// resident, and starts every other program.
func byResident(ts *testscript.TestScript, program string, args []string) int {
	if program == "experiment" && !full() {
		return ts.Value(residentKey{}).(*resident).carryOut(ts, args)
	}
	return testkit.Exec(ts, program, args)
}

// sets finds the variables that a script sets.
var sets = regexp.MustCompile(`(?m)^env (\w+)=`)

// newResident returns a resident that is not started. It knows which variables the script
// in the file sets, as testscript only tells their values.
func newResident(vars []string, script string) (*resident, error) {
	text, err := os.ReadFile(script)
	r := &resident{}
	for _, pair := range vars {
		name, _, _ := strings.Cut(pair, "=")
		r.names = append(r.names, name)
	}
	for _, set := range sets.FindAllSubmatch(text, -1) {
		r.names = append(r.names, string(set[1]))
	}
	return r, err
}

// start starts the process, which ends with the script.
func (r *resident) start(ts *testscript.TestScript) error {
	cmd := exec.Command("experiment")
	cmd.Env, cmd.Stderr = append(os.Environ(), residentEnv+"=1"), os.Stderr
	lines, err1 := cmd.StdinPipe()
	answers, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return err
	}
	ts.Defer(func() {
		_ = lines.Close() // it ends by itself
		_ = cmd.Wait()
	})
	r.lines, r.answers = json.NewEncoder(lines), json.NewDecoder(answers)
	return nil
}
