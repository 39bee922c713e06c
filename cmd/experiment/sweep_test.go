package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/outcome"
	"extraction-experiment/tracking"
)

// newSampleModel is an OpenAI-compatible server that knows the answers of the built-in dataset. The
// large model returns more of the entities than the small one, and both return fewer at a higher
// temperature.
func newSampleModel(t *testing.T) (url string) {
	t.Helper()
	var known []annotated
	for lines := bufio.NewScanner(configs.OpenSample()); lines.Scan(); {
		var item annotated
		must(t, json.Unmarshal(lines.Bytes(), &item))
		known = append(known, item)
	}
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model       string
			Temperature float64
			Messages    []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		share := map[string]float64{"gpt-4o": .95, "gpt-4o-mini": .7}[body.Model] - body.Temperature/5
		answer := `{"entities":[],"relationships":[]}`
		for _, item := range known {
			if strings.Contains(body.Messages[len(body.Messages)-1].Content, item.Input.Text) {
				kept := item.Expected.Entities[:int(math.Ceil(share*float64(len(item.Expected.Entities))))]
				raw, err := json.Marshal(map[string]any{"entities": append([]json.RawMessage{}, kept...), "relationships": []any{}})
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				answer = string(raw)
			}
		}
		writeCompletion(w, body.Model, answer, 900, 200)
	}))
	t.Cleanup(hs.Close)
	return hs.URL + "/v1"
}

// record records a model at both temperatures of the sweep in one file.
func (f folder) record(t *testing.T, model, file string) {
	t.Helper()
	var tape bytes.Buffer
	for i, temperature := range []string{"0", "0.7"} {
		part := fmt.Sprintf("%s-%d.jsonl", file, i)
		f.run(t, 0, "--dataset", "extraction-eval", "--name", part, "--model", "openai/"+model, "--temperature", temperature, "--record", part, "--quiet")
		raw, err := os.ReadFile(f.path(part))
		must(t, err)
		if i > 0 {
			_, raw, _ = bytes.Cut(raw, []byte("\n"))
		}
		tape.Write(raw)
	}
	must(t, os.WriteFile(f.path(file), tape.Bytes(), 0o600))
}

// TestSweep_killedAndResumed runs the baseline and two recorded models at two temperatures, is
// killed in the third run and in the fourth, and resumed. Every run must equal that of an
// undisturbed sweep.
func TestSweep_killedAndResumed(t *testing.T) {
	suite.Slow(t, "it takes long")
	t.Parallel()
	url := newSampleModel(t)
	f := newFolder(t, "OPENAI_API_KEY=sk-test-secret", "OPENAI_BASE_URL="+url)
	f.record(t, "gpt-4o", "large.jsonl")
	f.record(t, "gpt-4o-mini", "small.jsonl")
	f.env = nil // makes requests to models impossible
	sweep := func(name string, more ...string) []string {
		return append([]string{"--dataset", "extraction-eval", "--name", name, "--model", "baseline,recorded/large.jsonl,recorded/small.jsonl", "--temperature", "0,0.7"}, more...)
	}
	undisturbed := boardOf(t, f.run(t, 0, sweep("whole", "--json")...))

	cells := []string{"baseline", "large-t0", "large-t0.7", "small-t0", "small-t0.7"}
	rng := rand.New(rand.NewPCG(7, 7))
	committed := map[string]map[string]outcome.Outcome{}
	for i, at := range []struct {
		cell string
		at   instant
	}{{"large-t0.7", instant{10, 0}}, {"small-t0", instant{5, 0}}} {
		args := sweep("killed")
		if i > 0 {
			args = append(args, "--resume")
		}
		path := f.runFile("extraction-eval", "killed-"+at.cell)
		c := f.start(t, args...)
		c.reach(t, path, at.at, rng)
		committed[at.cell] = c.kill(t, path)
		t.Logf("killed at %+v of %s", countsOf(t, path), at.cell)
	}
	if c := f.run(t, cli.ExitUsage, sweep("killed")...); !strings.Contains(c.stderr.String(), "killed-large-t0.7, killed-small-t0): use --resume") {
		t.Error(c.stderr.String())
	}
	last := f.run(t, 0, sweep("killed", "--resume")...)
	t.Logf("%s%s", &last.stderr, &last.stdout)
	for cell, before := range committed {
		_, after := outcomes(t, f.runFile("extraction-eval", "killed-"+cell))
		notPaidTwice(t, before, after)
	}
	for _, cell := range cells {
		f.run(t, 0, "export", "whole-"+cell, "--output", "whole.jsonl")
		f.run(t, 0, "export", "killed-"+cell, "--output", "killed.jsonl")
		sameExport(t, f.path("whole.jsonl"), f.path("killed.jsonl"))
		f.run(t, 0, "verify", "killed-"+cell)
	}
	undisturbed.check(t, "whole-")
	boardOf(t, f.run(t, 0, sweep("killed", "--resume", "--json")...)).check(t, "killed-")
}

