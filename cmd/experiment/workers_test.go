package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/natsserver"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
)

// workers starts processes of experiment worker with the flags.
func workers(t *testing.T, f folder, nats *natsserver.Server, n int, args ...string) []*child {
	t.Helper()
	var started []*child
	for i := range n {
		started = append(started, f.start(t, append([]string{"worker", nats.URL(), "--as", fmt.Sprint("w", i)}, args...)...))
	}
	return started
}

// A run with several workers equals that of one machine, except for times and the names of
// workers. An interrupted worker ends with 0.
func TestWorkers_export(t *testing.T) {
	t.Parallel()
	n := suite.SampleOr(2, 4)
	nats, chat := natsserver.Start(t), newChatServer(t, adaAnswer)
	f := newFolder(t, "OPENAI_API_KEY=sk-test-secret", "OPENAI_BASE_URL="+chat.url)
	items := itemsFile
	if raw, err := os.ReadFile("../../../shared/data/documents60.jsonl"); err == nil {
		lines := strings.SplitAfter(string(raw), "\n")
		items = strings.Join(lines[:min(len(lines), suite.SampleOr(8, len(lines)))], "")
	}
	must(t, os.WriteFile(f.path("docs.jsonl"), []byte(items), 0o600))
	f.run(t, cli.ExitOK, "--dataset", "docs.jsonl", "--name", "live", "--model", "openai/gpt-4o", "--record", "tape.jsonl", "--quiet")
	f.run(t, cli.ExitOK, "--dataset", "docs.jsonl", "--name", "local", "--model", "recorded/tape.jsonl", "--output", "local.jsonl", "--quiet")
	started := workers(t, f, nats, n, "--model", "recorded/tape.jsonl", "--concurrency", "2")
	c := f.run(t, cli.ExitOK, "--dataset", "docs.jsonl", "--name", "spread", "--model", "recorded/tape.jsonl", "--output", "spread.jsonl", "--workers", nats.URL(), "--verify", "-c", "9")
	if text := c.stderr.String(); !strings.Contains(text, "note: --concurrency has no effect with --workers") || !regexp.MustCompile(`0 in flight \(\d workers?, \d in hand\)`).MatchString(text) {
		t.Errorf("the progress does not say who works, or nothing is said of -c:\n%s", text)
	}
	local, spread := normalizedExport(t, f.path("local.jsonl")), normalizedExport(t, f.path("spread.jsonl"))
	if !strings.Contains(spread, `"worker":"w`) {
		t.Error("no worker stands in the export")
	}
	for i := range started {
		spread = strings.ReplaceAll(spread, fmt.Sprintf(`,"worker":"w%d"`, i), "")
	}
	if local != spread {
		t.Errorf("local:\n%.3000s\nspread:\n%.3000s", local, spread)
	}
	list := f.run(t, cli.ExitOK, "workers", nats.URL())
	if text := list.stdout.String(); strings.Count(text, "recorded openai/gpt-4o  –") != n {
		t.Errorf("workers, none of which works for a run that has ended:\n%s", text)
	}
	item := regexp.MustCompile(`"item":"([^"]+)","kind":"outcome"`).FindStringSubmatch(spread)
	if shown := f.run(t, cli.ExitOK, "show", "spread", item[1]); !strings.Contains(shown.stdout.String(), "\nworker    w") {
		t.Errorf("show:\n%s", shown.stdout.String())
	}
	for _, c := range started {
		must(t, c.Process.Signal(syscall.SIGTERM))
		c.exits(t, cli.ExitOK)
	}
}

const itemsFile = `{"id":"a","input":{"document_text":"Ada Lovelace wrote to Charles Babbage."},"expected_output":{"entities":[{"name":"Ada Lovelace","type":"person"}],"relationships":[]}}
{"id":"b","input":{"document_text":"Ada Lovelace lived in London."},"expected_output":{"entities":[{"name":"Ada Lovelace","type":"person"}],"relationships":[]}}
`

