package output

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
	p := NewProgress(cli.Env{Stderr: &b, Terminal: func() int { return 0 }}, false, "entity_f1", slog.New(slog.DiscardHandler))
	p.Planned(3, 0)
	p.Started("a")
	p.Started("b")
	p.Done(outcome.Outcome{Item: "a"})
	p.Close()
	if want := "1/3 done, 0 failed, 0 in flight\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%q does not end in %q", b.String(), want)
	}
}

// TestProgress_resumed: of 4 items 2 were done earlier, with scores and failures
// that this process has not seen. Its own are 0.2 and a failure, which counts as 0.
func TestProgress_resumed(t *testing.T) {
	value := 0.2
	for earlier, want := range map[int]string{
		2: "4/4 done, 1 failed this session, 0 in flight, entity_f1 0.100 (0.200 of 1 scored) this session\n",
		0: "2/2 done, 1 failed, 0 in flight, entity_f1 0.100 (0.200 of 1 scored)\n",
	} {
		var b bytes.Buffer
		p := NewProgress(cli.Env{Stderr: &b, Terminal: func() int { return 0 }}, false, "entity_f1", slog.New(slog.DiscardHandler))
		p.Planned(earlier+2, earlier)
		p.Started("a")
		p.Done(outcome.Outcome{Item: "a", Class: outcome.OK, Scores: []outcome.Score{{Name: "entity_f1", Value: &value}}})
		p.Started("b")
		p.Done(outcome.Outcome{Item: "b", Class: outcome.Timeout, Scores: []outcome.Score{{Name: "entity_f1"}}})
		p.Close()
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("%q does not end in %q", b.String(), want)
		}
	}
}
