package compare

import (
	"fmt"
	"strconv"
	"strings"
)

// decimal writes a number for a reason, with at most six significant digits.
func decimal(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// signed writes a difference with its sign.
func signed(v float64) string {
	text := strconv.FormatFloat(v, 'f', 4, 64)
	if strings.Trim(text, "-0.") == "" {
		if v == 0 {
			return "0"
		}
		text = strconv.FormatFloat(v, 'g', 2, 64)
	}
	if v > 0 {
		text = "+" + text
	}
	return text
}

// list joins the first of total words.
func list(shown []string, total int) string {
	text := strings.Join(shown, ", ")
	if more := total - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
