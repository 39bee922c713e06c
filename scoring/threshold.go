package scoring

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// maxDecimals is how many decimals a threshold may have; with them every
// comparison fits 128 bits.
const maxDecimals = 18

// threshold is a decimal fraction, kept as integers: floating point decides
// equality wrongly for many thresholds and lengths.
type threshold struct {
	num, den  uint64
	inclusive bool
}

// parseThreshold reads the decimal text of a number from 0 to 1.
func parseThreshold(text string) (threshold, error) {
	digits, decimals, err := decimalParts(text)
	if err != nil {
		return threshold{}, fmt.Errorf("threshold %q: %w; write a number from 0 to 1 such as 0.85", shorten(text), err)
	}
	t := threshold{den: 1}
	for range decimals {
		t.den *= 10
	}
	if len(digits) > maxDecimals+1 {
		return threshold{}, fmt.Errorf("threshold %s: is outside 0 to 1", shorten(text))
	}
	if digits != "" {
		t.num, err = strconv.ParseUint(digits, 10, 64)
	}
	if err != nil || t.num > t.den {
		return threshold{}, fmt.Errorf("threshold %s: is outside 0 to 1", shorten(text))
	}
	return t, nil
}

// decimalParts splits a decimal number into its digits, without leading
// zeros, and how many of them are decimals, without trailing zeros.
func decimalParts(text string) (string, int, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	if strings.Trim(text, "0123456789.e+-") != "" {
		return "", 0, fmt.Errorf("is not a decimal number")
	}
	mantissa, exponent, hasExponent := strings.Cut(text, "e")
	shift := 0
	if hasExponent {
		n, err := strconv.Atoi(exponent)
		if err != nil || n < -maxDecimals || n > maxDecimals {
			return "", 0, fmt.Errorf("has an exponent out of range")
		}
		shift = n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || len(digits) > 100 || strings.Trim(digits, "0123456789") != "" {
		return "", 0, fmt.Errorf("is not a decimal number")
	}
	decimals := len(fraction) - shift
	for decimals > 0 && strings.HasSuffix(digits, "0") {
		digits, decimals = digits[:len(digits)-1], decimals-1
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "", 0, nil
	}
	if decimals > maxDecimals {
		return "", 0, fmt.Errorf("has more than %d decimals", maxDecimals)
	}
	for ; decimals < 0; decimals++ {
		digits += "0"
	}
	return digits, decimals, nil
}

// String returns the shortest decimal text of the threshold.
func (t threshold) String() string {
	if t.num == t.den {
		return "1"
	}
	if t.num == 0 {
		return "0"
	}
	decimals := len(strconv.FormatUint(t.den, 10)) - 1
	return "0." + fmt.Sprintf("%0*d", decimals, t.num)
}

// maxDistance returns the largest edit distance d at which two names, the
// longer of which has m code points, are similar enough: (m-d)/m > threshold,
// or >= where it is inclusive. It is -1 where no distance is.
func (t threshold) maxDistance(m int) int {
	// (m-d)·den > num·m  ⇔  d < m·(den-num)/den. The quotient is at most m,
	// so that the 128-bit division cannot overflow.
	hi, lo := bits.Mul64(uint64(m), t.den-t.num)
	quotient, rest := bits.Div64(hi, lo, t.den)
	if !t.inclusive && rest == 0 {
		return int(quotient) - 1
	}
	return int(quotient)
}

// shorten cuts text that goes into a message.
func shorten(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
