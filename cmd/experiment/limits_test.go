package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// limitedServer answers every request with 120 tokens, unless it is told to
// refuse those that come first.
type limitedServer struct {
	mu     sync.Mutex
	asked  int
	refuse func(n int) (status int)
}

func newLimitedServer(t *testing.T) (*limitedServer, map[string]string) {
	t.Helper()
	s := &limitedServer{refuse: func(int) int { return 0 }}
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
		json.NewEncoder(w).Encode(map[string]any{
			"model":   "gpt-test-2026",
			"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": adaAnswer}}},
			"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
		})
	}))
	t.Cleanup(hs.Close)
	return s, map[string]string{
		"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": hs.URL + "/v1", "EXPERIMENT_PRICES_FILE": pricesFor(t, "gpt-test-2026"),
	}
}

// fiveItems differ in their documents.
func fiveItems() string {
	var lines strings.Builder
	for i := range 5 {
		text := strings.Replace(oneItem, "was born", fmt.Sprintf("was born %d times", i), 1)
		lines.WriteString(strings.Replace(text, `"id":"ada"`, fmt.Sprintf(`"id":"ada%d"`, i), 1))
	}
	return lines.String()
}

func summaryIn(t *testing.T, stdout string) (s outcome.Summary) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return s
}

// A key that is not accepted costs one request, not one for each item, and the
// name stays free.
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
	if code, stdout, stderr := b.with(env, args...); code != cli.ExitOK || summaryIn(t, stdout).Items.Scored != 5 {
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
	if code != cli.ExitOK || server.asked != 3 || summaryIn(t, stdout).Items.Scored != 1 {
		t.Errorf("exit %d after %d requests: %s", code, server.asked, stderr)
	}
}

// The budget stops the run before it is passed; with a larger one it goes on,
// and what was paid is not paid again.
func TestRun_budget(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	b.seed("docs", fiveItems())
	args := []string{"--dataset", "docs", "--name", "r", "--model", "openai/gpt-test", "--json", "--max-tokens", "50", "--concurrency", "1"}
	// A request is estimated at some hundreds of tokens and takes 120.
	code, stdout, stderr := b.with(env, append(args, "--budget-tokens", "1500")...)
	s := summaryIn(t, stdout)
	if code != cli.ExitInterrupted || s.Usage.Total > 1500 || s.Items.Scored != server.asked || s.Items.Scored == 0 || s.Items.Failed != 0 {
		t.Fatalf("exit %d, %d tokens, %+v after %d requests: %s", code, s.Usage.Total, s.Items, server.asked, stderr)
	}
	if !strings.Contains(stderr, "--resume") || !strings.Contains(stderr, "1500 tokens") {
		t.Errorf("it does not say how to go on: %s", stderr)
	}
	if code, _, stderr := b.with(env, append(args, "--budget-tokens", "1500", "--resume")...); code != cli.ExitInterrupted || server.asked != s.Items.Scored {
		t.Errorf("the budget counts what the run took before: exit %d, %d requests: %s", code, server.asked, stderr)
	}
	code, stdout, stderr = b.with(env, append(args, "--budget-tokens", "8000", "--resume")...)
	if s = summaryIn(t, stdout); code != cli.ExitOK || s.Items.Scored != 5 || server.asked != 5 {
		t.Errorf("exit %d, %+v after %d requests: %s", code, s.Items, server.asked, stderr)
	}
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
		s := summaryIn(t, stdout)
		if code != cli.ExitOK || server.asked != 5 || s.Items.Scored != 5 {
			t.Fatalf("%s: exit %d after %d requests: %s", name, code, server.asked, stderr)
		}
		if cost := s.Usage.CostUSD; cost == nil || (*cost == 0) != (name == "second") {
			t.Errorf("%s cost %v", name, cost)
		}
	}
}
