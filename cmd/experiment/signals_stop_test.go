//go:build !windows

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse/embedded"
)

// TestSignals_cutShort presses Ctrl-C while a command waits for a Langfuse that
// does not answer: that is a stop, and no fault of the program.
func TestSignals_cutShort(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.run(t, 0, "--dataset", f.writeItems(t, makeItems(2, 100)), "--name", "r", "--max-failures", "1", "--quiet")
	for _, args := range [][]string{{"publish", "r"}, {"verify", "r"}, {"compare", "r", "langfuse:x"}, {"--dataset", "made", "--name", "q"}} {
		t.Run(args[0], func(t *testing.T) {
			asked, end := make(chan struct{}, 100), make(chan struct{})
			silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				asked <- struct{}{}
				<-end
			}))
			defer silent.Close()
			defer close(end)
			c := f.with("LANGFUSE_BASE_URL="+silent.URL, "LANGFUSE_PUBLIC_KEY=pk-lf-x", "LANGFUSE_SECRET_KEY=sk-lf-x").start(t, args...)
			select {
			case <-asked:
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

// TestSignals_publishing presses Ctrl-C when a run is complete and waits for
// Langfuse, then when publish does: what is left is told, and how to send it.
func TestSignals_publishing(t *testing.T) {
	t.Parallel()
	server, err := embedded.Open(embedded.Config{})
	must(t, err)
	defer func() { must(t, server.Close()) }()
	asked, end := make(chan struct{}, 100), make(chan struct{})
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(raw))
		select {
		case <-end:
		default:
			if bytes.Contains(raw, []byte("items_planned")) { // of the run as a whole: sent last
				asked <- struct{}{}
				<-end
			}
		}
		server.Handler().ServeHTTP(w, r)
	}))
	defer hs.Close()
	f := newFolder(t, "LANGFUSE_BASE_URL="+hs.URL, "LANGFUSE_PUBLIC_KEY="+embedded.DefaultPublicKey, "LANGFUSE_SECRET_KEY="+embedded.DefaultSecretKey)
	for _, args := range [][]string{{"--dataset", f.writeItems(t, makeItems(2, 100)), "--name", "r", "--max-failures", "2"}, {"publish", "r"}} {
		c := f.start(t, args...)
		select {
		case <-asked:
		case <-c.ended:
		}
		must(t, c.Process.Signal(os.Interrupt))
		c.exits(t, cli.ExitInterrupted)
		text := c.stderr.String()
		if !strings.Contains(text, "not published: interrupted; nothing is lost, send it later with: experiment publish r") || strings.Contains(text, "canceled") {
			t.Errorf("standard error: %s", text)
		}
	}
	close(end)
	f.run(t, 0, "publish", "r")
}
