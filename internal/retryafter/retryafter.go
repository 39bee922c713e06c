// Package retryafter reads how long a server asks to wait before the next request.
package retryafter

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longest is the longest pause that is believed.
const longest = 24 * time.Hour

// Of reads it from the header of an answer: retry-after-ms (milliseconds, of OpenAI
// and Azure) before Retry-After (seconds or an HTTP date, which counts from the Date
// of the answer; without one, from now). The result is in [0, 24 h]; 0 if nothing was
// asked, it cannot be read or lies in the past.
func Of(header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(header.Get("Retry-After-Ms")), 64); err == nil && ms > 0 {
		return Seconds(ms / 1000)
	}
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return Seconds(seconds)
	}
	if at, err := http.ParseTime(value); err == nil {
		if date, err := http.ParseTime(header.Get("Date")); err == nil {
			now = date
		}
		return Seconds(at.Sub(now).Seconds())
	}
	return 0
}

// Seconds turns a number from outside into a duration in [0, 24 h].
func Seconds(seconds float64) time.Duration {
	if math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
}
