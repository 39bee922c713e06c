package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/internal/cli"
)

// limitedServer answers every request with 120 tokens, except those that refuse rejects.
type limitedServer struct {
	mu     sync.Mutex
	asked  int
	silent bool // does not report the tokens of an answer
	answer string
	refuse func(n int) (status int)
}

func newLimitedServer(t *testing.T) (*limitedServer, map[string]string) {
	t.Helper()
	s := &limitedServer{answer: adaAnswer, refuse: func(int) int { return 0 }}
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked++
		status := s.refuse(s.asked)
		s.mu.Unlock()
		if status != 0 {
			w.Header().Set("Retry-After-Ms", "1")
			http.Error(w, `{"error":{"message":"not now"}}`, status)
			return
		}
		in, out := 100, 20
		if s.silent {
			in, out = 0, 0
		}
		writeCompletion(w, "gpt-test-2026", s.answer, in, out)
	}))
	t.Cleanup(hs.Close)
	return s, map[string]string{
		"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": hs.URL + "/v1", "EXPERIMENT_PRICES_FILE": pricesFor(t, "gpt-test-2026"),
	}
}

// fiveItems returns five items with different documents.
func fiveItems() string {
	var lines strings.Builder
	for i := range 5 {
		text := strings.Replace(oneItem, "was born", fmt.Sprintf("was born %d times", i), 1)
		lines.WriteString(strings.Replace(text, `"id":"ada"`, fmt.Sprintf(`"id":"ada%d"`, i), 1))
	}
	return lines.String()
}

