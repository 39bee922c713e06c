package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/compare"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/runstore"
)

// newCyclingModel is an OpenAI-compatible server that gives the n-th answer to the n-th request
// for a document, and begins again after the last. An empty answer is a refusal.
func newCyclingModel(t *testing.T, answers ...string) (url string) {
	t.Helper()
	var mu sync.Mutex
	requests := map[string]int{}
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		answer := answers[requests[string(raw)]%len(answers)]
		requests[string(raw)]++
		mu.Unlock()
		if answer == "" {
			http.Error(w, "not now", http.StatusBadRequest)
			return
		}
		writeCompletion(w, "gpt-test", answer, 100, 20)
	}))
	t.Cleanup(hs.Close)
	return hs.URL + "/v1"
}

// TestTrials_flakyItem runs two items three times. One gets a different answer in the second
// trial, the other is always wrong.
func TestTrials_flakyItem(t *testing.T) {
	b := newBench(t)
	b.seed("docs", twoItems)
	const nobody = `{"entities":[],"relationships":[]}`
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": newCyclingModel(t, adaAnswer, nobody, adaAnswer)}
	args := []string{"--dataset", "docs", "--name", "r", "--model", "openai/gpt-test", "--trials", "3", "--concurrency", "1"}
	stdout, _ := b.succeed(env, append(args, "--json")...)
	s := summaryOf(t, stdout)
	// ada: 1 0 1, mean 2/3; none, which expects Zoe: 0 0 0. Mean 1/3 of two items.
	f1, _ := s.Scores.Lookup("entity_f1")
	if s.Items.Planned != 6 || f1.N != 2 || math.Abs(*f1.Mean-1.0/3) > 1e-12 || f1.CI95 == nil {
		t.Errorf("%+v, %+v", s.Items, f1)
	}
	if s.Trials == nil || s.Trials.Items != 2 || s.Trials.Flaky != 1 || s.Trials.FlakyItems[0].ID != "ada" || len(s.Trials.Runs) != 3 {
		t.Fatalf("%+v", s.Trials)
	}
	for i, run := range s.Trials.Runs {
		if want := []string{"r", "r#2", "r#3"}[i]; run.Name != want || *run.Mean != []float64{.5, 0, .5}[i] {
			t.Errorf("%+v, want %s", run, want)
		}
		if there := b.stored(run.ID); len(there.items) != 2 || len(there.scores["ada"]) == 0 {
			t.Errorf("%s has %d items in Langfuse", run.Name, len(there.items))
		}
	}
	_, stdout, _ = b.with(nil, "show", "r")
	for _, want := range []string{"2 items × 3 trials", "r#3", "Flaky by entity_f1: 1 of 2 items", "sd of trials"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("show lacks %q:\n%s", want, stdout)
		}
	}
	if _, stdout, _ = b.with(nil, "show", "r", "ada", "--trial", "2"); !strings.Contains(stdout, "experiment show --trial 3 r ada") || strings.Contains(stdout, "--trial 2") {
		t.Errorf("the other trials are not named:\n%s", stdout)
	}
	for refused, why := range map[string][]string{
		"r#2": {"kept for trials", "--name", "r#2"}, "another number": {"trials: began with 3, now 2", "--resume", "--trials", "2"},
		"zero": {"--trials", "--name", "x", "--trials", "0"},
	} {
		if code, _, stderr := b.with(env, append(args, why[1:]...)...); code != cli.ExitUsage || !strings.Contains(stderr, why[0]) {
			t.Errorf("%s: exit %d: %s", refused, code, stderr)
		}
	}
	b.testCompareTrials(env)
}

// testCompareTrials compares the run with a run of one trial that always finds Ada: two items, not
// six.
func (b bench) testCompareTrials(env map[string]string) {
	b.t.Helper()
	b.succeed(env, "--dataset", "docs", "--name", "once", "--model", "openai/gpt-test", "--quiet")
	code, stdout, stderr := b.with(nil, "compare", "once", "r", "--json")
	var c compare.Comparison
	if err := json.Unmarshal([]byte(stdout), &c); err != nil || code != cli.ExitOK {
		b.t.Fatalf("exit %d: %s, %v", code, stderr, err)
	}
	s := c.Candidates[0].Scores[0]
	if s.N != 2 || *s.Base != .5 || math.Abs(*s.Candidate-1.0/3) > 1e-12 {
		b.t.Errorf("%+v", s)
	}
}

