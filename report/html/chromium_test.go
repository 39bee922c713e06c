package html

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"extraction-experiment/report"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser is a headless Chromium with one page open, and what it complained of.
type browser struct {
	context.Context
	t    *testing.T
	file string

	listeners sync.WaitGroup
	mu        sync.Mutex
	requests  []string // all but that of the page itself
	refused   int      // of them, by the policy of the page
	problems  []string // exceptions, and what the policy refused
}

// chromium starts the browser that the tests of t share. Without one they are
// skipped, unless EXPERIMENT_BROWSER=required.
func chromium(t *testing.T) context.Context {
	t.Helper()
	path, err := findBrowser()
	if err != nil {
		if os.Getenv("EXPERIMENT_BROWSER") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancelTime := context.WithTimeout(context.Background(), 4*time.Minute)
	ctx, cancelBrowser := chromedp.NewExecAllocator(ctx, options...)
	ctx, cancelPage := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		cancelPage()
		cancelBrowser()
		cancelTime()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// open writes a page to a file and opens it in a tab of its own.
func open(t *testing.T, chromium context.Context, runs []report.Run, cfg Config) *browser {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page(t, runs, cfg)), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, file: "file://" + file}
	ctx, cancel := chromedp.NewContext(chromium)
	t.Cleanup(func() {
		cancel()
		b.listeners.Wait()
	})
	b.Context = ctx
	send(b, network.Enable, network.EnableParams{})
	send(b, log.Enable, cdp.Empty{})
	send(b, runtime.Enable, cdp.Empty{})
	hear(b, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		if url := e.Request.URL; !strings.HasPrefix(url, b.file) {
			b.requests = append(b.requests, url)
		}
	})
	hear(b, network.LoadingFailed, func(e network.EventLoadingFailed) {
		if string(e.BlockedReason) == "csp" {
			b.refused++
		}
	})
	hear(b, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		b.problems = append(b.problems, "exception: "+e.ExceptionDetails.Text)
	})
	hear(b, log.EntryAdded, func(e log.EventEntryAdded) {
		b.problems = append(b.problems, string(e.Entry.Level)+": "+e.Entry.Text)
	})
	b.run(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(b.file))
	return b
}

func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium was found in the PATH")
}

// hear calls f for every event until the test ends.
func hear[E any](b *browser, event cdp.Event[E], f func(E)) {
	events := chromedp.Events(b, event)
	b.listeners.Go(func() {
		for e, err := range events {
			if err != nil {
				return // the context ends with the test
			}
			b.mu.Lock()
			f(e)
			b.mu.Unlock()
		}
	})
}

// send sends a command of the protocol.
func send[P, R any](b *browser, command cdp.Command[P, R], parameters P) {
	b.t.Helper()
	b.run(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, parameters)
		return err
	}))
}

// run carries out actions.
func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// value evaluates an expression of the page.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatal(expression, err)
	}
	return v
}

// want checks an expression of the page, which may need a moment to hold.
func want[T comparable](b *browser, expression string, expected T) {
	b.t.Helper()
	var got T
	for range 100 {
		if got = value[T](b, expression); got == expected {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.t.Errorf("%s\n is %.300v\nwant %v", expression, got, expected)
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.run(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

func (b *browser) write(selector, text string) {
	b.t.Helper()
	b.run(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// choose picks an option as a person does: the page hears of the change.
func (b *browser) choose(selector, option string) {
	b.t.Helper()
	value[bool](b, `(() => { const s = document.querySelector("`+selector+`"); s.value = "`+option+`"; return s.dispatchEvent(new Event("change")); })()`)
}

// press strikes keys as a keyboard does: what a key writes comes with its being
// pressed, so that a page that takes the key keeps it from being written.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		for _, r := range key {
			b.strike(kb.Encode(r))
		}
	}
}

func (b *browser) strike(events []*input.DispatchKeyEventParams) {
	b.t.Helper()
	down, up := *events[0], *events[len(events)-1]
	if len(events) == 3 {
		down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
	}
	send(b, input.DispatchKeyEvent, down)
	send(b, input.DispatchKeyEvent, up)
}

func (b *browser) dark() {
	b.t.Helper()
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
}

// quiet fails the test for anything that left the page, ran where it should
// not, or broke.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) > 0 {
		b.t.Errorf("requests left the page: %q", b.requests)
	}
	if len(b.problems) > 0 {
		b.t.Errorf("the browser complained: %q", b.problems)
	}
}
