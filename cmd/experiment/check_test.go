package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/internal/cli"
)

// fakeGitHub stores the comments of one pull request and serves them to the token of a job.
type fakeGitHub struct {
	mu       sync.Mutex
	comments []map[string]any
}

func (f *fakeGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/user"):
		http.Error(w, "not for a job", http.StatusForbidden)
		return
	case r.Method == http.MethodPost:
		body["id"], body["user"] = len(f.comments)+1, map[string]string{"login": "github-actions[bot]"}
		f.comments = append(f.comments, body)
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPatch:
		f.comments[0]["body"] = body["body"]
	}
	_ = json.NewEncoder(w).Encode(f.comments)
}

// TestCheck_job runs a check as a job of a pull request: it posts the comment once and then
// updates it; the comment links to the job and warns of an old base.
func TestCheck_job(t *testing.T) {
	host := &fakeGitHub{}
	server := httptest.NewServer(host)
	t.Cleanup(server.Close)
	f := newFolder(t, "GITHUB_ACTIONS=true", "GITHUB_API_URL="+server.URL, "GITHUB_SERVER_URL=https://github.example", "GITHUB_REPOSITORY=o/r",
		"GITHUB_REF=refs/pull/7/merge", "GITHUB_RUN_ID=99", "GITHUB_SHA=0123456789abcdef", "GITHUB_TOKEN=sesame", "GITHUB_STEP_SUMMARY=")
	must(t, os.WriteFile(f.path("items.jsonl"), []byte(`{"id":"a","input":{"document_text":"Ada Lovelace wrote.","object_schemas":{"Person":{}}},"expectedOutput":{"entities":[{"name":"Ada Lovelace"}]}}`+"\n"), 0o600))
	f.run(t, 0, "--dataset", "items.jsonl", "--name", "base", "--quiet")
	for i, want := range []string{"the comment was created", "the comment was updated"} {
		c := f.run(t, 0, "check", "--dataset", "items.jsonl", "--base", "base")
		if !strings.Contains(c.stderr.String(), want) || len(host.comments) != 1 {
			t.Fatalf("check %d: %d comments, %s", i+1, len(host.comments), c.stderr.String())
		}
		if body := host.comments[0]["body"].(string); strings.TrimSpace(body) != strings.TrimSpace(c.stdout.String()) || !strings.Contains(body, "` · commit `0123456789ab`\n") || !strings.Contains(body, "[job and report](<https://github.example/o/r/actions/runs/99>)") {
			t.Errorf("the comment is\n%s\nand what was printed\n%s", body, c.stdout.String())
		}
	}
	// An export of the same run with an old start time.
	c := f.run(t, 0, "export", "base")
	header, rest, _ := strings.Cut(c.stdout.String(), "\n")
	var head map[string]any
	must(t, json.Unmarshal([]byte(header), &head))
	head["started"] = "2026-01-02T03:04:05Z"
	old, err := json.Marshal(head)
	must(t, err)
	must(t, os.WriteFile(f.path("old.jsonl"), append(append(old, '\n'), rest...), 0o600))
	for age, warned := range map[string]bool{"14d": true, "36500d": false} {
		c := f.run(t, 0, "check", "--dataset", "items.jsonl", "--base", "old.jsonl", "--base-max-age", age, "--comment", "false")
		if got := strings.Contains(c.stdout.String(), "is older than 14d: take a newer one"); got != warned {
			t.Errorf("--base-max-age %s: warned %v, want %v:\n%s", age, got, warned, c.stdout.String())
		}
	}
	// A base without a primary score cannot be compared, and the check says so before the candidate runs.
	head["scorer"].(map[string]any)["primary"] = ""
	old, err = json.Marshal(head)
	must(t, err)
	must(t, os.WriteFile(f.path("old.jsonl"), append(append(old, '\n'), rest...), 0o600))
	c = f.run(t, cli.ExitUsage, "check", "--dataset", "items.jsonl", "--base", "old.jsonl", "--comment", "false")
	if text := c.stderr.String(); !strings.Contains(text, "the base names no primary score") || strings.Contains(text, "to run") {
		t.Errorf("a base without a primary score: %s", text)
	}
	if len(host.comments) != 1 || host.comments[0]["id"] != 1 {
		t.Errorf("--comment false: %v", host.comments)
	}
}

