// Package report formats results for people and programs: the summary of a run, its items with
// matches and near misses, comparisons, lists of runs. It opens no run and computes no score,
// and it is the only place that rounds numbers. A function that takes a writer writes once and
// returns the error of the writer, and text for a terminal fits Options.Width, with a note of the
// columns that were dropped for that; what differs says so.
//
// Names, messages, documents and model output are untrusted. Control characters, terminal
// escapes and invisible direction marks in them are shown as \x1b, \u202e and so on, and never
// reach the terminal. In Markdown they are in code spans, and cannot form links, mentions, tags or
// cells.
//
//	err := report.Text(os.Stdout, summary, report.Options{Width: 100, Color: true})
package report

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Options configure the layout of a report. The zero value is usable.
type Options struct {
	// Width is the width of the terminal in cells; 0 means 80, and the minimum is 40.
	Width int
	// Whole is for a pipe or a file: tables are as wide as necessary, without dropped columns or
	// cut names. Text is wrapped all the same.
	Whole bool
	// Color allows colours. The caller decides, by terminal and NO_COLOR.
	Color bool
	// Where holds links and commands that lead further. They are printed whole, to be copied.
	Where []string
	// Document is the number of characters of a document to show; 0 means 2,000, negative all.
	Document int
	// Ceiling is the human agreement to show beside the scores of a run; may be nil.
	Ceiling *Agreement
}

// Run is a run to report: its summary and its items.
type Run struct {
	Summary outcome.Summary
	// Items yields the newest attempt of every item, ordered by item id and trial. A report
	// reads them at most once, holds one at a time, and stops at the first error.
	Items iter.Seq2[*ItemView, error]
	// Ceiling is the human agreement about the same items; nil if unknown.
	Ceiling *Agreement
}

// message returns why an item failed; empty if it did not.
func (v *ItemView) message() string {
	if v.Outcome.Failure != nil {
		return v.Outcome.Failure.Message
	}
	s, _ := outcome.Lookup(v.Outcome.Scores, outcome.ErrorScore)
	return textIf(v.Outcome.Failed(), s.Comment)
}

// textIf returns text if cond holds, else "".
func textIf(cond bool, text string) string {
	if cond {
		return text
	}
	return ""
}

// orNone formats *v, or returns none if v is nil.
func orNone[T any](v *T, show func(T) string) string {
	if v == nil {
		return none
	}
	return show(*v)
}

// none is shown in place of a missing number.
const none = "–"

// Score formats a ratio, rounded to the given decimals. If that would round a value to a whole
// number from which it differs by more than 1e-9, it adds decimals: 0.9999 is not shown as 1. From
// 10,000 on it has none.
func Score(v *float64, decimals int) string {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return none
	}
	x, whole := *v, math.Round(*v)
	switch {
	case math.Abs(x) >= 1e9:
		return strconv.FormatFloat(x, 'g', 4, 64)
	case math.Abs(x) >= 1e4:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case math.Abs(x-whole) <= 1e-9:
		return strconv.FormatFloat(whole+0, 'f', decimals, 64) // avoids "-0.000"
	}
	for ; ; decimals++ {
		if text := strconv.FormatFloat(x, 'f', decimals, 64); text != strconv.FormatFloat(whole, 'f', decimals, 64) {
			return text
		}
	}
}

func ratio(v float64) string { return Score(&v, 3) }

// Count formats an integer with thousands separators: 12,345.
func Count[T int | int64](n T) string { return textutil.Countf("%d", n) }

// Words returns an identifier as words.
func Words(s string) string { return strings.ReplaceAll(textutil.Line(s), "_", " ") }

// Milliseconds formats a duration in a suitable unit.
func Milliseconds(ms float64) string {
	switch {
	case ms < 0.9995:
		return fmt.Sprintf("%.0f µs", ms*1000)
	case ms < 9.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 99_950:
		return fmt.Sprintf("%.1f s", ms/1000)
	default:
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Second).String()
	}
}

func duration(d time.Duration) string { return Milliseconds(float64(d) / float64(time.Millisecond)) }

// Dollars formats an amount with two decimals, or enough for two significant digits.
func Dollars(v float64) string {
	decimals := 2
	if v != 0 {
		decimals = min(max(2, 1-int(math.Floor(math.Log10(math.Abs(v))))), 12)
	}
	return fmt.Sprintf("$%.*f", decimals, v)
}

// bar draws v in [0,1] as a bar of width cells, in steps of an eighth of a cell. Values outside
// are clamped.
func bar(v *float64, width int) string {
	if v == nil || math.IsNaN(*v) {
		return strings.Repeat(" ", width)
	}
	eighths := int(math.Round(min(1, max(0, *v)) * float64(width) * 8))
	line := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		line += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return line + strings.Repeat(" ", width-(eighths+7)/8)
}

// Delta formats a difference with its sign. Only 0 is shown as zero.
func Delta(v *float64) string {
	text := Score(v, 3)
	if v != nil && *v > 0 && strings.ContainsAny(text, "123456789") {
		return "+" + text
	}
	return text
}

// difference formats after - before.
func difference(before, after *float64) string {
	if before == nil || after == nil {
		return none
	}
	return Delta(new(*after - *before))
}

// Deltas formats an interval of a difference.
func Deltas(ci *[2]float64) string {
	return orNone(ci, func(ci [2]float64) string { return Delta(&ci[0]) + " to " + Delta(&ci[1]) })
}

// pValue formats a p-value; below 0.001 as "<0.001". One above 0.05, which claims nothing, is not
// rounded to it.
func pValue(p *float64) string {
	if p != nil && *p < 0.001 {
		return "<0.001"
	}
	decimals := 3
	for p != nil && *p > 0.05 && strings.TrimRight(Score(p, decimals), "0") == "0.05" {
		decimals++
	}
	return Score(p, decimals)
}
