package trigger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
)

// clock is a clock that only moves when advance is called.
type clock struct{ at time.Time }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }

// newQueue opens the queue of this folder until the test ends.
func newQueue(t *testing.T, file configs.Trigger, c *clock) *queue {
	t.Helper()
	if err := os.MkdirAll(settings.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	q, err := openQueue(file, c.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.close() }) // a test may have closed it
	return q
}

func anyRun(request) error { return nil }

// requestRun requests a run of d with a limit, signed now.
func (q *queue) requestRun(t *testing.T, limit string) (run string, again bool) {
	t.Helper()
	r, again, err := q.add(request{Dataset: "d", Settings: map[string]string{"limit": limit}, Signed: q.now().Truncate(time.Second)}, anyRun)
	if err != nil {
		t.Fatal(err)
	}
	return r.Run, again
}

// startNext starts the next run.
func (q *queue) startNext(t *testing.T) request {
	t.Helper()
	r, ok, err := q.next(t.Context())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	return r
}

func (q *queue) endRun(t *testing.T, run string) {
	t.Helper()
	if err := q.end(run, 0, ""); err != nil {
		t.Fatal(err)
	}
}

// TestRequest_repeatedBy: which presses are the same request.
func TestRequest_repeatedBy(t *testing.T) {
	t.Chdir(t.TempDir())
	c := &clock{noon}
	q := newQueue(t, testFile(), c)
	first, again := q.requestRun(t, "5")
	if first != "d-"+noon.UTC().Format("20060102-150405") || again {
		t.Errorf("%s, again %v", first, again)
	}
	checkRepeated := func(when string, want bool) {
		t.Helper()
		run, again := q.requestRun(t, "5")
		if again != want || (run == first) != want {
			t.Errorf("%s: run %s, again %v", when, run, again)
		}
	}
	checkRepeated("pressed twice", true)
	c.advance(time.Hour)
	checkRepeated("while it waits", true)
	if other, again := q.requestRun(t, "6"); again || other == first {
		t.Errorf("another payload is %s, again %v", other, again)
	}
	q.startNext(t)
	c.advance(time.Hour)
	checkRepeated("while it runs", true)
	q.endRun(t, first)
	// The run ended at 14:00:00. This press was signed before and is sent again.
	if r, again, err := q.add(request{Dataset: "d", Settings: map[string]string{"limit": "5"}, Signed: c.at.Add(-time.Second)}, anyRun); err != nil || !again || r.Run != first {
		t.Errorf("sent again: %+v, %v, %v", r, again, err)
	}
	checkRepeated("at its end", false)
}

// TestQueue_minute: a run of one second does not turn a double press into two requests.
func TestQueue_minute(t *testing.T) {
	t.Chdir(t.TempDir())
	c := &clock{noon.Add(59 * time.Second)}
	q := newQueue(t, testFile(), c)
	first, _ := q.requestRun(t, "5")
	q.startNext(t)
	c.advance(time.Second) // the next minute of the clock
	q.endRun(t, first)
	for after, want := range map[time.Duration]bool{2 * time.Second: true, 59 * time.Second: true, 60 * time.Second: false} {
		if r := q.all()[0]; r.repeatedBy(request{Dataset: "d", Settings: map[string]string{"limit": "5"}, Signed: noon.Add(59*time.Second + after)}) != want {
			t.Errorf("%s later: the same is %v", after, !want)
		}
	}
}

// TestQueue_names: two requests in one second get different names, and names can be looked up in
// Langfuse.
func TestQueue_names(t *testing.T) {
	t.Chdir(t.TempDir())
	q := newQueue(t, testFile(), &clock{noon})
	a, _ := q.requestRun(t, "1")
	b, _ := q.requestRun(t, "2")
	third, _ := q.requestRun(t, "3")
	if b != a+"-2" || third != a+"-3" {
		t.Errorf("%s, %s, %s", a, b, third)
	}
	if got := runName("x-{dataset}-{time}", "team/a,b{time}", noon); got != "x-team-a-b{time}-20261123-120000" {
		t.Error(got)
	}
}

// TestQueue_bounds: at most 5 requests wait, and at most 20 are accepted in 24 hours.
func TestQueue_bounds(t *testing.T) {
	t.Chdir(t.TempDir())
	c := &clock{noon}
	q := newQueue(t, testFile(), c)
	try := func(n int) error {
		_, _, err := q.add(request{Dataset: "d", Settings: map[string]string{"limit": fmt.Sprint(n)}, Signed: c.at}, anyRun)
		return err
	}
	checkRefused := func(err error, want string, after time.Duration) {
		t.Helper()
		var full *fullError
		if !errors.As(err, &full) || !strings.Contains(err.Error(), want) || full.retryAfter != after {
			t.Errorf("%v, want %q after %s", err, want, after)
		}
	}
	for n := range 5 {
		if err := try(n); err != nil {
			t.Fatal(err)
		}
	}
	checkRefused(try(5), "5 runs wait already", time.Minute)
	q.startNext(t) // one runs, so another may wait
	if err := try(5); err != nil {
		t.Error(err)
	}
	checkRefused(try(6), "5 runs wait already", time.Minute)
	for n := 6; n < 20; n++ {
		q.endRun(t, q.all()[len(q.all())-1-(n-6)].Run)
		q.startNext(t)
		c.advance(time.Minute)
		if err := try(n); err != nil {
			t.Fatal(n, err)
		}
	}
	// 14 minutes have passed since the first 6 requests.
	checkRefused(try(20), "20 runs were asked for in 24 hours", day-14*time.Minute)
	c.advance(day - 14*time.Minute)
	for range 5 { // make room
		q.endRun(t, q.startNext(t).Run)
	}
	if err := try(20); err != nil {
		t.Error(err)
	}
	if _, again, err := q.add(request{Dataset: "d", Settings: map[string]string{"limit": "20"}, Signed: c.at}, anyRun); err != nil || !again {
		t.Errorf("the same again is refused where another would be: %v, %v", again, err)
	}
}