func boardOf(t *testing.T, c *child) leaderboard {
	t.Helper()
	var board leaderboard
	if err := json.Unmarshal(c.stdout.Bytes(), &board); err != nil {
		t.Fatalf("%v\n%s", err, &c.stdout)
	}
	return board
}

// check checks the leaderboard of the sweep. The share of the entities decides the order. The
// small model is cheaper than the large one and the baseline free, so all but the runs at the
// higher temperature are on the front. 1,100 tokens an item cost 900·2.5 + 200·10 and 900·0.15 +
// 200·0.6 dollars a million.
func (l leaderboard) check(t *testing.T, base string) {
	t.Helper()
	want := []struct {
		name  string
		cost  float64
		front bool
	}{{"large-t0", .00425, true}, {"large-t0.7", .00425, false}, {"small-t0", .000255, true}, {"small-t0.7", .000255, false}, {"baseline", 0, true}}
	if len(l.Runs) != len(want) || len(l.Pairs) != 10 {
		t.Fatalf("%d runs, %d pairs", len(l.Runs), len(l.Pairs))
	}
	for i, r := range l.Runs {
		name := r.Summary.Run.Name
		if name != base+want[i].name || r.Rank != i+1 || math.Abs(*r.CostPerItem-want[i].cost) > 1e-12 || *r.Front != want[i].front || r.Tied != (i == 0) {
			t.Errorf("%d %s $%v front %v tied %v, want %+v", r.Rank, name, *r.CostPerItem, *r.Front, r.Tied, want[i])
		}
		if r.Summary.Status != outcome.Complete || r.N != 38 || r.CI95 == nil {
			t.Errorf("%+v", r)
		}
	}
	if l.URL != "" { // the embedded server has no pages
		t.Error(l.URL)
	}
}

// TestSweep_interruptedByHand sends SIGINT once in the first of two runs and then runs the
// command that the program prints.
func TestSweep_interruptedByHand(t *testing.T) {
	suite.Slow(t, "as a run, which is interrupted in every suite")
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no signal can be sent to another process there")
	}
	f := newFolder(t)
	file := f.writeItems(t, makeItems(32, 25_000))
	must(t, os.WriteFile(f.path("none.jsonl"), []byte(`{"cassette":1,"provider":"openai","model":"gpt-4o"}`+"\n"), 0o600))
	first, second := f.runFile(file, "by hand-baseline"), f.runFile(file, "by hand-none")
	args := []string{"--dataset", file, "--name", "by hand", "--model", "baseline,recorded/none.jsonl", "--concurrency", "2", "--max-failures", "100%"}
	c := f.start(t, args...)
	c.reach(t, first, instant{done: 3}, rand.New(rand.NewPCG(3, 3)))
	must(t, c.Process.Signal(os.Interrupt))
	c.exits(t, cli.ExitInterrupted)
	for _, advice := range []string{"resume with: experiment --dataset", "--name 'by hand'", "--model 'baseline,recorded/none.jsonl'", "--resume"} {
		if !strings.Contains(c.stderr.String(), advice) {
			t.Errorf("standard error lacks %q:\n%s", advice, &c.stderr)
		}
	}
	if _, err := os.Stat(second); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the second run was begun after the interruption: %v", err)
	}
	_, before := outcomes(t, first)
	f.run(t, 0, append(args, "--resume")...)
	_, after := outcomes(t, first)
	notPaidTwice(t, before, after)
	failed := 0
	_, found := outcomes(t, second)
	for _, o := range found {
		if o.Failed() {
			failed++
		}
	}
	if len(found) != 32 || failed != 32 {
		t.Errorf("%d outcomes, %d failed", len(found), failed)
	}
}

// TestSweep_comparePage: the address of a server with pages shows the runs side by side, the
// best first.
func TestSweep_comparePage(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	client, stop := f.langfuse(t)
	defer stop()
	must(t, tracking.CreateDefaultPrompt(t.Context(), client))
	seedItems(t, client, "made", makeItems(4, 100))
	must(t, os.WriteFile(f.path("none.jsonl"), []byte(`{"cassette":1,"provider":"openai","model":"gpt-4o"}`+"\n"), 0o600))
	remote := f.with(langfuseEnv(client.BaseURL())...)
	args := []string{"--dataset", "made", "--name", "s", "--model", "recorded/none.jsonl,baseline", "--trials", "2", "--max-failures", "100%"}
	c := remote.run(t, 0, append(args, "--json")...)
	board := boardOf(t, c)
	dataset, err := client.GetDataset(t.Context(), "made")
	must(t, err)
	ids := []string{experimentID(t, f.runFile("made", "s-baseline")), experimentID(t, f.runFile("made", "s-none"))}
	if want := langfuse.CompareURL(client.BaseURL(), embedded.DefaultProjectID, dataset.ID, ids...); board.URL != want {
		t.Errorf("%q, want %q", board.URL, want)
	}
	if r := board.Runs[0]; r.N != 4 || r.Summary.Trials == nil || r.Summary.Trials.Count != 2 {
		t.Errorf("trials are not items: %+v", r)
	}
	if a, b := board.Runs[0].Summary.Run, board.Runs[1].Summary.Run; a.DatasetVersion == "" || a.DatasetVersion != b.DatasetVersion {
		t.Errorf("the runs read the dataset at %q and %q", a.DatasetVersion, b.DatasetVersion)
	}
	if out := remote.run(t, 0, append(args, "--resume")...).stdout.String(); !strings.Contains(out, board.URL) {
		t.Errorf("no link in\n%s", out)
	}
}

