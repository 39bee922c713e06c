package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestScore(t *testing.T) {
	tests := []struct {
		v        *float64
		decimals int
		want     string
	}{
		{nil, 3, "–"}, {new(math.NaN()), 3, "–"}, {new(math.Inf(1)), 3, "–"},
		{new(0.0), 3, "0.000"}, {new(1.0), 3, "1.000"}, {new(0.71249), 3, "0.712"},
		{new(0.9999), 3, "0.9999"}, {new(0.9996), 2, "0.9996"}, {new(0.9994), 3, "0.999"}, // not perfect, does not look so
		{new(0.0001), 3, "0.0001"}, {new(0.00049), 3, "0.0005"}, {new(0.0006), 3, "0.001"}, // not nothing
		{new(-0.00014), 3, "-0.0001"}, {new(-0.25), 2, "-0.25"}, {new(-0.9998), 3, "-0.9998"},
		{new(-1e-17), 3, "0.000"}, {new(1 - 1e-12), 3, "1.000"}, // of rounding
		{new(123456.4), 3, "123456"}, {new(-1234567890.0), 3, "-1.235e+09"},
	}
	for _, tt := range tests {
		if got := Score(tt.v, tt.decimals); got != tt.want {
			t.Errorf("Score(%v, %d) = %q, want %q", tt.v, tt.decimals, got, tt.want)
		}
	}
}

func TestDelta(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.000", -1e-17: "0.000", 1e-17: "0.000", 0.25: "+0.250", -0.0004: "-0.0004", 0.0001: "+0.0001", -0.0016: "-0.002",
	} {
		if got := Delta(&v); got != want {
			t.Errorf("Delta(%v) = %q, want %q", v, got, want)
		}
	}
	if got := Deltas(&[2]float64{-0.0004, 0.00014}); got != "-0.0004 to +0.0001" {
		t.Error(got)
	}
}

// TestPValue: what is not significant does not read like the level.
func TestPValue(t *testing.T) {
	for p, want := range map[float64]string{
		0: "<0.001", 0.0009: "<0.001", 0.001: "0.001", 0.0496: "0.050", 0.05: "0.050", 0.0504: "0.0504", 0.05003: "0.05003", 0.0506: "0.051", 0.9999: "0.9999", 1: "1.000",
	} {
		if got := pValue(&p); got != want {
			t.Errorf("pValue(%v) = %q, want %q", p, got, want)
		}
	}
	if got := pValue(nil); got != none {
		t.Error(got)
	}
}

