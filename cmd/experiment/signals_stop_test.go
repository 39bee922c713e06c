//go:build !windows

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse/embedded"
)

// serveSilence starts a server that takes requests, reports them, and answers none before the test
// ends.
func serveSilence(t *testing.T) (url string, requests <-chan struct{}) {
	taken, end := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		taken <- struct{}{}
		<-end
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	return server.URL, taken
}

// TestSignals_cutShort sends SIGINT while a command waits for a Langfuse that does not answer.
// The command reports an interruption, not an error.
func TestSignals_cutShort(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.run(t, 0, "--dataset", f.writeItems(t, makeItems(2, 100)), "--name", "r", "--max-failures", "1", "--quiet")
	for _, args := range [][]string{{"publish", "r"}, {"verify", "r"}, {"compare", "r", "langfuse:x"}, {"--dataset", "made", "--name", "q"}} {
		t.Run(args[0], func(t *testing.T) {
			url, requests := serveSilence(t)
			c := f.with("LANGFUSE_BASE_URL="+url, "LANGFUSE_PUBLIC_KEY=pk-lf-x", "LANGFUSE_SECRET_KEY=sk-lf-x").start(t, args...)
			select {
			case <-requests:
			case <-c.ended:
			}
			must(t, c.Process.Signal(os.Interrupt))
			c.exits(t, cli.ExitInterrupted)
			if text := c.stderr.String(); !strings.Contains(text, "stopped before") || strings.Contains(text, "canceled") {
				t.Errorf("standard error: %s", &c.stderr)
			}
		})
	}
}

// TestSignals_serveWaits sends SIGINT while serve waits for a server of the folder that does not answer.
func TestSignals_serveWaits(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	url, requests := serveSilence(t)
	store, err := embedded.Open(embedded.Config{Path: f.path(".experiment/langfuse.db")})
	must(t, err)
	defer store.Close()
	note := fmt.Sprintf(`{"url":%q,"pid":%d,"mode":"v4"}`, url, os.Getpid())
	must(t, os.WriteFile(f.path(".experiment/langfuse.json"), []byte(note), 0o600))
	c := f.start(t, "serve", "--port", "0")
	select {
	case <-requests:
	case <-c.ended:
	}
	must(t, c.Process.Signal(os.Interrupt))
	c.exits(t, cli.ExitInterrupted)
	if text := c.stderr.String(); !strings.Contains(text, "stopped before the end") || strings.Contains(text, "canceled") {
		t.Errorf("standard error: %s", text)
	}
}

// TestSignals_publishing sends SIGINT while a complete run waits for Langfuse, and then while
// publish does. The program says what is left and how to send it.
func TestSignals_publishing(t *testing.T) {
	t.Parallel()
	requests, end := make(chan struct{}, 100), make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	defer release()
	_, env := sharedLangfuse(t, makeItems(1, 100), func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(raw))
			if bytes.Contains(raw, []byte("items_planned")) { // a score of the whole run, which is sent last
				requests <- struct{}{}
				<-end
			}
			h.ServeHTTP(w, r)
		})
	})
	f := newFolder(t, env...)
	file := f.writeItems(t, makeItems(2, 100))
	must(t, os.WriteFile(f.path("none.jsonl"), []byte(`{"cassette":1,"provider":"openai","model":"gpt-4o"}`+"\n"), 0o600))
	for _, test := range []struct {
		args []string
		run  string
		more string
	}{
		{[]string{"--dataset", file, "--name", "r", "--max-failures", "2"}, "r", ""},
		{[]string{"publish", "r"}, "r", ""},
		{[]string{"--dataset", file, "--name", "s", "--max-failures", "2", "--prompt", "plain", "--model", "baseline,recorded/none.jsonl"}, "s-baseline", "1 of 2 runs are done; resume with: experiment --dataset"},
	} {
		c := f.start(t, test.args...)
		select {
		case <-requests:
		case <-c.ended:
			t.Fatalf("%q ended before it published: %s", test.args, &c.stderr)
		}
		must(t, c.Process.Signal(os.Interrupt))
		c.exits(t, cli.ExitInterrupted)
		text := c.stderr.String()
		if !strings.Contains(text, "not published: interrupted; nothing is lost, send it later with: experiment publish "+test.run+"\n") ||
			!strings.Contains(text, test.more) || strings.Contains(text, "canceled") {
			t.Errorf("standard error: %s", text)
		}
	}
	release()
	f.run(t, 0, "publish", "r")
}
