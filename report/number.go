package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/internal/printable"
)

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
func plainWords(s string) string { return strings.ReplaceAll(printable.Line(s), "_", " ") }

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
