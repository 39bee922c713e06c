package runs

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// TestProgress_stopped: 1 of 3 items is done when the run is stopped, and the last line has
// nothing in flight.
func TestProgress_stopped(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(cli.Env{Stderr: &b, Terminal: func() int { return 0 }}, false, "entity_f1", slog.New(slog.DiscardHandler))
	p.Planned(3, 0)
	p.Started("a")
	p.Started("b")
	p.Answered("")
	p.Done(outcome.Outcome{Item: "a"})
	p.Close()
	if want := "1/3 done, 0 failed, 0 in flight\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%q does not end in %q", b.String(), want)
	}
}

// TestProgress_resumed: 2 of 4 items were done earlier, with scores and failures that this
// process does not know. Its own are the score 0.2 and a failure, which counts as 0.
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
		p.Answered("")
		p.Done(outcome.Outcome{Item: "a", Class: outcome.OK, Scores: []outcome.Score{{Name: "entity_f1", Value: &value}}})
		p.Started("b")
		p.Answered("")
		p.Done(outcome.Outcome{Item: "b", Class: outcome.Timeout, Scores: []outcome.Score{{Name: "entity_f1"}}})
		p.Close()
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("%q does not end in %q", b.String(), want)
		}
	}
}

// TestProgress_trials: the summary of a run with trials takes the mean of each item first, so that the mean of the
// outcomes that did not fail would be another number; and so is that of all where items were not run in every trial.
func TestProgress_trials(t *testing.T) {
	value := 0.2
	for planned, want := range map[int]string{2: "0 in flight, entity_f1 0.100\n", 4: "0 in flight\n"} {
		var b bytes.Buffer
		p := NewProgress(cli.Env{Stderr: &b, Terminal: func() int { return 0 }}, false, "entity_f1", slog.New(slog.DiscardHandler))
		p.Planned(planned, 0)
		p.Done(outcome.Outcome{Item: "a", Trial: 1, Scores: []outcome.Score{{Name: "entity_f1", Value: &value}}})
		p.Done(outcome.Outcome{Item: "a", Trial: 2, Class: outcome.Timeout, Scores: []outcome.Score{{Name: "entity_f1"}}})
		p.Close()
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("%q does not end in %q", b.String(), want)
		}
	}
}

// TestProgress_waiting: each pause is shown once, also if several calls report it. Retried
// requests are shown if no item was done for a while.
func TestProgress_waiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(cli.Env{Stderr: &out, Terminal: func() int { return 0 }}, false, "f1", slog.New(slog.DiscardHandler))
		p.Planned(4, 0)
		p.Started("a")
		retry := func() {
			p.Waiting("openai", pipeline.Wait{Until: time.Now().Add(time.Second), Reason: "provider: connection\nrefused"})
		}
		pause := func() {
			p.Waiting("openai", pipeline.Wait{Until: time.Now().Add(time.Minute), Asked: time.Minute, Reason: "busy"})
		}
		retry() // too early
		pause()
		time.Sleep(time.Second)
		pause() // the same
		retry()
		time.Sleep(2 * time.Minute)
		pause()
		time.Sleep(time.Minute)
		p.Answered("")
		p.Done(outcome.Outcome{})
		retry() // something was done just now
		time.Sleep(10 * time.Second)
		retry()
		retry() // already shown
		want := []string{"4 items to run, 0 done earlier", "paused until 00:01:00: openai asks to wait 60 s", "paused until 00:03:01: openai asks to wait 60 s",
			"1/4 done, 0 failed, 0 in flight", "no progress for 10 s, asking openai again: provider: connection refused", ""}
		start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Local().Format(time.TimeOnly)
		got := out.String()
		if start == "00:00:00" && got != strings.Join(want, "\n") || strings.Count(got, "paused") != 2 || strings.Count(got, "again") != 1 {
			t.Errorf("printed %q", got)
		}
	})
}

// TestProgress_neverConnected: a provider that was never reached is shown at once and only
// once, also with --quiet.
func TestProgress_neverConnected(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := NewProgress(cli.Env{Stderr: &out, Terminal: func() int { return 0 }}, quiet, "f1", slog.New(slog.DiscardHandler))
			p.Planned(4, 0)
			out.Reset()
			wait := pipeline.Wait{Until: time.Now().Add(time.Second), Deadline: time.Now().Add(15 * time.Second), Reason: "provider: connection\nrefused"}
			for range 10 {
				p.Waiting("openai", wait)
				time.Sleep(time.Second)
			}
			if got, want := out.String(), "waiting for openai until "+wait.Deadline.Format(time.TimeOnly)+": provider: connection refused\n"; got != want {
				t.Errorf("quiet %v: printed %q, want %q", quiet, got, want)
			}
		})
	}
}

