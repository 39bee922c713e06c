package main

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// instant is a moment of a run: the number of outcomes committed and published since its start.
type instant struct{ done, published int64 }

// reach waits until the run of the child reaches the instant, and a random time longer.
func (c *child) reach(t *testing.T, path string, at instant, rng *rand.Rand) {
	t.Helper()
	for {
		select {
		case <-c.ended:
			t.Fatalf("the run was over (%v) before it could be stopped at %+v: its items are too quick\n%s", c.ProcessState, at, &c.stderr)
		default:
		}
		if now := countsOf(t, path); now.Items > 0 && now.Done >= at.done && now.Published >= at.published {
			time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Millisecond))))
			return
		}
	}
}

// countsOf reads a run file that another process may write. A missing file counts as empty.
func countsOf(t *testing.T, path string) runstore.Counts {
	t.Helper()
	r, err := runstore.Load(path)
	if temporary(err) {
		return runstore.Counts{}
	}
	must(t, err)
	counts, err := r.Counts(t.Context())
	closed := r.Close()
	if temporary(err) {
		return runstore.Counts{}
	}
	must(t, errors.Join(err, closed))
	return counts
}

// temporary reports whether reading a run failed only for the moment, because another process
// writes or recovers it: the file does not exist yet, or SQLite could not read it. Callers that
// wait read it again until their deadline.
func temporary(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, runstore.ErrRead)
}

// kill kills the child and returns the outcomes that it had committed.
func (c *child) kill(t *testing.T, path string) map[string]outcome.Outcome {
	t.Helper()
	must(t, c.Process.Kill())
	<-c.ended
	if c.ProcessState.Exited() {
		t.Fatalf("%s ended on its own\n%s", strings.Join(c.Args, " "), &c.stderr)
	}
	_, committed := outcomes(t, path)
	return committed
}

// notPaidTwice checks that items committed before a crash were not run again.
func notPaidTwice(t *testing.T, before, after map[string]outcome.Outcome) {
	t.Helper()
	for id, o := range before {
		if again := after[id]; !again.Started.Equal(o.Started) || again.Latency != o.Latency {
			t.Errorf("%s was run again although its outcome was committed", id)
		}
	}
}

// TestCrash_killedAndResumed kills a run repeatedly at several instants and resumes it until it
// finishes. Run file and Langfuse must equal those of an undisturbed run.
func TestCrash_killedAndResumed(t *testing.T) {
	suite.Slow(t, "it takes long")
	t.Parallel()
	const n = 96
	f := newFolder(t)
	items := makeItems(n, 25_000)
	file := f.writeItems(t, items)
	client, stop := f.langfuse(t)
	seedItems(t, client, "made", items)
	stop()
	runFiles := []string{}
	run := func(dataset, name string, more ...string) []string {
		return append([]string{"--dataset", dataset, "--name", name, "--concurrency", "2", "--max-failures", "1", "--quiet"}, more...)
	}
	for i, test := range []struct {
		dataset string
		kills   []instant
	}{
		{"made", []instant{{0, 0}, {8, 1}, {18, 8}}},
		{file, []instant{{n - 6, 0}}}, // while the last outcomes are published
	} {
		f.run(t, 0, run(test.dataset, "whole")...)
		f.run(t, 0, "export", "whole", "--dataset", test.dataset, "--output", "whole.jsonl")

		rng := rand.New(rand.NewPCG(7, uint64(i)))
		path := f.runFile(test.dataset, "killed")
		var committed map[string]outcome.Outcome
		for k, at := range test.kills {
			args := run(test.dataset, "killed")
			if k > 0 {
				args = append(args, "--resume")
			}
			c := f.start(t, args...)
			c.reach(t, path, at, rng)
			before := committed
			committed = c.kill(t, path)
			notPaidTwice(t, before, committed)
			t.Logf("%s: killed at %+v", test.dataset, countsOf(t, path))
		}
		f.run(t, 0, run(test.dataset, "killed", "--resume")...)
		_, after := outcomes(t, path)
		notPaidTwice(t, committed, after)
		f.run(t, 0, "export", "killed", "--dataset", test.dataset, "--output", "killed.jsonl")
		sameExport(t, f.path("whole.jsonl"), f.path("killed.jsonl"))
		runFiles = append(runFiles, f.runFile(test.dataset, "whole"), path)
	}
	client, stop = f.langfuse(t)
	defer stop()
	checkLangfuse(t, client, runFiles...)
}

// TestCrash_interruptedByHand sends SIGINT once and then runs the command that the program
// prints.
func TestCrash_interruptedByHand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no signal can be sent to another process there")
	}
	const n = 32
	f := newFolder(t)
	file := f.writeItems(t, makeItems(n, 25_000))
	path := f.runFile(file, "by hand")
	c := f.start(t, "--dataset", file, "--name", "by hand", "--concurrency", "2", "--max-failures", "1", "--quiet")
	c.reach(t, path, instant{done: 3}, rand.New(rand.NewPCG(3, 3)))
	must(t, c.Process.Signal(os.Interrupt))
	c.exits(t, cli.ExitInterrupted)
	_, before := outcomes(t, path)
	if len(before) < 3 || len(before) == n {
		t.Errorf("%d outcomes after an interruption at 3 of %d", len(before), n)
	}
	if counts := countsOf(t, path); counts.Published != counts.Done {
		t.Errorf("%d of %d outcomes are published: the first Ctrl-C still sends what is done", counts.Published, counts.Done)
	}
	for _, advice := range []string{"resume with: experiment --dataset", "--dataset made.jsonl", "--name 'by hand'", "--resume"} {
		if !strings.Contains(c.stderr.String(), advice) {
			t.Errorf("standard error lacks %q:\n%s", advice, &c.stderr)
		}
	}
	f.run(t, 0, "run", "--dataset", file, "--name", "by hand", "--resume", "--max-failures", "1")
	_, after := outcomes(t, path)
	notPaidTwice(t, before, after)
	if len(after) != n {
		t.Errorf("%d of %d outcomes after the run was resumed", len(after), n)
	}
	client, stop := f.langfuse(t)
	defer stop()
	checkLangfuse(t, client, path)

	pipe := f.path("pipe") // an export that never arrives
	must(t, exec.Command("mkfifo", pipe).Run())
	for _, args := range [][]string{{"show", "pipe"}, {"report", "pipe", "--output", "report"}, {"export", "pipe", "--output", "report"},
		{"check", "--dataset", file, "--base", "pipe", "--limit", "1"}} {
		opening, opened := make(chan bool), make(chan *os.File, 1)
		go func() { // before the program starts, which takes a pipe without a writer for empty
			close(opening)
			w, _ := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the program opens it
			opened <- w
		}()
		<-opening
		c := f.start(t, args...)
		select {
		case writer := <-opened:
			must(t, c.Process.Signal(os.Interrupt))
			c.exits(t, cli.ExitInterrupted)
			must(t, writer.Close())
		case <-c.ended:
			t.Fatalf("%q did not wait for the pipe: %v\n%s", args, c.err, &c.stderr)
		}
	}
}
