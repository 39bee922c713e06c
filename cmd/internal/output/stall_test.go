package output

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// A pause is named once, however many calls meet it, and the next one again;
// requests that are sent again are named when nothing was done for a while.
func TestProgress_waiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(cli.Env{Stderr: &out, Terminal: func() int { return 0 }}, false, "f1", slog.New(slog.DiscardHandler))
		p.Planned(4, 0)
		p.Started("a")
		again := func() {
			p.Waiting("openai", pipeline.Wait{Until: time.Now().Add(time.Second), Reason: "provider: connection\nrefused"})
		}
		pause := func() {
			p.Waiting("openai", pipeline.Wait{Until: time.Now().Add(time.Minute), Asked: time.Minute, Reason: "busy"})
		}
		again() // too early
		pause()
		time.Sleep(time.Second)
		pause() // the same
		again()
		if text := p.pace(); !strings.Contains(text, "paused until") {
			t.Errorf("the bar says %q", text)
		}
		time.Sleep(2 * time.Minute)
		if text := p.pace(); strings.Contains(text, "paused") {
			t.Errorf("the bar still says %q", text)
		}
		pause()
		time.Sleep(time.Minute)
		p.Done(outcome.Outcome{})
		again() // something was done just now
		time.Sleep(10 * time.Second)
		again()
		again() // said
		want := []string{"4 items to run, 0 done earlier", "paused until 00:01:00: openai asks to wait 60 s", "paused until 00:03:01: openai asks to wait 60 s",
			"1/4 done, 0 failed, 0 in flight", "nothing done for 10 s, asking openai again: provider: connection refused", ""}
		start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Local().Format(time.TimeOnly)
		got := out.String()
		if start == "00:00:00" && got != strings.Join(want, "\n") || strings.Count(got, "paused") != 2 || strings.Count(got, "again") != 1 {
			t.Errorf("printed %q", got)
		}
	})
}

// That there never was a connection is said at once and once, with --quiet too.
func TestProgress_neverConnected(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := NewProgress(cli.Env{Stderr: &out, Terminal: func() int { return 0 }}, quiet, "f1", slog.New(slog.DiscardHandler))
			p.Planned(4, 0)
			out.Reset()
			wait := pipeline.Wait{Until: time.Now().Add(time.Second), GivesUp: time.Now().Add(15 * time.Second), Reason: "provider: connection\nrefused"}
			for range 10 {
				p.Waiting("openai", wait)
				time.Sleep(time.Second)
			}
			if got, want := out.String(), "waiting for openai until "+wait.GivesUp.Format(time.TimeOnly)+": provider: connection refused\n"; got != want {
				t.Errorf("quiet %v: printed %q, want %q", quiet, got, want)
			}
			if text := p.stall.shown(); !strings.Contains(text, "waiting for openai") {
				t.Errorf("the bar says %q", text)
			}
		})
	}
}
