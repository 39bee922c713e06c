// Package report shows results to people and to programs: the summary of a
// run, one item with its matches and near misses, the list of runs. It only
// formats what it is given; it opens no run, computes no score, and is the one
// place where numbers are rounded.
//
// Names, messages, documents and model output are written by strangers.
// Control characters, terminal escapes and invisible direction marks in them
// are shown as \x1b, \u202e and so on, never sent to the terminal.
//
//	err := report.Text(os.Stdout, summary, report.Options{Width: 100, Color: true})
package report

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Options says how a report is laid out. The zero value is usable.
type Options struct {
	// Width is that of the terminal in cells; 0 is 80, less than 50 is 50.
	Width int
	// Whole is for what is not a terminal, as a pipe: tables are as wide as they
	// need, no column is left out and no name is cut. Text is wrapped as ever.
	Whole bool
	// Color allows colours. The caller decides, by the terminal and NO_COLOR.
	Color bool
	// Where are lines that say where to look further, links or commands. They
	// are printed whole, however long, so that they can be copied.
	Where []string
	// Document is how many characters of a document are shown; 0 is 2,000,
	// negative all.
	Document int
	// Ceiling is the agreement of people, shown beside the scores of a run; nil is none.
	Ceiling *Agreement
}

func (o Options) filled() Options {
	o.Width = max(50, cmp.Or(o.Width, 80))
	o.Document = cmp.Or(o.Document, 2000)
	return o
}

// Run is a whole run as the reports take it: what it comes to, and its items.
type Run struct {
	Summary outcome.Summary
	// Items yields the newest attempt of every item, ordered by item id and
	// trial. A report holds one at a time, reads them at most once, and stops
	// at the first error.
	Items iter.Seq2[ItemView, error]
	// Ceiling is the agreement of people about the same items; nil is not known.
	Ceiling *Agreement
}

// message says why an item failed; "" if it did not.
func (v ItemView) message() string {
	if v.Outcome.Failure != nil {
		return v.Outcome.Failure.Message
	}
	s, _ := outcome.Lookup(v.Outcome.Scores, outcome.ErrorScore)
	return when(v.Outcome.Failed(), s.Comment)
}

// when is a text where something holds; "" elsewhere.
func when(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

// known shows what is known; none elsewhere.
func known[T any](v *T, show func(T) string) string {
	if v == nil {
		return none
	}
	return show(*v)
}

// none is shown where there is no number.
const none = "–"

// Score shows a ratio with so many decimals, rounded to the nearest; with more of
// them where it would read as a whole number and is none by more than 1e-9: what is
// not perfect must not look so, nor must an end of an interval that is not 0.
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
		return strconv.FormatFloat(whole+0, 'f', decimals, 64) // no "-0.000"
	}
	text := strconv.FormatFloat(x, 'f', decimals, 64)
	for ; text == strconv.FormatFloat(whole, 'f', decimals, 64); text = strconv.FormatFloat(x, 'f', decimals, 64) {
		decimals++
	}
	return text
}

func ratio(v float64) string { return Score(&v, 3) }

// Count shows an integer with its thousands apart: 12,345.
func Count[T int | int64](n T) string { return message.NewPrinter(language.English).Sprint(int64(n)) }

// Counted is a number with its noun: "1 item", "3 items".
func Counted[T int | int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Words shows a name of the program as words.
func Words(s string) string { return strings.ReplaceAll(textutil.Line(s), "_", " ") }

// Milliseconds shows a duration in the unit that suits its size.
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

// Dollars shows money with two decimals, small amounts with as many as two
// digits need.
func Dollars(v float64) string {
	decimals := 2
	if v != 0 {
		decimals = min(max(2, 1-int(math.Floor(math.Log10(math.Abs(v))))), 12)
	}
	return fmt.Sprintf("$%.*f", decimals, v)
}

// bar draws v in [0,1] as a line on a scale of width cells, to an eighth of a
// cell; what lies outside is drawn as the nearer end.
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

// Delta shows a difference with its sign; what is not 0 never looks so.
func Delta(v *float64) string {
	text := Score(v, 3)
	if v != nil && *v > 0 && strings.ContainsAny(text, "123456789") {
		return "+" + text
	}
	return text
}

// difference shows by how much a number changed.
func difference(before, after *float64) string {
	if before == nil || after == nil {
		return none
	}
	return Delta(new(*after - *before))
}

// Deltas shows both ends of an interval of a difference.
func Deltas(ci *[2]float64) string {
	return known(ci, func(ci [2]float64) string { return Delta(&ci[0]) + " to " + Delta(&ci[1]) })
}

// pValue shows a p-value; below 0.001 only that.
func pValue(p *float64) string {
	if p != nil && *p < 0.001 {
		return "<0.001"
	}
	return Score(p, 3)
}
