package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// TestProgress_stopped: 1 of 3 is done when the run is stopped, and nothing is
// in flight in the last line.
func TestProgress_stopped(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(cli.Env{Stderr: &b, Terminal: func() int { return 0 }}, false, "entity_f1", slog.New(slog.DiscardHandler))
	p.Planned(3, 0)
	p.Started("a")
	p.Started("b")
	p.Done(outcome.Outcome{Item: "a"})
	p.close()
	if want := "1/3 done, 0 failed, 0 in flight\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%q does not end in %q", b.String(), want)
	}
}