// TestQueue_restart: whenever the process ends, the next one continues with the recorded requests.
func TestQueue_restart(t *testing.T) {
	t.Chdir(t.TempDir())
	c := &clock{noon}
	q := newQueue(t, testFile(), c)
	a, _ := q.requestRun(t, "1")
	b, _ := q.requestRun(t, "2")
	reopen := func() {
		t.Helper()
		if err := q.close(); err != nil {
			t.Fatal(err)
		}
		q = newQueue(t, testFile(), c)
	}
	reopen()
	if r := q.startNext(t); r.Run != a || r.Starts != 1 {
		t.Errorf("%+v", r)
	}
	reopen()
	if r := q.startNext(t); r.Run != a || r.Starts != 2 || !r.Began.Equal(noon) {
		t.Errorf("%+v", r)
	}
	q.endRun(t, a)
	reopen()
	if r := q.startNext(t); r.Run != b || r.Starts != 1 || r.Settings["limit"] != "2" {
		t.Errorf("%+v", r)
	}
	q.endRun(t, b)
	reopen()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if r, ok, err := q.next(done); ok || err != nil {
		t.Errorf("%+v, %v, %v", r, ok, err)
	}
	if r, ok, err := q.start(); ok || err != nil {
		t.Errorf("nothing waits, and there is %+v, %v, %v", r, ok, err)
	}
}

// TestQueue_notWritten: a request that cannot be recorded is not accepted.
func TestQueue_notWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	q := newQueue(t, testFile(), &clock{noon})
	q.requestRun(t, "1")
	path := q.path
	q.path = filepath.Join(settings.Folder, "none", "trigger.json")
	if _, _, err := q.add(request{Dataset: "d", Signed: noon}, anyRun); cli.ExitCode(err) != cli.ExitIO {
		t.Error(err)
	}
	if _, _, err := q.next(t.Context()); cli.ExitCode(err) != cli.ExitIO {
		t.Error(err)
	}
	if list := q.all(); len(list) != 1 || list[0].Starts != 0 {
		t.Errorf("%+v", list)
	}
	q.path = path
	no := errors.New("no")
	if _, _, err := q.add(request{Dataset: "d", Signed: noon}, func(request) error { return no }); !errors.Is(err, no) || len(q.all()) != 1 {
		t.Errorf("%v, %+v", err, q.all())
	}
	if err := q.close(); err != nil { // another process may own the file
		t.Fatal(err)
	}
	if _, _, err := q.add(request{Dataset: "d", Signed: noon}, anyRun); cli.ExitCode(err) != cli.ExitIO || len(q.all()) != 1 {
		t.Errorf("closed: %v, %+v", err, q.all())
	}
}

func TestOpenQueue_refused(t *testing.T) {
	t.Chdir(t.TempDir())
	q := newQueue(t, testFile(), &clock{noon})
	if _, err := openQueue(testFile(), time.Now); cli.ExitCode(err) != cli.ExitUnavailable || !strings.Contains(err.Error(), "another experiment serve") {
		t.Errorf("a second one: %v", err)
	}
	if err := q.close(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "[{]", `{"run":1}`, `[{"run":7}]`} {
		if err := os.WriteFile(q.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openQueue(testFile(), time.Now); cli.ExitCode(err) != cli.ExitIO || !strings.Contains(err.Error(), "trigger.json, which holds") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestQueue_kept: 200 ended requests are kept, and all of the last day.
func TestQueue_kept(t *testing.T) {
	t.Chdir(t.TempDir())
	c := &clock{noon}
	q := newQueue(t, testFile(), c)
	var list []request
	for i := range 500 {
		at := noon.Add(time.Duration(i-500) * 10 * time.Minute) // 143 of them are within the last day
		list = append(list, request{Run: fmt.Sprint(i), Dataset: "d", Asked: at, Ended: at, Starts: 1})
	}
	list[0].Ended = time.Time{}
	if err := q.replace(list); err != nil {
		t.Fatal(err)
	}
	if kept := q.all(); len(kept) != 201 || kept[0].Run != "499" || kept[199].Run != "300" || kept[200].Run != "0" {
		t.Errorf("%d are kept, from %+v to %+v", len(kept), kept[0], kept[len(kept)-1])
	}
	c.advance(-30 * time.Hour) // now 323 are within the last day or later
	if err := q.replace(list); err != nil {
		t.Fatal(err)
	}
	if kept := q.all(); len(kept) != 324 {
		t.Errorf("%d are kept", len(kept))
	}
}
