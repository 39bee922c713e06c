package html

import (
	"os"
	"path/filepath"
	"testing"

	"extraction-experiment/internal/testkit"
	"extraction-experiment/report"

	"github.com/chromedp/chromedp/kb"
)

// open opens the page of runs in a tab of its own.
func open(t *testing.T, chromium *testkit.Chromium, runs []report.Run, cfg Config) *testkit.Browser {
	t.Helper()
	return openPage(t, chromium, page(t, runs, cfg))
}

// openPage writes a page to a file and opens it in a tab of its own.
func openPage(t *testing.T, chromium *testkit.Chromium, text string) *testkit.Browser {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return testkit.OpenPage(t, chromium, "file://"+file, "file://"+file)
}

// through opens every item of the list in turn, from the first, with all that is
// folded; last is the place of the last one, such as "22 of 22".
func through(b *testkit.Browser, last string) {
	b.T.Helper()
	b.Press("j", kb.Enter)
	for range 60 { // a busy browser may miss a key
		if value[string](b, place_) == last {
			break
		}
		value[[]bool](b, `Array.from(document.querySelectorAll("#item details"), d => d.open = true)`)
		b.Press("j")
	}
	want(b, place_, last)
}

// unharmed: nothing that strangers wrote ran, or became an element.
func unharmed(b *testkit.Browser, scripts int) {
	b.T.Helper()
	want(b, `window.pwned === undefined`, true)
	want(b, `document.querySelectorAll("img, iframe, object, link, svg[onload]").length`, 0)
	want(b, `document.querySelectorAll("script:not([type])").length`, scripts)
}

func value[T any](b *testkit.Browser, expression string) T {
	b.T.Helper()
	return testkit.PageValue[T](b, expression)
}

func want[T comparable](b *testkit.Browser, expression string, expected T) {
	b.T.Helper()
	testkit.WantOnPage(b, expression, expected)
}
