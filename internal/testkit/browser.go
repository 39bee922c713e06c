// Package testkit is for tests only. It runs the txtar scripts of the commands, and drives a
// headless Chromium: it opens pages, uses them like a person, and records their requests and
// problems.
//
//	b := testkit.OpenPage(t, testkit.StartBrowser(t), "file:///page.html", "file:///page.html")
//	b.Click("nav a")
//	testkit.WantOnPage(b, `document.title`, "A page")
//	b.WantNoComplaints()
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

// Browser is a tab of a headless Chromium with one page, and records the requests and problems
// of the page. Its actions end the test if they fail.
type Browser struct {
	context.Context
	T         *testing.T
	ownPrefix string

	listeners sync.WaitGroup
	mu        sync.Mutex
	requests  []string // addresses that do not begin with ownPrefix
	refused   int      // requests refused by the policy of the page
	problems  []string // exceptions and log messages, including those about refused requests
}

// StartBrowser starts a browser that the subtests of t share. If there is none, it skips t, or
// fails with EXPERIMENT_BROWSER=required. The browser ends with t, at the latest after 4
// minutes.
func StartBrowser(t *testing.T) context.Context {
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
	return ctx
}

// OpenPage opens an address in its own tab, with the width of a desktop and light colours.
// Requests to addresses that do not begin with own count as leaving the page. The tab is closed
// when the test ends.
func OpenPage(t *testing.T, chromium context.Context, address, own string) *Browser {
	t.Helper()
	b := &Browser{T: t, ownPrefix: own}
	ctx, cancel := chromedp.NewContext(chromium)
	t.Cleanup(func() {
		cancel()
		b.listeners.Wait()
	})
	b.Context = ctx
	b.Run()
	send(b, network.Enable, network.EnableParams{})
	send(b, log.Enable, cdp.Empty{})
	send(b, runtime.Enable, cdp.Empty{})
	b.setColours("light")
	listen(b, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		if url := e.Request.URL; !strings.HasPrefix(url, b.ownPrefix) {
			b.requests = append(b.requests, url)
		}
	})
	listen(b, network.LoadingFailed, func(e network.EventLoadingFailed) {
		if string(e.BlockedReason) == "csp" {
			b.refused++
		}
	})
	listen(b, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		b.problems = append(b.problems, "exception: "+e.ExceptionDetails.Text)
	})
	listen(b, log.EntryAdded, func(e log.EventEntryAdded) {
		b.problems = append(b.problems, string(e.Entry.Level)+": "+e.Entry.Text)
	})
	b.Run(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(address))
	return b
}

// listen calls f for every event until the test ends, with b.mu locked.
func listen[E any](b *Browser, event cdp.Event[E], f func(E)) {
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

// send calls a command of the DevTools protocol.
func send[P, R any](b *Browser, command cdp.Command[P, R], parameters P) {
	b.T.Helper()
	b.Run(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, parameters)
		return err
	}))
}

// Run executes actions.
func (b *Browser) Run(actions ...chromedp.Action[chromedp.Void]) {
	b.T.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.T.Fatal(err)
	}
}

// PageValue evaluates an expression on the page.
func PageValue[T any](b *Browser, expression string) T {
	b.T.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	if err != nil {
		b.T.Fatal(expression, err)
	}
	return v
}

// WantOnPage waits up to 10 seconds for an expression on the page to have the expected value.
// Errors are ignored until then, because a page that is loading may not define the expression.
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

// Click clicks on an element when it is visible.
func (b *Browser) Click(selector string) {
	b.T.Helper()
	b.Run(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// Type types into an element.
func (b *Browser) Type(selector, text string) {
	b.T.Helper()
	b.Run(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Choose selects an option and sends the change event.
func (b *Browser) Choose(selector, option string) {
	b.T.Helper()
	PageValue[bool](b, `(() => { const s = document.querySelector("`+selector+`"); s.value = "`+option+`"; return s.dispatchEvent(new Event("change")); })()`)
}

// Press presses keys like a keyboard: the text of a key is part of its key-down event, so that a
// page that handles the key prevents the text.
func (b *Browser) Press(keys ...string) {
	b.T.Helper()
	for _, r := range strings.Join(keys, "") {
		events := kb.Encode(r)
		down, up := *events[0], *events[len(events)-1]
		if len(events) == 3 {
			down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
		}
		send(b, input.DispatchKeyEvent, down)
		send(b, input.DispatchKeyEvent, up)
	}
}

// Dark emulates a preference for dark colours.
func (b *Browser) Dark() { b.setColours("dark") }

func (b *Browser) setColours(scheme string) {
	b.T.Helper()
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// WantNoComplaints fails the test if a request left the page or the browser reported a problem.
func (b *Browser) WantNoComplaints() {
	b.T.Helper()
	if requests, _, problems := b.Complaints(); len(requests)+len(problems) > 0 {
		b.T.Errorf("requests left the page: %q\nthe browser complained: %q", requests, problems)
	}
}

// Complaints returns the requests that left the page, how many requests its policy refused, and
// the reported problems.
func (b *Browser) Complaints() (requests []string, refused int, problems []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests), b.refused, slices.Clone(b.problems)
}

// Viewport sets the size of the page in pixels.
func (b *Browser) Viewport(width, height int64) {
	b.T.Helper()
	b.Run(chromedp.EmulateViewport(width, height))
}
