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

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Options says how a report is laid out. The zero value is usable.
type Options struct {
	// Width is that of the terminal in cells; 0 is 80, less than 50 is 50.
	Width int
	// Whole is for what is no terminal, as a pipe: tables are as wide as they
	// need, no column is left out and no name is cut. Text is wrapped as ever.
	Whole bool
	// Color allows colours. The caller decides, by the terminal and NO_COLOR.
	Color bool
	// Where are lines that say where to look further, links or commands. They
	// are printed whole, however long, so that they can be copied.
	Where []string
	// Groups is how many rows a breakdown has at most; 0 is 15, negative all.
	Groups int
	// Document is how many characters of a document are shown; 0 is 2,000,
	// negative all.
	Document int
}

func (o Options) filled() Options {
	o.Width = max(50, cmp.Or(o.Width, 80))
	o.Groups, o.Document = cmp.Or(o.Groups, 15), cmp.Or(o.Document, 2000)
	return o
}

// Run is a whole run as the reports take it: what it comes to, and its items.
type Run struct {
	Summary outcome.Summary
	// Items yields the newest attempt of every item, ordered by item id and
	// trial. A report holds one at a time, reads them at most once, and stops
	// at the first error.
	Items iter.Seq2[ItemView, error]
}

// message says why an item failed; "" if it did not.
func (v ItemView) message() string {
	if v.Outcome.Failure != nil {
		return v.Outcome.Failure.Message
	}
	if v.Outcome.Failed() {
		if s, ok := outcome.Lookup(v.Outcome.Scores, outcome.ErrorScore); ok {
			return s.Comment
		}
	}
	return ""
}

// none stands where there is no number.
const none = "–"

// score shows a ratio with so many decimals, rounded to the nearest; with more of
// them where it would read as a whole number and is none by more than 1e-9: what is
// not perfect must not look so, nor must an end of an interval that is not 0.
func score(v *float64, decimals int) string {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return none
	}
	x, whole := *v, math.Round(*v)
	switch {
	case math.Abs(x) >= 1e4:
		return strconv.FormatFloat(x, 'g', 4, 64)
	case math.Abs(x-whole) <= 1e-9:
		return strconv.FormatFloat(whole+0, 'f', decimals, 64) // no "-0.000"
	}
	text := strconv.FormatFloat(x, 'f', decimals, 64)
	for ; text == strconv.FormatFloat(whole, 'f', decimals, 64); text = strconv.FormatFloat(x, 'f', decimals, 64) {
		decimals++
	}
	return text
}

func ratio(v float64) string { return score(&v, 3) }

// count shows an integer with its thousands apart: 12,345.
func count[T int | int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// counted is a number with its noun: "1 item", "3 items".
func counted[T int | int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// plainWords shows a name of the program as words.
func plainWords(s string) string { return strings.ReplaceAll(textutil.Line(s), "_", " ") }

// milliseconds shows a duration in the unit that suits its size.
func milliseconds(ms float64) string {
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

func duration(d time.Duration) string { return milliseconds(float64(d) / float64(time.Millisecond)) }

// dollars shows money with two decimals, small amounts with as many as two
// digits need.
func dollars(v float64) string {
	switch {
	case v == 0 || math.Abs(v) >= 0.995:
		return fmt.Sprintf("$%.2f", v)
	default:
		decimals := 1 - int(math.Floor(math.Log10(math.Abs(v))))
		return fmt.Sprintf("$%.*f", min(max(2, decimals), 12), v)
	}
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

// delta shows a difference with its sign; what is not 0 never looks so.
func delta(v *float64) string {
	text := score(v, 3)
	if v != nil && *v > 0 && strings.ContainsAny(text, "123456789") {
		return "+" + text
	}
	return text
}

// deltas shows both ends of an interval of a difference.
func deltas(ci *[2]float64) string {
	if ci == nil {
		return none
	}
	return delta(&ci[0]) + " to " + delta(&ci[1])
}

// pValue shows a p-value; below 0.001 only that.
func pValue(p *float64) string {
	switch {
	case p == nil:
		return none
	case *p < 0.001:
		return "<0.001"
	}
	return score(p, 3)
}

// FormatScore shows a ratio with so many decimals; what is not perfect never
// looks so. Nil, NaN and infinity are a dash.
func FormatScore(v *float64, decimals int) string { return score(v, decimals) }

// FormatInterval shows both ends of an interval, "0.412–0.508"; nil is a dash.
func FormatInterval(ci *[2]float64) string { return interval(ci) }

// FormatDelta shows a difference of scores with its sign; what is not 0 never
// looks so. Nil is a dash.
func FormatDelta(v *float64) string { return delta(v) }

// FormatDeltas shows both ends of an interval of a difference; nil is a dash.
func FormatDeltas(ci *[2]float64) string { return deltas(ci) }

// FormatCount shows an integer with its thousands apart.
func FormatCount[T int | int64](n T) string { return count(n) }

// FormatCounted is a number with its noun: "1 item", "3,000 items".
func FormatCounted(n int, noun string) string { return counted(n, noun) }

// FormatWords shows a name of the program as words: "wrong type" for wrong_type.
func FormatWords(name string) string { return plainWords(name) }

// FormatMilliseconds shows a duration in the unit that suits its size.
func FormatMilliseconds(ms float64) string { return milliseconds(ms) }

// WebLink returns an address that a browser may be sent to: http or https with
// a host; ok is false for anything else.
func WebLink(raw string) (link string, ok bool) { return webLink(raw) }
