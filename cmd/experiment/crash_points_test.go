package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// crashes ends runs of the same items in many ways, each under its own name, and compares them
// with an undisturbed run.
type crashes struct {
	folder
	items  []testItem
	model  *paidModel
	client *langfuse.Client
	whole  string // export of the undisturbed run
}

func newCrashes(t *testing.T, n int, program string) *crashes {
	t.Helper()
	c := &crashes{items: paidItems(n), model: newPaidModel(t)}
	var env []string
	c.client, env = sharedLangfuse(t, c.items, direct)
	c.folder = newFolder(t, append(env, "OPENAI_API_KEY=sk-test")...)
	c.program = program
	return c
}

// runUndisturbed makes the undisturbed run.
func (c *crashes) runUndisturbed(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	c.folderOf("whole").run(t, 0, c.args("whole")...)
	took := time.Since(began)
	c.whole = c.export(t, "whole")
	return took
}

// folderOf returns the folder with the model address of a run.
func (c *crashes) folderOf(run string) folder {
	return c.with("OPENAI_BASE_URL=" + c.model.url + "/" + run)
}

func (c *crashes) args(run string, more ...string) []string {
	return append([]string{"--dataset", "made", "--name", run, "--model", "openai/gpt-test", "--prompt", "plain",
		"--concurrency", "3", "--max-failures", "1", "--quiet"}, more...)
}

func (c *crashes) export(t *testing.T, run string) string {
	t.Helper()
	r, err := runstore.Load(c.runFile("made", run))
	must(t, err)
	defer func() { must(t, r.Close()) }()
	path := c.path(run + ".jsonl")
	must(t, cli.WriteFile(path, func(w io.Writer) error { return r.Export(t.Context(), w) }))
	return path
}

// resume resumes a killed run and checks that it equals the undisturbed one and that no call
// with a committed outcome was made twice.
func (c *crashes) resume(t *testing.T, run string) {
	t.Helper()
	path := c.runFile("made", run)
	committed := map[string]outcome.Outcome{}
	if _, err := os.Stat(path); err == nil {
		_, committed = outcomes(t, path)
		c.folderOf(run).run(t, 0, c.args(run, "--resume")...)
	} else { // killed before the run was created
		c.folderOf(run).run(t, 0, c.args(run)...)
	}
	_, after := outcomes(t, path)
	notPaidTwice(t, committed, after)
	for _, item := range c.items {
		document, _ := item.Input["document_text"].(string)
		if document == "" {
			continue
		}
		times := c.model.times(run, document)
		if _, done := committed[item.ID]; done && times != 1 || times < 1 || times > 2 {
			t.Errorf("%s: the model was asked %d times about %s (committed before: %v)", run, times, item.ID, done)
		}
	}
	sameExport(t, c.whole, c.export(t, run))
}

// TestCrash_everyCommit ends a run of 12 items immediately before and after each of its commits,
// and resumes it. TestCrash_anyInstant is a sample that always runs.
func TestCrash_everyCommit(t *testing.T) {
	suite.Slow(t, "it takes long")
	t.Parallel()
	c := newCrashes(t, 12, buildProgram(t, "failpoints"))
	c.runUndisturbed(t)
	var before, after []string // run files
	t.Run("commits", func(t *testing.T) {
		t.Run("before", func(t *testing.T) {
			t.Parallel()
			before = c.killAtCommits(t, "before")
		})
		t.Run("after", func(t *testing.T) {
			t.Parallel()
			after = c.killAtCommits(t, "after")
		})
	})
	checkLangfuse(t, c.client, slices.Concat([]string{c.runFile("made", "whole")}, before, after)...)
}

// killAtCommits ends a run at each of its commits, resumes it, and returns the run files.
func (c *crashes) killAtCommits(t *testing.T, where string) (runFiles []string) {
	const most = 200 // more than the commits of a run of 12 items
	n := 1
	for n < most && c.killAt(t, where, n, &runFiles) {
		n++
	}
	t.Logf("%s: the last of %d runs was ended at commit %d", where, len(runFiles), n-1)
	if n <= 12 || n >= most {
		t.Errorf("the run was ended %s %d commits", where, n-1)
	}
	return runFiles
}

// killAt ends a run at its n-th commit and resumes it. It returns false if the run has fewer
// commits.
func (c *crashes) killAt(t *testing.T, where string, n int, runFiles *[]string) bool {
	run := fmt.Sprintf("%s-%d", where, n)
	child := c.folderOf(run).with(fmt.Sprintf("RUNSTORE_FAILPOINT=%s %d", where, n)).start(t, c.args(run)...)
	<-child.ended
	*runFiles = append(*runFiles, c.runFile("made", run))
	switch code := child.ProcessState.ExitCode(); code {
	case 0:
		return false
	case 86:
		c.resume(t, run)
	default:
		t.Fatalf("%s: exit code %d\n%s", run, code, &child.stderr)
	}
	return true
}

// TestCrash_anyInstant kills the program at random instants. EXPERIMENT_TEST_KILLS is the number
// of kills and EXPERIMENT_TEST_SEED the seed; a run that ended before its kill does not count.
func TestCrash_anyInstant(t *testing.T) {
	t.Parallel()
	kills, seed := envNumber(t, "EXPERIMENT_TEST_KILLS", 2), envNumber(t, "EXPERIMENT_TEST_SEED", int(time.Now().UnixNano()&0xffffff))
	t.Logf("EXPERIMENT_TEST_KILLS=%d EXPERIMENT_TEST_SEED=%d", kills, seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 6))
	c := newCrashes(t, 24, "experiment")
	took := c.runUndisturbed(t)
	runFiles := []string{c.runFile("made", "whole")}
	killed, runs := 0, 0
	for ; killed < kills && runs < 10*kills; runs++ {
		run := fmt.Sprintf("kill-%d", runs)
		began := time.Now()
		child := c.folderOf(run).start(t, c.args(run)...)
		select {
		case <-time.After(time.Duration(rng.Int64N(int64(took)))):
		case <-child.ended:
			took = time.Since(began) // this run was faster than the first one
		}
		_ = child.Process.Kill() // the process may have ended
		<-child.ended
		if child.ProcessState.ExitCode() != 0 {
			killed++
		}
		c.resume(t, run)
		runFiles = append(runFiles, c.runFile("made", run))
	}
	t.Logf("%d of %d had ended before they were killed", runs-killed, runs)
	if killed < kills {
		t.Errorf("%d runs were killed, want %d", killed, kills)
	}
	checkLangfuse(t, c.client, runFiles...)
}

// envNumber reads a whole number from the environment of the test.
func envNumber(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}