// TestCheck_resume: a check that was stopped says how to resume the check, and not only its run.
func TestCheck_resume(t *testing.T) {
	model := newPaidModel(t)
	f := newFolder(t, "OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL="+model.url+"/r")
	must(t, os.WriteFile(f.path("items.jsonl"), []byte(itemsFile), 0o600))
	args := []string{"check", "--dataset", "items.jsonl", "--model", "openai/gpt-4o-mini", "--budget-tokens"}
	c := f.run(t, cli.ExitInterrupted, append(args, "1")...)
	advice := regexp.MustCompile(`resume with: experiment (check .*--name (check-[0-9.-]+)) --budget-tokens MORE --resume`)
	found := advice.FindStringSubmatch(c.stderr.String())
	if found == nil {
		t.Fatalf("no advice: %s", c.stderr.String())
	}
	// The run that was stopped is no base, and the check says so before it pays.
	for _, words := range [][]string{{"baseline", "set", found[2]}, append(args, "100000", "--base", found[2])} {
		c = f.run(t, cli.ExitIncompatible, words...)
		if !strings.Contains(c.stderr.String(), "is not complete (interrupted): finish it with --resume") || strings.Contains(c.stderr.String(), "to run") {
			t.Errorf("%v: %s", words, c.stderr.String())
		}
	}
	c = f.run(t, cli.ExitOK, append(args, "100000", "--name", found[2], "--resume")...)
	if !strings.Contains(c.stdout.String(), "not compared") {
		t.Errorf("resumed: %s", c.stdout.String())
	}
}

