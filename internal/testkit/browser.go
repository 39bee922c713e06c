// Package testkit is for tests only. It runs the txtar scripts of the commands, and
// drives a headless Chromium: it opens a page, uses it as a person does, and knows what
// the page asked for and complained of.
//
//	b := testkit.OpenPage(t, testkit.StartBrowser(t), "file:///page.html", "file:///page.html")
//	b.Click("nav a")
//	testkit.WantOnPage(b, `document.title`, "A page")
//	b.Quiet()
package testkit

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Browser is a headless Chromium with one page open, and what it complained of.
type Browser struct {
	context.Context
	T   *testing.T
	own string

	listeners sync.WaitGroup
	mu        sync.Mutex
	requests  []string // all but that of the page itself
	refused   int      // of them, by the policy of the page
	problems  []string // exceptions, and what the policy refused
}

// Chromium is a browser with its tabs. A tab costs far more than a page, so that one
// whose test has ended is there for the next test.
type Chromium struct {
	context.Context
	free chan context.Context // tabs
}

// StartBrowser starts the browser that the tests of t share. Without one they are
// skipped, unless EXPERIMENT_BROWSER=required.
func StartBrowser(t *testing.T) *Chromium {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancelTime := context.WithTimeout(context.Background(), 4*time.Minute)
	ctx, cancelBrowser := chromedp.NewExecAllocator(ctx, options...)
	ctx, cancelPage := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		cancelPage()
		cancelBrowser()
		cancelTime()
	})
	if err := chromedp.Do(ctx); errors.Is(err, exec.ErrNotFound) && os.Getenv("EXPERIMENT_BROWSER") != "required" {
		t.Skip(err)
	}
	c := &Chromium{ctx, make(chan context.Context, 100)}
	c.free <- reported(t, ctx)
	return c
}

// reported opens a tab that tells what its page asks for and complains of.
func reported(t *testing.T, ctx context.Context) context.Context {
	b := &Browser{T: t, Context: ctx}
	b.Run()
	send(b, network.Enable, network.EnableParams{})
	send(b, log.Enable, cdp.Empty{})
	send(b, runtime.Enable, cdp.Empty{})
	return ctx
}

// tab returns a tab that no test uses, or a new one, which is given back when the
// test has ended.
func (c *Chromium) tab(t *testing.T) (tab context.Context) {
	select {
	case tab = <-c.free:
	default:
		ctx, _ := chromedp.NewContext(c.Context) // ends with the browser
		tab = reported(t, ctx)
	}
	t.Cleanup(func() { c.free <- tab })
	return tab
}

// OpenPage opens an address in a tab of its own, as wide as a desk's and in light colours.
// Own is how the addresses begin that the page may ask for; everything else counts as
// having left it.
func OpenPage(t *testing.T, chromium *Chromium, address, own string) *Browser {
	t.Helper()
	b := &Browser{T: t, own: own}
	ctx, cancel := context.WithCancel(chromium.tab(t))
	t.Cleanup(func() {
		cancel()
		b.listeners.Wait()
	})
	b.Context = ctx
	b.colours("light")
	hear(b, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		if url := e.Request.URL; !strings.HasPrefix(url, b.own) {
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
	b.Run(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(address))
	return b
}

// hear calls f for every event until the test ends.
func hear[E any](b *Browser, event cdp.Event[E], f func(E)) {
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
func send[P, R any](b *Browser, command cdp.Command[P, R], parameters P) {
	b.T.Helper()
	b.Run(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, parameters)
		return err
	}))
}

// Run carries out actions.
func (b *Browser) Run(actions ...chromedp.Action[chromedp.Void]) {
	b.T.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.T.Fatal(err)
	}
}

// PageValue evaluates an expression of the page.
func PageValue[T any](b *Browser, expression string) T {
	b.T.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	if err != nil {
		b.T.Fatal(expression, err)
	}
	return v
}

// WantOnPage checks an expression of the page, which may need a moment to hold: while
// another page is being loaded it may not even be defined.
func WantOnPage[T comparable](b *Browser, expression string, expected T) {
	b.T.Helper()
	var got T
	var err error
	for range 500 {
		if got, err = chromedp.Run(b, chromedp.Evaluate[T](expression)); err == nil && got == expected {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.T.Errorf("%s\n is %.300v %v\nwant %v", expression, got, err, expected)
}

// Click clicks on an element, once it can be seen.
func (b *Browser) Click(selector string) {
	b.T.Helper()
	b.Run(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// Write types into an element.
func (b *Browser) Write(selector, text string) {
	b.T.Helper()
	b.Run(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Choose picks an option as a person does: the page hears of the change.
func (b *Browser) Choose(selector, option string) {
	b.T.Helper()
	PageValue[bool](b, `(() => { const s = document.querySelector("`+selector+`"); s.value = "`+option+`"; return s.dispatchEvent(new Event("change")); })()`)
}

// Press strikes keys as a keyboard does: what a key writes comes with its being
// pressed, so that a page that takes the key keeps it from being written.
func (b *Browser) Press(keys ...string) {
	b.T.Helper()
	for _, key := range keys {
		for _, r := range key {
			b.strike(kb.Encode(r))
		}
	}
}

func (b *Browser) strike(events []*input.DispatchKeyEventParams) {
	b.T.Helper()
	down, up := *events[0], *events[len(events)-1]
	if len(events) == 3 {
		down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
	}
	send(b, input.DispatchKeyEvent, down)
	send(b, input.DispatchKeyEvent, up)
}

// Dark asks for dark colours.
func (b *Browser) Dark() { b.colours("dark") }

func (b *Browser) colours(scheme string) {
	b.T.Helper()
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// Quiet fails the test for anything that left the page, ran where it should
// not, or broke.
func (b *Browser) Quiet() {
	b.T.Helper()
	if requests, _, problems := b.Complaints(); len(requests)+len(problems) > 0 {
		b.T.Errorf("requests left the page: %q\nthe browser complained: %q", requests, problems)
	}
}

// Complaints are the requests that left the page, how many of them its policy
// refused, and what the browser complained of.
func (b *Browser) Complaints() (requests []string, refused int, problems []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests), b.refused, slices.Clone(b.problems)
}

// Viewport makes the page that wide and high.
func (b *Browser) Viewport(width, height int64) {
	b.T.Helper()
	b.Run(chromedp.EmulateViewport(width, height))
}
