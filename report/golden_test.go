package report

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"extraction-experiment/internal/textutil"

	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMain fixes the width of the characters that terminals of East Asian locales draw twice as
// wide, because the golden files are those of other locales.
func TestMain(m *testing.M) {
	text.OverrideRuneWidthEastAsianWidth(false)
	flag.Parse()
	os.Exit(m.Run())
}

// golden compares got with a file, which must exist.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", path, diff)
	}
}

// marks removes the isolates, which take no space.
var marks = strings.NewReplacer("\u2068", "", "\u2069", "")

// checkLayout checks what holds for every page: lines fit the width, no line ends in a space, and
// the only control sequences are our own colours and isolates.
func checkLayout(t interface{ Errorf(string, ...any) }, page string, opt Options) {
	free := map[string]bool{}
	for _, line := range opt.Where {
		free["  "+textutil.Line(line)] = true
	}
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if width := text.StringWidthWithoutEscSequences(marks.Replace(line)); width > newPage(opt).Width && !free[line] {
			t.Errorf("%d cells wide: %q", width, line)
		}
		if !opt.Color && line != strings.TrimRight(line, " ") {
			t.Errorf("ends in a space: %q", line)
		}
		for _, code := range []string{"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"} {
			if opt.Color {
				line = strings.ReplaceAll(line, code, "")
			}
		}
		opened := 0
		for _, r := range line {
			switch {
			case r == '\u2068':
				opened++
			case r == '\u2069':
				opened--
			case unicode.IsControl(r), textutil.ControlsTerminal(r):
				t.Errorf("%U in %q", r, line)
			}
		}
		if opened != 0 {
			t.Errorf("isolates are not closed: %q", line)
		}
	}
}

// brokenWriter fails every write.
type brokenWriter struct{}

var errFull = errors.New("no space left")

func (brokenWriter) Write([]byte) (int, error) { return 0, errFull }

// printed returns what write writes.
func printed(t rapid.TB, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// goldenPage checks a page for a terminal with checkLayout and golden.
func goldenPage(t *testing.T, name string, opt Options, write func(io.Writer) error) {
	t.Helper()
	page := printed(t, write)
	checkLayout(t, page, opt)
	golden(t, name, page)
}

// wantTexts checks that page contains all texts.
func wantTexts(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("%q is missing in\n%s", text, page)
		}
	}
}