// TestCheck_refresh: a base with fewer items is run again with its own model and settings, if
// the estimated cost is allowed.
func TestCheck_refresh(t *testing.T) {
	model := newPaidModel(t)
	f := newFolder(t, "OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL="+model.url+"/r")
	line := func(id string) string {
		return `{"id":"` + id + `","input":{"document_text":"` + id + ` Lovelace wrote."},"expectedOutput":{"entities":[{"name":"` + id + ` Lovelace"}]}}` + "\n"
	}
	seed := func(lines string) {
		must(t, os.WriteFile(f.path("items.jsonl"), []byte(lines), 0o600))
		f.run(t, 0, "seed", "--dataset", "d", "--file", "items.jsonl", "--quiet")
	}
	seed(line("one"))
	for _, name := range []string{"gpt-4o-mini", "custom"} {
		f.run(t, 0, "--dataset", "d", "--name", "base-"+name, "--model", "openai/"+name, "--temperature", "0.5", "--max-tokens", "200", "--quiet")
	}
	f.run(t, 0, "--dataset", "d", "--name", "base-two", "--model", "openai/gpt-4o-mini", "--two-stages", "--var", "all=input", "--quiet")
	seed(line("one") + line("two"))
	check := func(code int, name string, args ...string) string {
		c := f.run(t, code, append([]string{"check", "--dataset", "d", "--model", "openai/" + name, "--temperature", "0.5", "--max-tokens", "200", "--base", "base-" + name}, args...)...)
		return c.stdout.String()
	}
	if got := check(2, "gpt-4o-mini"); !strings.Contains(got, "fingerprint of the dataset") || !strings.Contains(got, "--refresh-base USD") {
		t.Errorf("other items are compared: %s", got)
	}
	if got := check(2, "gpt-4o-mini", "--refresh-base", "0.0000001"); !strings.Contains(got, "would cost ") {
		t.Errorf("beyond what is allowed: %s", got)
	}
	if got := check(2, "custom", "--refresh-base", "5"); !strings.Contains(got, "has an unknown cost, as the model has no price") {
		t.Errorf("without a price: %s", got)
	}
	if got := check(0, "gpt-4o-mini", "--refresh-base", "5"); !strings.Contains(got, "base `base-gpt-4o-mini-refreshed-") {
		t.Errorf("%s", got)
	}
	if got := check(0, "gpt-4o-mini", "--base", "base-two", "--refresh-base", "5"); !strings.Contains(got, "base `base-two-refreshed-") {
		t.Errorf("in two stages, with a variable: %s", got)
	}
	f.run(t, 0, "--dataset", "d", "--model", "openai/gpt-4o-mini", "--temperature", "0.5", "--max-tokens", "200", "--name", "judged-later", "--quiet")
	seed(line("one") + line("two") + line("three"))
	if got := check(0, "gpt-4o-mini", "--name", "judged-later", "--resume", "--refresh-base", "5"); !strings.Contains(got, "2 items") {
		t.Errorf("over the items of the candidate, not those of now: %s", got)
	}
	f.run(t, 0, "seed", "--dataset", "d", "--archive", "three")
	away := f.with("OPENAI_BASE_URL=" + model.url + "/other")
	c := away.run(t, 2, "check", "--dataset", "d", "--model", "openai/gpt-4o-mini", "--base", "base-two", "--refresh-base", "5")
	if got := c.stdout.String(); !strings.Contains(got, "another server of its model") {
		t.Errorf("another server: %s", got)
	}
	prices := f.path("prices.yaml")
	must(t, os.WriteFile(prices, []byte("as_of: 2026-11-21\nsource: a test\nprices:\n  custom: {input: 0, cached_input: 0, output: 0}\n"), 0o600))
	paid := f
	f = f.with("EXPERIMENT_PRICES_FILE=" + prices)
	if got := check(0, "custom", "--refresh-base", "0"); !strings.Contains(got, "base `base-custom-refreshed-") {
		t.Errorf("for nothing, where nothing is to be paid: %s", got)
	}
	f = paid
	// What describes the candidate in the environment does not hold for the base.
	f = f.with("EXPERIMENT_SEED=9", "EXPERIMENT_TWO_STAGES=true", "EXPERIMENT_TRIALS=3", "EXPERIMENT_OUTPUT=candidate.jsonl")
	refreshed := regexp.MustCompile("base `(base-gpt-4o-mini-refreshed-[0-9.-]+)")
	for name, args := range map[string][]string{
		"in Langfuse only": {"--base", "langfuse:base-gpt-4o-mini"}, "over some items": {"--limit", "1"},
	} {
		got := check(0, "gpt-4o-mini", append(args, "--refresh-base", "5")...)
		found := refreshed.FindStringSubmatch(got)
		if found == nil {
			t.Fatalf("%s: %s", name, got)
		}
		base := summaryOf(t, f.run(t, 0, "show", found[1], "--json").stdout.String()).Run
		if base.Seed != nil || *base.Temperature != 0.5 || *base.MaxTokens != 200 || base.Pipeline != "ask@2" || base.Trials != 1 {
			t.Errorf("%s: the base was run again as %+v", name, base)
		}
		output, err := os.ReadFile(f.path("candidate.jsonl"))
		if must(t, err); !strings.Contains(string(output), `"name":"check-`) {
			t.Errorf("%s: the output of the candidate is %.200s", name, output)
		}
	}
	// Of the base, as many items may fail as of the candidate.
	seed(line("one") + line("refused"))
	if got := check(0, "gpt-4o-mini", "--refresh-base", "5", "--max-failures", "50%"); !refreshed.MatchString(got) {
		t.Errorf("with a failed item: %s", got)
	}
	// It has the cache of the candidate. Of the three items, one is refused each time.
	for _, cached := range []int{0, 2} {
		got := check(0, "gpt-4o-mini", "--refresh-base", "5", "--max-failures", "50%", "--cache", "answers")
		base := summaryOf(t, f.run(t, 0, "show", refreshed.FindStringSubmatch(got)[1], "--json").stdout.String())
		if n := base.Items.FromCache; n != cached {
			t.Errorf("%d items of the base are from the cache", n)
		}
	}
}
