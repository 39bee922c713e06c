package dataset

import (
	"math"
	"strconv"
	"strings"
)

// maxExponent bounds the exponents that are told apart: beyond it numbers are
// absurd.
const maxExponent = 1_000_000_000_000

// canonicalNumber writes a JSON number in one form per value, in the style of
// JavaScript (1.0, 1 and 10e-1 are 1; 1e21 is 1e+21).
//
// An integer keeps its exact digits. Any other number is the shortest decimal
// that is the same float64; a number too small or too large for a float64
// keeps its exact digits too.
func canonicalNumber(literal string) string {
	neg, digits, exp := decimal(literal)
	if digits == "" {
		return "0"
	}
	if exp < 0 {
		f, err := strconv.ParseFloat(literal, 64)
		if err == nil && f != 0 && !math.IsInf(f, 0) {
			neg, digits, exp = decimal(strconv.FormatFloat(f, 'e', -1, 64))
		}
	}
	text := javaScript(digits, exp)
	if neg {
		return "-" + text
	}
	return text
}

// decimal takes a number apart into digits × 10^exp without zeros at either
// end of the digits; the digits of 0 are empty.
func decimal(literal string) (neg bool, digits string, exp int64) {
	literal, neg = strings.CutPrefix(literal, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(literal), "e")
	if power != "" {
		exp = parseExponent(power)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exp -= int64(len(fraction))
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exp += int64(len(digits) - len(trimmed))
	first := exp + int64(len(trimmed)) - 1 // power of the first digit
	exp += min(max(first, -maxExponent), maxExponent) - first
	return neg, trimmed, exp
}

// parseExponent reads an exponent of any length, kept small enough that adding
// the length of the digits cannot overflow.
func parseExponent(text string) int64 {
	const bound = 1 << 60
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && strings.HasPrefix(text, "-") {
		n = -bound
	} else if err != nil {
		n = bound
	}
	return min(max(n, -bound), bound)
}

// javaScript lays out digits × 10^exp as Number::toString does: plain from
// 1e-6 to 1e21, with an exponent elsewhere.
func javaScript(digits string, exp int64) string {
	n, k := int64(len(digits))+exp, int64(len(digits))
	switch {
	case k <= n && n <= 21:
		return digits + strings.Repeat("0", int(n-k))
	case 0 < n && n <= 21:
		return digits[:n] + "." + digits[n:]
	case -6 < n && n <= 0:
		return "0." + strings.Repeat("0", int(-n)) + digits
	}
	sign := "+"
	if n-1 < 0 {
		sign = "-"
	}
	power := strconv.FormatInt(max(n-1, 1-n), 10)
	if k == 1 {
		return digits + "e" + sign + power
	}
	return digits[:1] + "." + digits[1:] + "e" + sign + power
}