// The coordinator keeps the budget: workers together exceed it by at most the requests under
// way, and the run stops and can be resumed.
func TestWorkers_budget(t *testing.T) {
	suite.Slow(t, "the calls are spaced out for some seconds")
	t.Parallel()
	nats, chat := natsserver.Start(t), newChatServer(t, adaAnswer)
	f := newFolder(t, "OPENAI_API_KEY=sk-test-secret", "OPENAI_BASE_URL="+chat.url)
	var lines strings.Builder
	for i := range 60 {
		fmt.Fprintf(&lines, `{"id":"i%d","input":{"document_text":"Ada Lovelace wrote letter %d."},"expected_output":{"entities":[],"relationships":[]}}`+"\n", i, i)
	}
	must(t, os.WriteFile(f.path("docs.jsonl"), []byte(lines.String()), 0o600))
	workers(t, f, nats, 2, "--model", "openai/gpt-4o")
	const budget, answer = 5000, 120 // in tokens
	f = f.with("OPENAI_API_KEY=")    // only the workers need it
	c := f.run(t, cli.ExitInterrupted, "--dataset", "docs.jsonl", "--name", "r", "--model", "openai/gpt-4o", "--budget-tokens", fmt.Sprint(budget), "--json", "--workers", nats.URL())
	if text := c.stderr.String(); !strings.Contains(text, "the budget of 5000 tokens has less left") || !strings.Contains(text, "--budget-tokens MORE") {
		t.Errorf("stderr:\n%s", text)
	}
	usage := summaryOf(t, c.stdout.String()).Usage
	if used := usage.Input + usage.Output; used == 0 || used > budget {
		t.Errorf("%d tokens", used)
	}
	chat.mu.Lock()
	asked := len(chat.bodies)
	chat.mu.Unlock()
	if asked*answer > budget {
		t.Errorf("%d answers of %d tokens", asked, answer)
	}
	f.run(t, cli.ExitOK, "--dataset", "docs.jsonl", "--name", "r", "--model", "openai/gpt-4o", "--budget-tokens", "1000000", "--quiet", "--workers", nats.URL(), "--resume")
}

// After a worker and then the coordinator were killed, the same command with --resume ends the
// run. Every item is in Langfuse once, and at most the items of the killed worker are paid
// twice.
func TestWorkers_killedAndResumed(t *testing.T) {
	suite.Slow(t, "a killed worker's lease is 30 s")
	t.Parallel()
	const items, inHand = 150, 4
	nats, chat := natsserver.Start(t), newChatServer(t, adaAnswer)
	f := newFolder(t, "OPENAI_API_KEY=sk-test-secret", "OPENAI_BASE_URL="+chat.url)
	var lines strings.Builder
	for i := range items {
		fmt.Fprintf(&lines, `{"id":"i%d","input":{"document_text":"Ada Lovelace wrote letter %d."},"expected_output":{"entities":[],"relationships":[]}}`+"\n", i, i)
	}
	must(t, os.WriteFile(f.path("docs.jsonl"), []byte(lines.String()), 0o600))
	requests := func() int {
		chat.mu.Lock()
		defer chat.mu.Unlock()
		return len(chat.bodies)
	}
	until := func(n int) {
		for began := time.Now(); requests() < n; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("%d calls in a minute", requests())
			}
		}
	}
	started := workers(t, f, nats, 2, "--model", "openai/gpt-4o", "--concurrency", fmt.Sprint(inHand))
	args := []string{"--dataset", "docs.jsonl", "--name", "r", "--model", "openai/gpt-4o", "--rpm", "1200", "--quiet", "--workers", nats.URL()}
	c := f.start(t, args...)
	until(20)
	must(t, started[0].Process.Kill())
	until(40)
	must(t, c.Process.Kill())
	<-c.ended
	f.run(t, cli.ExitOK, append(args, "--resume", "--verify")...)
	if n := requests(); n > items+inHand {
		t.Errorf("%d calls for %d items, with %d in hand at the kill", n, items, inHand)
	}
}