// TestProgress_publishing: a run that waits for Langfuse prints a message 10 s after Langfuse accepted a
// result, and then every 30 s.
func TestProgress_publishing(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := NewProgress(cli.Env{Stderr: &out, Terminal: func() int { return 0 }}, quiet, "f1", slog.New(slog.DiscardHandler))
			p.Publishing()
			time.Sleep(60 * time.Second) // messages at 10 s and 40 s
			p.Published(1)
			time.Sleep(20 * time.Second) // 70 s
			p.Published(1)
			p.Published(2)
			time.Sleep(5 * time.Second)
			p.Close()
			p.Published(3)
			time.Sleep(time.Minute)
			synctest.Wait()
			want := ""
			for _, silent := range []string{"10", "40", "10"} {
				want += "nothing has changed in Langfuse for " + silent + " s; an interruption keeps everything, " +
					"experiment publish does the rest later\n"
			}
			if quiet {
				want = ""
			}
			if got := out.String(); got != want {
				t.Errorf("printed\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestProgress_bar: drawing the bar and counting items do not block each other.
func TestProgress_bar(t *testing.T) {
	p := NewProgress(cli.Env{Stderr: io.Discard, Terminal: func() int { return 80 }}, false, "f1", slog.New(slog.DiscardHandler))
	p.Planned(1<<30, 0)
	done := make(chan bool)
	go func() {
		for began := time.Now(); time.Since(began) < time.Second; {
			p.Started("a")
			p.Answered("")
			p.Done(outcome.Outcome{Item: "a"})
		}
		p.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the progress of a run stands still")
	}
}

// TestScreen: text that is written while there is a bar appears above it; without a bar it
// is written at once.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	screen := NewScreen(&out)
	p := NewProgress(cli.Env{Stderr: screen, Terminal: func() int { return 80 }}, false, "f1", slog.New(slog.DiscardHandler))
	fmt.Fprintln(screen, "before")
	if got := out.String(); got != "before\n" {
		t.Errorf("without a bar it wrote %q", got)
	}
	p.Planned(2, 0)
	fmt.Fprintln(screen, "the program says")
	fmt.Fprintln(screen, "something")
	p.Close()
	drawn := out.String()
	if said, bar := strings.Index(drawn, "the program says\nsomething\n"), strings.LastIndex(drawn, "0/2 done"); said < 0 || bar < said {
		t.Errorf("with a bar: %q", drawn)
	}
	if got := strings.Count(drawn, "\r"); got != 2 {
		t.Errorf("the cursor was sent to the beginning of its row %d times for two lines: behind ^C the bar would not be cleared whole", got)
	}
	fmt.Fprintln(screen, "behind")
	if got := out.String(); got != drawn+"behind\n" {
		t.Errorf("behind it: %q", got[len(drawn):])
	}
}

// TestStatus: a Status shows nothing in the first second, then five times a second a line
// that fits the terminal, and leaves nothing behind. Without a terminal, it prints a line every five
// seconds.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		width := 20
		s := NewStatus(cli.Env{Stderr: &out, Terminal: func() int { return width }})
		for range 30 { // 3 seconds: written at 1.0, 1.2, 1.4, … 2.8
			s.Say("%s compared, and\nmore of it", "1,500")
			time.Sleep(100 * time.Millisecond)
		}
		if n := strings.Count(out.String(), clearLine); n != 10 {
			t.Errorf("written %d times, want 10", n)
		}
		for line := range strings.SplitSeq(out.String(), clearLine) {
			if len([]rune(line)) >= width || strings.Contains(line, "\n") {
				t.Errorf("%q does not fit", line)
			}
		}
		s.End()
		s.End()
		if !strings.HasSuffix(out.String(), clearLine) || strings.HasSuffix(out.String(), clearLine+clearLine) {
			t.Errorf("it ends with %q", out.String()[max(0, out.Len()-40):])
		}
		out.Reset()
		width = 0
		s = NewStatus(cli.Env{Stderr: &out, Terminal: func() int { return width }})
		for i := range 12 { // at 0, 1, 2, … 11 s
			s.Say("%d\nof 12", i)
			time.Sleep(time.Second)
		}
		s.End()
		if got := out.String(); got != "5 of 12\n10 of 12\n" {
			t.Errorf("written where there is no terminal: %q", got)
		}
	})
}