// TestSweep_oneBudget: the budget is for the whole sweep, also if the sweep is resumed.
func TestSweep_oneBudget(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	b.seed("docs", fiveItems())
	args := []string{"--dataset", "docs", "--name", "s", "--model", "baseline,openai/gpt-test", "--temperature", "0,1", "--max-tokens", "50", "--concurrency", "1", "--json"}
	// One run uses 5 · 120 tokens, two use 1,200. A request reserves more than a thousand.
	for _, more := range [][]string{{"--budget-tokens", "2000"}, {"--budget-tokens", "2000", "--resume"}} {
		code, _, stderr := b.with(env, append(args, more...)...)
		if code != cli.ExitInterrupted || server.asked <= 5 || server.asked >= 10 || !strings.Contains(stderr, "2000 tokens") {
			t.Fatalf("exit %d after %d requests: %s", code, server.asked, stderr)
		}
	}
	code, stdout, stderr := b.with(env, append(args, "--budget-tokens", "8000", "--resume")...)
	var board leaderboard
	if err := json.Unmarshal([]byte(stdout), &board); err != nil || code != cli.ExitOK || server.asked != 10 || len(board.Runs) != 3 {
		t.Errorf("exit %d after %d requests, %v: %s", code, server.asked, err, stderr)
	}
}

// TestSweep_movedLabel: all runs of a sweep have the version of the prompt that its label was on when the
// sweep began, also those that are added later.
func TestSweep_movedLabel(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	b.seed("docs", fiveItems())
	version := func() {
		b.prompt(langfuse.Prompt{Name: "p", Type: langfuse.PromptText, Labels: []string{"production"},
			Prompt: json.RawMessage(fmt.Sprintf(`"after %d requests: {{document_text}}"`, server.asked))})
	}
	version()
	server.refuse = func(asked int) int {
		if asked == 2 {
			version()
		}
		return 0
	}
	for _, more := range [][]string{{"--temperature", "0,1"}, {"--temperature", "0,1,0.5", "--resume"}} {
		stdout, _ := b.succeed(env, append([]string{"--dataset", "docs", "--name", "s", "--model", "openai/gpt-test", "--prompt", "p",
			"--max-tokens", "50", "--concurrency", "1", "--json"}, more...)...)
		var board leaderboard
		if err := json.Unmarshal([]byte(stdout), &board); err != nil || len(board.Runs) < 2 {
			t.Fatal(stdout, err)
		}
		for _, r := range board.Runs {
			if got := r.Summary.Run.PromptVersion; got != 1 {
				t.Errorf("%s has version %d", r.Summary.Run.Name, got)
			}
		}
	}
}

// TestBenchmark_movedLabel: the same holds for the runs of a benchmark of answers.
func TestBenchmark_movedLabel(t *testing.T) {
	pdf, questions := samplePath(t, "manual.pdf"), samplePath(t, "manual.jsonl")
	b := newBench(t)
	server, env := newLimitedServer(t)
	version := func(text string) {
		b.prompt(langfuse.Prompt{Name: "p", Type: langfuse.PromptText, Labels: []string{"production"},
			Prompt: json.RawMessage(`"` + text + `: {{question}} {{passages}}"`)})
	}
	version("first")
	server.refuse = func(asked int) int {
		if asked == 2 {
			version("second")
		}
		return 0
	}
	config := "name: b\nruns: 2\ndatasets:\n  - {id: d, pdf: " + pdf + ", questions: " + questions + "}\n"
	must(t, os.WriteFile("benchmark.yaml", []byte(config), 0o600))
	b.succeed(env, "answers", "benchmark", "--config", "benchmark.yaml", "--name", "b", "--model", "openai/gpt-test",
		"--prompt", "p", "--max-tokens", "50", "--concurrency", "1", "--quiet")
	for _, run := range []string{"b-d-1", "b-d-2"} {
		if stdout, _ := b.succeed(nil, "show", run, "--json"); !strings.Contains(stdout, `"prompt_version":1,`) {
			t.Errorf("%s: %s", run, stdout)
		}
	}
}
