//go:build !windows

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
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
			if !strings.Contains(c.stderr.String(), "stopped before") {
				t.Errorf("standard error: %s", &c.stderr)
			}
		})
	}
}