func TestNumbers(t *testing.T) {
	tests := map[string]string{
		Count(0): "0", Count(999): "999", Count(1000): "1,000", Count(1234567): "1,234,567", Count(-12345): "-12,345",
		Milliseconds(0.2): "200 µs", Milliseconds(1.25): "1.2 ms", Milliseconds(826.4): "826 ms",
		Milliseconds(1234): "1.2 s", Milliseconds(99_960): "1m40s", Milliseconds(3_723_000): "1h2m3s",
		Dollars(0): "$0.00", Dollars(12.345): "$12.35", Dollars(0.25): "$0.25", Dollars(0.00882): "$0.0088", Dollars(0.00042): "$0.00042",
		bar(new(0.5), 4): "██  ", bar(new(0.53), 4): "██▏ ", // 0.53·32 = 16.96 eighths
		bar(new(7.0), 2): "██", bar(new(-1.0), 2): "  ", bar(nil, 3): "   ", bar(new(0.01), 1): " ",
	}
	for got, want := range tests {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := duration(1500 * time.Microsecond); got != "1.5 ms" {
		t.Errorf("duration = %q", got)
	}
}

func TestClean(t *testing.T) {
	tests := map[string]string{
		"plain":                 "plain",
		"two\n lines\tmore  ":   "two lines more",
		"\x1b[31mred\x1b[0m":    `\x1b[31mred\x1b[0m`,
		"bell\a del\x7f":        `bell\x07 del\x7f`,
		"csi\u009b2J":           `csi\u009b2J`,
		"over\u202eride":        `over\u202eride`,
		"bad\xff\xfe":           `bad\xff\xfe`,
		"kept \ufffd":           "kept \ufffd",
		"می\u200cخواهم":         "می\u200cخواهم", // the joiner of Persian stays
		"tag\U000e0041":         `tag\U000e0041`,
		"break\u2028line":       "break line",
		"zero\u200bwidth\ufeff": `zero\u200bwidth\ufeff`,
	}
	for in, want := range tests {
		if got := textutil.Line(in); got != want {
			t.Errorf("printable.Line(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range textutil.Line(s) {
			if textutil.ControlsTerminal(r) || r == '\n' {
				t.Fatalf("%U is left of %q", r, s)
			}
		}
		if !utf8.ValidString(textutil.Block(s)) {
			t.Fatalf("%q is not UTF-8", textutil.Block(s))
		}
		if textutil.Line(textutil.Line(s)) != textutil.Line(s) {
			t.Fatalf("%q changes when cleaned again", textutil.Line(s))
		}
	})
}

func TestWrap(t *testing.T) {
	tests := map[string]struct {
		text  string
		width int
		want  []string
	}{
		"nothing":                    {"", 10, []string{""}},
		"fits":                       {"one two", 7, []string{"one two"}},
		"at a space":                 {"one two", 6, []string{"one", "two"}},
		"inside a long word":         {"abcdefgh", 5, []string{"abcde", "fgh"}},
		"own line ends":              {"a\n\nb", 5, []string{"a", "", "b"}},
		"letters of two cells":       {"一二三四", 5, []string{"一二", "三四"}},
		"indented lines stay so":     {"  a", 10, []string{"  a"}},
		"spaces at the end are gone": {"a   ", 10, []string{"a"}},
	}
	for name, tt := range tests {
		if diff := cmp.Diff(tt.want, Wrap(tt.text, tt.width)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWrap_losesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := textutil.Block(rapid.String().Draw(t, "text"))
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		lines := Wrap(text, rapid.IntRange(4, 30).Draw(t, "width"))
		if got := squeeze(strings.Join(lines, " ")); got != squeeze(text) {
			t.Fatalf("%q became %q", text, lines)
		}
	})
}

func TestJSON_golden(t *testing.T) {
	golden(t, "summary.json", printed(t, func(w io.Writer) error { return JSON(w, summary(), true) }))
}

func TestJSON_oneLine(t *testing.T) {
	got := printed(t, func(w io.Writer) error { return JSON(w, summary(), false) })
	if strings.Count(got, "\n") != 1 || got[len(got)-1] != '\n' {
		t.Errorf("%s", got)
	}
	var keys struct {
		Run map[string]any
	}
	if err := json.Unmarshal([]byte(got), &keys); err != nil {
		t.Fatal(err)
	}
	if keys.Run["name"] != "gpt-prompt-3" || keys.Run["dataset"] != "extraction-eval" || keys.Run["model"] != "gpt-4o-mini" {
		t.Errorf("run: %v", keys.Run)
	}
}

func TestJSON_comesBackTheSame(t *testing.T) {
	for name, want := range map[string]outcome.Summary{"plain": summary(), "foreign": foreignSummary()} {
		got := printed(t, func(w io.Writer) error { return JSON(w, want, true) })
		for _, r := range got {
			if r != '\n' && textutil.ControlsTerminal(r) {
				t.Errorf("%s: %U is printed", name, r)
			}
		}
		var back outcome.Summary
		if err := json.Unmarshal([]byte(got), &back); err != nil {
			t.Fatal(err)
		}
		var again outcome.Summary
		if err := json.Unmarshal([]byte(printed(t, func(w io.Writer) error { return JSON(w, back, true) })), &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(back, again); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if name == "plain" {
			if diff := cmp.Diff(want, back); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, s string) {
		var b bytes.Buffer
		if err := JSON(&b, s, false); err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(s) && back != s {
			t.Fatalf("%q came back as %q", s, back)
		}
		if strings.ContainsFunc(b.String(), isControl) {
			t.Fatalf("%q steers", b.String())
		}
	})
}

func TestJSON_whatCannotBeEncoded(t *testing.T) {
	if err := JSON(&bytes.Buffer{}, map[string]any{"x": math.NaN()}, false); err == nil {
		t.Error("NaN was encoded")
	}
}

func ExampleText() {
	s := outcome.NewSummariser(outcome.Header{Name: "demo", Dataset: outcome.Dataset{Name: "four-items"}}, outcome.SummaryConfig{})
	for i, value := range []float64{0.6, 0.7, 0.8, 0.9} {
		s.Add(outcome.Outcome{Item: fmt.Sprint(i), Scores: []outcome.Score{{Name: "entity_f1", Value: &value}}})
	}
	summary := s.Summary()
	summary.Status = outcome.Complete
	var b bytes.Buffer
	if err := Text(&b, summary, Options{Width: 80}); err != nil {
		fmt.Println(err)
	}
	fmt.Print(b.String())
	// Output:
	// demo · four-items · 4 items
	// items     4 planned · 4 scored · 0 failed · 0 with nothing to find
	//
	// Scores
	//   score                                 mean  95 % interval      range  n
	// ─────────────────────────────────────────────────────────────────────────
	//   entity_f1  ██████████████████        0.750    0.338–0.900  0.60–0.90  4
}