// A rejected API key costs one request in total, not one for each item, and the name stays free.
func TestRun_wrongKey(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	b.seed("docs", fiveItems())
	args := []string{"--dataset", "docs", "--name", "r", "--model", "openai/gpt-test", "--json"}
	server.refuse = func(int) int { return http.StatusUnauthorized }
	code, _, stderr := b.with(env, args...)
	if code != cli.ExitUnavailable || server.asked != 1 || !strings.Contains(stderr, "OPENAI_API_KEY") {
		t.Fatalf("exit %d after %d requests: %s", code, server.asked, stderr)
	}
	server.refuse = func(int) int { return 0 }
	if code, stdout, stderr := b.with(env, args...); code != cli.ExitOK || summaryOf(t, stdout).Items.Scored != 5 {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestRun_rateLimited(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	b.seed("docs", oneItem)
	server.refuse = func(n int) int {
		if n <= 2 {
			return http.StatusTooManyRequests
		}
		return 0
	}
	code, stdout, stderr := b.with(env, "--dataset", "docs", "--name", "r", "--model", "openai/gpt-test", "--json")
	if code != cli.ExitOK || server.asked != 3 || summaryOf(t, stdout).Items.Scored != 1 {
		t.Errorf("exit %d after %d requests: %s", code, server.asked, stderr)
	}
}

// The budget stops the run before it is exceeded. With a larger budget the run goes on, and
// nothing is paid twice.
func TestRun_budget(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	b.seed("docs", fiveItems())
	args := []string{"--dataset", "docs", "--name", "r", "--model", "openai/gpt-test", "--json", "--max-tokens", "50", "--concurrency", "1"}
	// A request is estimated at some hundreds of tokens and uses 120.
	code, stdout, stderr := b.with(env, append(args, "--budget-tokens", "1500")...)
	s := summaryOf(t, stdout)
	if code != cli.ExitInterrupted || s.Usage.Total > 1500 || s.Items.Scored != server.asked || s.Items.Scored == 0 || s.Items.Failed != 0 {
		t.Fatalf("exit %d, %d tokens, %+v after %d requests: %s", code, s.Usage.Total, s.Items, server.asked, stderr)
	}
	if !strings.Contains(stderr, "--resume") || !strings.Contains(stderr, "1500 tokens") || !strings.Contains(stderr, "--concurrency 1 --budget-tokens MORE --resume") {
		t.Errorf("it does not say how to go on: %s", stderr)
	}
	const resume = "experiment --dataset docs --name r --resume, with the other flags"
	if _, shown, _ := b.with(env, "show", "r"); !strings.Contains(shown, resume) {
		t.Errorf("show does not say how to go on: %s", shown)
	}
	b.with(env, "export", "r", "--output", "r.jsonl")
	if code, shown, _ := b.with(env, "show", "r.jsonl"); code != 0 || strings.Contains(shown, "--resume") {
		t.Errorf("exit %d: show says how to resume an export: %s", code, shown)
	}
	if code, _, stderr := b.with(env, append(args, "--budget-tokens", "1500", "--resume")...); code != cli.ExitInterrupted || server.asked != s.Items.Scored {
		t.Errorf("the budget counts what the run took before: exit %d, %d requests: %s", code, server.asked, stderr)
	}
	code, stdout, stderr = b.with(env, append(args, "--budget-tokens", "8000", "--resume")...)
	if s = summaryOf(t, stdout); code != cli.ExitOK || s.Items.Scored != 5 || server.asked != 5 {
		t.Errorf("exit %d, %+v after %d requests: %s", code, s.Items, server.asked, stderr)
	}
}

// Usage that a server does not report is estimated, and a process that resumes the run knows the
// estimate.
func TestRun_budgetWithoutUsage(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	server.silent = true
	b.seed("docs", fiveItems())
	for _, bound := range [][]string{{"--budget-tokens", "1500"}, {"--budget-usd", "0.004"}} {
		server.asked = 0
		args := append([]string{"--dataset", "docs", "--name", bound[0][2:], "--model", "openai/gpt-test-2026", "--quiet", "--max-tokens", "50", "--concurrency", "1"}, bound...)
		code, _, stderr := b.with(env, args...)
		first := server.asked
		if bound[0] == "--budget-usd" && !strings.Contains(stderr, "0.0040 USD") {
			t.Errorf("a small budget is shown as: %s", stderr)
		}
		if code != cli.ExitInterrupted || first == 0 || first == 5 {
			t.Fatalf("%s: exit %d after %d requests: %s", bound, code, first, stderr)
		}
		if code, _, stderr := b.with(env, append(args, "--resume")...); code != cli.ExitInterrupted || server.asked != first {
			t.Errorf("%s: exit %d, %d requests, %d of them after the budget was used up: %s", bound, code, server.asked, server.asked-first, stderr)
		}
	}
}

// What is assumed for a model counts at its own price, also on resume and in a sweep.
func TestRun_budgetByModel(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	server.silent, server.answer = true, `{"score": 1, "hits": [], "misses": [], "entities": [], "relationships": []}`
	for name, text := range map[string]string{
		"items.jsonl": fiveItems(),
		"judged.yaml": "scorers: [{name: judged, model: openai/dear}]\n",
		"prices.yaml": "as_of: 2026-11-21\nsource: a test\nprices:\n" +
			"  cheap: {input: 1, cached_input: 1, output: 1}\n  dear: {input: 1000, cached_input: 1000, output: 1000}\n",
	} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	env["EXPERIMENT_PRICES_FILE"] = "prices.yaml"
	run := func(want int, args ...string) {
		t.Helper()
		code, _, stderr := b.with(env, append([]string{"--dataset", "items.jsonl", "--max-tokens", "50", "--concurrency", "1", "--quiet"}, args...)...)
		if code != want {
			t.Fatalf("%s: exit %d: %s", args, code, stderr)
		}
	}
	// A judgement is taken for some 1,300 tokens of dear, 1.30 USD; two fit, with the third extraction before the next.
	judged := []string{"--name", "judged", "--model", "openai/cheap", "--config", "judged.yaml", "--budget-usd", "3"}
	run(cli.ExitInterrupted, judged...)
	first := server.asked
	run(cli.ExitInterrupted, append(judged, "--resume")...)
	// The third item, which has no outcome, is extracted again.
	if again := server.asked - first; first != 5 || again != 1 {
		t.Errorf("%d requests, then %d", first, again)
	}
	// An item takes some 1,300 tokens: 1.30 USD of dear, 0.0013 USD of cheap.
	run(cli.ExitOK, "--name", "swept", "--model", "openai/cheap,openai/dear", "--limit", "1", "--budget-usd", "1.5")
}

func TestRun_budgetWithoutPrice(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	b.seed("docs", oneItem)
	code, _, stderr := b.with(env, "--dataset", "docs", "--name", "r", "--model", "openai/unheard-of", "--budget-usd", "1")
	if code != cli.ExitUsage || server.asked != 0 || !strings.Contains(stderr, "price") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// A second run with the same settings is answered from the cache.
func TestRun_cache(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	b.seed("docs", fiveItems())
	for _, name := range []string{"first", "second"} {
		code, stdout, stderr := b.with(env, "--dataset", "docs", "--name", name, "--model", "openai/gpt-test", "--cache", "answers", "--json")
		s := summaryOf(t, stdout)
		if code != cli.ExitOK || server.asked != 5 || s.Items.Scored != 5 {
			t.Fatalf("%s: exit %d after %d requests: %s", name, code, server.asked, stderr)
		}
		if cost := s.Usage.CostUSD; cost == nil || (*cost == 0) != (name == "second") {
			t.Errorf("%s cost %v", name, cost)
		}
		if hits := map[string]int{"second": 5}[name]; s.Items.FromCache != hits || (s.LatencyMS == nil) != (hits == 5) {
			t.Errorf("%s: %d items from the cache, latency %+v", name, s.Items.FromCache, s.LatencyMS)
		}
		_, shown, _ := b.with(env, "show", name)
		_, item, _ := b.with(env, "show", name, "ada0")
		if hit := name == "second"; strings.Contains(shown, "5 from the cache") != hit || strings.Contains(item, "1 answer from the cache") != hit {
			t.Errorf("%s is shown as: %s%s", name, shown, item)
		}
	}
	if _, stdout, stderr := b.with(env, "compare", "first", "second", "--json"); !strings.Contains(strings.Join(strings.Fields(stdout), ""), `"latency_ms":{"n":0,`) {
		t.Errorf("hits have no latency to compare: %s%.3000s", stderr, stdout)
	}
}

// A repaired run reports the cost of all its attempts. A run that was scored again reports that
// no model was called for extractions.
func TestRun_costOfReplacedAttempts(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	b.seed("docs", oneItem)
	args := []string{"--dataset", "docs", "--name", "r", "--model", "openai/gpt-test", "--json"}
	server.answer = "no JSON"
	b.with(env, args...) // two requests: one repair
	server.answer = adaAnswer
	code, stdout, stderr := b.with(env, append(args, "--resume", "--retry-failed")...)
	s := summaryOf(t, stdout)
	// A request costs 100 × 2 + 20 × 8 = 360 millionths.
	if code != cli.ExitOK || server.asked != 3 || s.Usage.CostUSD == nil || *s.Usage.CostUSD != 0.00036 || s.Usage.AllCostUSD == nil || *s.Usage.AllCostUSD != 0.00108 {
		t.Fatalf("exit %d after %d requests, %+v: %s", code, server.asked, s.Usage, stderr)
	}
	if _, shown, _ := b.with(env, "show", "r"); !strings.Contains(shown, "newest attempts; $0.0011 in all") {
		t.Errorf("shown as: %s", shown)
	}
	b.with(env, "rescore", "r", "--name", "again")
	if _, shown, stderr := b.with(env, "show", "again"); !strings.Contains(shown, "scored again, no model was asked for extractions") || strings.Contains(shown, "$") {
		t.Errorf("shown as: %s%s", shown, stderr)
	}
}

// An answer that cannot be written to the cache does not affect the run.
func TestRun_cacheEntryNotKept(t *testing.T) {
	b := newBench(t)
	_, env := newLimitedServer(t)
	b.seed("docs", oneItem)
	run := func(name string) (int, string, string) {
		return b.with(env, "--dataset", "docs", "--name", name, "--model", "openai/gpt-test", "--cache", "answers", "--quiet")
	}
	run("first")
	var entries []string
	filepath.WalkDir("answers", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".json") {
			entries = append(entries, path)
		}
		return err
	})
	if len(entries) != 1 {
		t.Fatalf("the cache holds %v", entries)
	}
	// A folder that is not empty stands in the place of the cache entry.
	must(t, errors.Join(os.Remove(entries[0]), os.MkdirAll(filepath.Join(entries[0], "x"), 0o700)))
	if code, _, stderr := run("second"); code != cli.ExitOK || !strings.Contains(stderr, "note: ") || !strings.Contains(stderr, "not harmed") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestRun_estimateOfAResumedRun(t *testing.T) {
	b := newBench(t)
	_, env := newLimitedServer(t)
	code, _, stderr := b.with(env, "--dataset", "docs", "--name", "r", "--model", "openai/gpt-test", "--estimate", "--resume")
	if code != cli.ExitUsage || !strings.Contains(stderr, "--estimate") || !strings.Contains(stderr, "--resume") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// A model that refuses connections ends runs and questions with exit code 69, for one item and
// for more items than workers. The program says what it waits for, also with --quiet; no item
// fails, and the name stays free.
func TestRun_unreachable(t *testing.T) {
	pdf, questions := samplePath(t, "manual.pdf"), samplePath(t, "manual.jsonl")
	b := newBench(t)
	_, env := newLimitedServer(t)
	b.seed("docs", oneItem)
	env["OPENAI_BASE_URL"] = "http://127.0.0.1:1/v1"
	asks := []string{"--model", "openai/gpt-test", "--quiet", "--max-failures", "100%", "--concurrency", "2"}
	for name, args := range map[string][]string{
		"one item":  {"--dataset", "docs", "--name", "r"},
		"many":      {"--dataset", "extraction-eval", "--name", "r"},
		"questions": {"answers", "run", "--pdf", pdf, "--questions", questions, "--name", "r"},
	} {
		for retries, waits := range map[string]int{"0": 0, "1": 1} {
			code, _, stderr := b.with(env, append(append(args, asks...), "--retries", retries)...)
			if code != cli.ExitUnavailable || !strings.Contains(stderr, "the provider was never reached") || strings.Count(stderr, "waiting for openai until") != waits {
				t.Errorf("%s, --retries %s: exit %d: %s", name, retries, code, stderr)
			}
		}
	}
	if runs, err := filepath.Glob(".experiment/runs/*/*/r.run"); err != nil || len(runs) != 0 {
		t.Errorf("left %v, %v", runs, err)
	}
}