// TestCompare_inLangfuse: a comparison of a run with several trials, read from Langfuse, equals
// that of its run file to the digit, except for values that only the file has.
func TestCompare_inLangfuse(t *testing.T) {
	b := newBench(t)
	b.seed("docs", twoItems)
	const nobody = `{"entities":[],"relationships":[]}`
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": newCyclingModel(t, adaAnswer, nobody, "", adaAnswer)}
	for _, args := range [][]string{{"--name", "base"}, {"--name", "cand", "--trials", "3"}} {
		args = append(args, "--dataset", "docs", "--model", "openai/gpt-test", "--concurrency", "1", "--max-failures", "100%", "--quiet")
		b.succeed(env, args...)
	}
	score := func(candidate string) compare.Score {
		code, stdout, stderr := b.with(nil, "compare", "base", candidate, "--json")
		var c compare.Comparison
		if err := json.Unmarshal([]byte(stdout), &c); err != nil || code != cli.ExitOK || len(c.Candidates[0].Scores) == 0 {
			t.Fatalf("exit %d: %s, %v", code, stderr, err)
		}
		if failed := c.Candidates[0].Candidate.Summary.Items.Failed; failed == 0 {
			t.Fatalf("no trial of %s failed: the test shows less than it says", candidate)
		}
		return c.Candidates[0].Scores[0]
	}
	if diff := cmp.Diff(score("cand"), score("langfuse:cand")); diff != "" {
		t.Error("-file +Langfuse:\n", diff)
	}
}

// TestTrials_takenInLangfuse: without the run file, Langfuse still knows the name.
func TestTrials_takenInLangfuse(t *testing.T) {
	b := newBench(t)
	b.seed("docs", twoItems)
	b.succeed(nil, "--dataset", "docs", "--name", "r", "--trials", "2", "--quiet")
	files, err := filepath.Glob(".experiment/runs/*/docs/r.run")
	if err != nil || len(files) != 1 || os.Remove(files[0]) != nil {
		t.Fatalf("run files %v, %v", files, err)
	}
	for _, resume := range [][]string{nil, {"--resume"}} {
		code, _, stderr := b.with(nil, append(resume, "--dataset", "docs", "--name", "r", "--trials", "2", "--quiet")...)
		if code != cli.ExitUsage || !strings.Contains(stderr, `"r" is taken (in Langfuse): use --name r-2; --resume needs its run file`) {
			t.Errorf("%s: exit %d: %s", resume, code, stderr)
		}
	}
}

// TestTrials_killedAndResumed kills a run in its second trial and resumes it. Run file and
// Langfuse must equal those of an undisturbed run.
func TestTrials_killedAndResumed(t *testing.T) {
	suite.Slow(t, "it takes long")
	t.Parallel()
	const n, trials = 24, 3
	f := newFolder(t)
	items := makeItems(n, 25_000)
	client, stop := f.langfuse(t)
	seedItems(t, client, "made", items)
	stop()
	run := func(name string, more ...string) []string {
		return append([]string{"--dataset", "made", "--name", name, "--trials", fmt.Sprint(trials), "--concurrency", "2", "--max-failures", "3", "--quiet"}, more...)
	}
	f.run(t, 0, run("whole")...)
	path := f.runFile("made", "killed")
	rng := rand.New(rand.NewPCG(7, 7))
	for i, at := range []instant{{n / 2, 1}, {n + n/2, 8}, {2*n + 3, 10}} {
		args := run("killed")
		if i > 0 {
			args = append(args, "--resume")
		}
		c := f.start(t, args...)
		c.reach(t, path, at, rng)
		must(t, c.Process.Kill())
		<-c.ended
		t.Logf("killed at %+v", countsOf(t, path))
	}
	f.run(t, 0, run("killed", "--resume")...)
	for _, name := range []string{"whole", "killed"} {
		f.run(t, 0, "export", name, "--output", name+".jsonl")
		f.run(t, 0, "verify", name)
	}
	sameExport(t, f.path("whole.jsonl"), f.path("killed.jsonl"))
	r, err := runstore.Load(path)
	must(t, err)
	defer func() { must(t, r.Close()) }()
	seen := map[string]int{}
	for o, err := range r.Outcomes(t.Context(), runstore.Query{}) {
		must(t, err)
		seen[fmt.Sprintf("%s #%d", o.Item, o.Trial)]++
	}
	if len(seen) != n*trials {
		t.Errorf("%d outcomes, want %d", len(seen), n*trials)
	}
}
