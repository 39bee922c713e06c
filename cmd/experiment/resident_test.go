package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"extraction-experiment/internal/testkit"
	"extraction-experiment/internal/testkit/suite"
)

// resident is a process of the program under test that runs one command line after the other,
// because starting a process takes longer than most commands. With EXPERIMENT_TEST_FULL, in the
// background and through exec, each command has its own process.
type resident struct {
	lines   *json.Encoder
	answers *json.Decoder
	end     func()
}

// residents holds the idle residents. There are as many residents as tests that run at once.
type residents struct {
	mu   sync.Mutex
	free []*resident
}

var idle residents

// script is the state of a script in runInResident. Its resident is nil before its first command.
type script struct {
	names []string // names of environment variables
	*resident
}

// scriptKey is the key of the script among the values of testscript.
type scriptKey struct{}

// residentEnv makes a process a resident.
const residentEnv = "EXPERIMENT_TEST_RESIDENT"

// commandLine is the request to a resident, residentAnswer its response.
type commandLine struct {
	Args, Env []string
	Dir       string
}

type residentAnswer struct {
	Code           int
	Stdout, Stderr []byte
	Problem        string // error of the resident itself
}

// program returns a command for testscript.Main that runs main, which reads os.Args and returns
// the exit code.
func program(main func() int) func() {
	return func() {
		if os.Getenv(residentEnv) == "" {
			os.Exit(main())
		}
		lines, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
		for {
			var line commandLine
			if lines.Decode(&line) != nil {
				os.Exit(0) // all tests have ended
			}
			var a residentAnswer
			if err := line.run(main, &a); err != nil {
				a.Problem = err.Error()
			}
			if answers.Encode(a) != nil {
				os.Exit(1)
			}
		}
	}
}

// run sets folder, environment, arguments and streams of this process as if it had been
// started with them, and runs main.
func (l commandLine) run(main func() int, a *residentAnswer) error {
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
	a.Stdout, err1 = readAndRemove(stdout)
	a.Stderr, err2 = readAndRemove(stderr)
	return errors.Join(err1, err2, null.Close())
}

// readAndRemove returns the content of a temporary file and removes it.
func readAndRemove(f *os.File) ([]byte, error) {
	_, err1 := f.Seek(0, io.SeekStart)
	text, err2 := io.ReadAll(f)
	return text, errors.Join(err1, err2, f.Close(), os.Remove(f.Name()))
}

// run runs a command line in the script's resident and returns the exit code.
func (s *script) run(ts *testscript.TestScript, args []string) int {
	if s.resident == nil {
		var err error
		s.resident, err = idle.acquire()
		ts.Check(err)
		ts.Defer(func() {
			if s.resident != nil {
				idle.release(s.resident)
			}
		})
	}
	var env []string
	for _, name := range s.names {
		env = append(env, name+"="+ts.Getenv(name))
	}
	a, err := s.exchange(commandLine{Args: args, Env: env, Dir: ts.MkAbs(".")})
	if err != nil {
		s.resident = nil
		ts.Fatalf("%v", err)
	}
	_, err1 := ts.Stdout().Write(a.Stdout)
	_, err2 := ts.Stderr().Write(a.Stderr)
	ts.Check(errors.Join(err1, err2))
	return a.Code
}

// exchange sends a command line to the resident. After an error the resident has ended.
func (r *resident) exchange(line commandLine) (a residentAnswer, err error) {
	err = r.lines.Encode(line)
	if err == nil {
		err = r.answers.Decode(&a)
	}
	if err == nil && a.Problem != "" {
		err = errors.New(a.Problem)
	}
	if err != nil {
		r.end()
		return a, fmt.Errorf("the program ended, its standard error is above: %w", err)
	}
	return a, nil
}

// scriptParams returns the parameters of the scripts in a folder.
func scriptParams(folder string) testscript.Params {
	params := testkit.ScriptParams(folder, runInResident)
	before := params.Setup
	params.Setup = func(env *testscript.Env) error {
		err := before(env)
		file := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-") + ".txtar"
		names, err2 := variables(env.Vars, filepath.Join(folder, file))
		env.Values[scriptKey{}] = &script{names: names}
		return errors.Join(err, err2)
	}
	return params
}

// runInResident runs command lines of the program under test in a resident, and starts all other
// programs.
func runInResident(ts *testscript.TestScript, program string, args []string) int {
	if program == "experiment" && !suite.Full() {
		return ts.Value(scriptKey{}).(*script).run(ts, args)
	}
	return testkit.Exec(ts, program, args)
}

// setVariables matches a line of a script that sets variables.
var setVariables = regexp.MustCompile(`(?m)^env .*$`)

// variables returns the names of the variables of a script, including those that it sets itself.
// testscript gives access only to the values.
func variables(vars []string, script string) (names []string, err error) {
	text, err := os.ReadFile(script)
	for _, pair := range vars {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	for _, line := range setVariables.FindAllString(string(text), -1) {
		for word := range strings.FieldsSeq(line) {
			if name, _, found := strings.Cut(word, "="); found {
				names = append(names, name)
			}
		}
	}
	return names, err
}

// acquire returns an idle resident, or starts one.
func (r *residents) acquire() (*resident, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := len(r.free) - 1; last >= 0 {
		one := r.free[last]
		r.free = r.free[:last]
		return one, nil
	}
	cmd := exec.Command("experiment")
	cmd.Env, cmd.Stderr = append(os.Environ(), residentEnv+"=1"), os.Stderr
	lines, err1 := cmd.StdinPipe()
	answers, err2 := cmd.StdoutPipe()
	return &resident{json.NewEncoder(lines), json.NewDecoder(answers), func() {
		_ = lines.Close() // the process ends by itself
		_ = cmd.Wait()
	}}, errors.Join(err1, err2, cmd.Start())
}

// release makes a resident idle again.
func (r *residents) release(one *resident) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, one)
}

// withResidents runs the tests and then ends the residents.
type withResidents struct{ *testing.M }

func (m withResidents) Run() int {
	defer func() {
		for _, one := range idle.free {
			one.end()
		}
	}()
	return m.M.Run()
}