// An interrupted run does not wait until its limits allow the next call.
func TestWorkers_stopped(t *testing.T) {
	t.Parallel()
	nats, chat := natsserver.Start(t), newChatServer(t, adaAnswer)
	f := newFolder(t, "OPENAI_API_KEY=sk-test-secret", "OPENAI_BASE_URL="+chat.url)
	must(t, os.WriteFile(f.path("docs.jsonl"), []byte(itemsFile), 0o600))
	workers(t, f, nats, 1, "--model", "openai/gpt-4o")
	c := f.start(t, "--dataset", "docs.jsonl", "--name", "r", "--model", "openai/gpt-4o", "--rpm", "1", "--workers", nats.URL(), "--output", "r.jsonl")
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		chat.mu.Lock()
		asked := len(chat.bodies)
		chat.mu.Unlock()
		if asked == 1 {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("nothing was asked in a minute")
		}
	}
	time.Sleep(2 * time.Second) // by then the other call waits
	stopped := time.Now()
	must(t, c.Process.Signal(syscall.SIGTERM))
	c.exits(t, cli.ExitInterrupted)
	if took := time.Since(stopped); took > 45*time.Second {
		t.Errorf("it took %s: it waited for the next minute", took)
	}
	if text := c.stderr.String(); !strings.Contains(text, "resume with: experiment --dataset docs.jsonl") {
		t.Errorf("stderr:\n%s", text)
	}
}

// Errors of a command line or a server, with their exit codes.
func TestWorkers_refused(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	for want, c := range map[string]struct {
		code int
		args []string
	}{
		"takes one address of a NATS server":                {64, []string{"worker"}},
		"needs what it may run":                             {64, []string{"worker", "nats://127.0.0.1:1"}},
		"start one with nats-server -js":                    {69, []string{"worker", "nats://127.0.0.1:1", "--model", "baseline"}},
		"is not of the form nats://HOST:4222":               {64, []string{"workers", "host"}},
		"documents would travel in clear":                   {64, []string{"workers", "nats://203.0.113.1:4222"}},
		"leave --record out":                                {64, []string{"--dataset", "extraction-eval", "--name", "r", "--workers", "nats://127.0.0.1:1", "--record", "x"}},
		"the NATS server at nats://127.0.0.1:1 cannot be r": {69, []string{"--dataset", "extraction-eval", "--name", "r", "--model", "openai/gpt-4o", "--workers", "nats://127.0.0.1:1"}},
	} {
		if text := f.run(t, c.code, c.args...).stderr.String(); !strings.Contains(text, want) {
			t.Errorf("%q: %s", c.args, text)
		}
	}
}

// The run reports a worker of another model, which gets no items, and waits for one of its own
// model, which its prompt's config names.
func TestWorkers_otherModel(t *testing.T) {
	t.Parallel()
	nats, chat := natsserver.Start(t), newChatServer(t, adaAnswer)
	f := newFolder(t, "OPENAI_API_KEY=sk-test-secret", "OPENAI_BASE_URL="+chat.url)
	client, closeLangfuse := f.langfuse(t)
	_, err := client.CreatePrompt(t.Context(), langfuse.Prompt{
		Name: "p", Type: langfuse.PromptText, Prompt: []byte(`"Extract: {{document_text}}"`),
		Config: []byte(`{"model":"openai/gpt-4o"}`), Labels: []string{"production"},
	})
	must(t, err)
	closeLangfuse()
	wrong := workers(t, f, nats, 1, "--model", "baseline")[0]
	run := f.start(t, "--dataset", "extraction-eval", "--name", "r", "--limit", "3", "--prompt", "p",
		"--workers", nats.URL(), "--output", "r.jsonl")
	list := func() string { return f.run(t, cli.ExitOK, "workers", nats.URL()).stdout.String() }
	for began := time.Now(); !strings.Contains(list(), "w0 does not work for r: the run measures openai/gpt-4o ("); {
		if time.Since(began) > time.Minute {
			t.Fatal("the worker does not say what it refuses")
		}
	}
	f.start(t, "worker", nats.URL(), "--model", "openai/gpt-4o", "--as", "right")
	run.exits(t, cli.ExitOK)
	must(t, wrong.Process.Signal(syscall.SIGTERM))
	wrong.exits(t, cli.ExitOK)
	if text := wrong.stderr.String(); !strings.Contains(text, "start one with the --model or --pipeline of the run") {
		t.Errorf("the worker said:\n%s", text)
	}
}
