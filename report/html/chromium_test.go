package html

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"extraction-experiment/internal/browsertest"
	"extraction-experiment/report"
)

// open opens the page of runs in a tab of its own.
func open(t *testing.T, chromium context.Context, runs []report.Run, cfg Config) *browsertest.Browser {
	t.Helper()
	return openPage(t, chromium, page(t, runs, cfg))
}

// openPage writes a page to a file and opens it in a tab of its own.
func openPage(t *testing.T, chromium context.Context, text string) *browsertest.Browser {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return browsertest.Open(t, chromium, "file://"+file, "file://"+file)
}

func value[T any](b *browsertest.Browser, expression string) T {
	b.T.Helper()
	return browsertest.Value[T](b, expression)
}

func want[T comparable](b *browsertest.Browser, expression string, expected T) {
	b.T.Helper()
	browsertest.Want(b, expression, expected)
}
