package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Problems collects what is wrong with the settings. Its methods read values; one
// that cannot be read is a problem.
type Problems struct{ Found []error }

// Add notes a problem; %w works as in fmt.Errorf.
func (p *Problems) Add(format string, args ...any) {
	p.Found = append(p.Found, fmt.Errorf(format, args...))
}

// Join notes errors; nil is none.
func (p *Problems) Join(errs ...error) {
	for _, err := range errs {
		if err != nil {
			p.Found = append(p.Found, err)
		}
	}
}

// Err returns all problems as one error, or nil.
func (p *Problems) Err() error { return errors.Join(p.Found...) }

// Switch reads a switch, which the environment may write as 1 or true.
func (p *Problems) Switch(v Values, flag string) bool {
	text := v.Text(flag)
	on, err := strconv.ParseBool(text)
	if text != "" && err != nil {
		p.Add("%s: %q is neither true nor false", v[flag].From, text)
	}
	return on
}

// Count reads a whole number.
func (p *Problems) Count(flag, text string, low, high int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		p.Add("--%s: %q is not a whole number from %d to %d", flag, text, low, high)
	}
	return n
}

// Number reads a decimal; nil where there is none.
func (p *Problems) Number(flag, text string, low, high float64) *float64 {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= low && n <= high) {
		p.Add("--%s: %q is not a number from %g to %g", flag, text, low, high)
	}
	return &n
}

// Duration reads a time above 0.
func (p *Problems) Duration(flag, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		p.Add("--%s: %q is not a time such as 90s, 2m or 1m30s", flag, text)
	}
	return d
}

// Pairs reads words of the form key=value.
func (p *Problems) Pairs(flag string, words []string) map[string]string {
	pairs := map[string]string{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || strings.TrimSpace(key) == "" {
			p.Add("--%s: %q is not of the form key=value", flag, word)
			continue
		}
		if _, twice := pairs[key]; twice {
			p.Add("--%s: the key %q is given twice", flag, key)
		}
		pairs[key] = value
	}
	return pairs
}
