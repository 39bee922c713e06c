package limit

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HTTPClient returns a copy of a client that follows no redirect: one would lose the
// body of a request, or its keys, or lead to a place that nobody named. Nil is a
// client with Go's default transport that keeps as many connections open as were used at
// once: whoever calls bounds those, and a new one costs a handshake.
func HTTPClient(given *http.Client) *http.Client {
	var client http.Client
	if given != nil {
		client = *given
	} else if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		transport := standard.Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, math.MaxInt
		transport.WriteBufferSize = 8 << 10 // most requests in one write
		client.Transport = transport
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// IsHTML reports whether an answer is a web page.
func IsHTML(header http.Header, body []byte) bool {
	if strings.Contains(strings.ToLower(header.Get("Content-Type")), "text/html") {
		return true
	}
	body = bytes.TrimSpace(body)
	start := bytes.ToLower(body[:min(len(body), 256)])
	return bytes.HasPrefix(start, []byte("<!doctype")) || bytes.HasPrefix(start, []byte("<html"))
}

// longestPause is the longest pause that is believed.
const longestPause = 24 * time.Hour

// RetryAfter reads from the header of an answer how long a server asks to wait
// before the next request: retry-after-ms (milliseconds, of OpenAI
// and Azure) before Retry-After (seconds or an HTTP date, which counts from the Date
// of the answer; without one, from now). The result is in [0, 24 h]; 0 if nothing was
// asked, it cannot be read or lies in the past.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(header.Get("Retry-After-Ms")), 64); err == nil && ms > 0 {
		return Pause(ms / 1000)
	}
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return Pause(seconds)
	}
	if at, err := http.ParseTime(value); err == nil {
		if date, err := http.ParseTime(header.Get("Date")); err == nil {
			now = date
		}
		return Pause(at.Sub(now).Seconds())
	}
	return 0
}

// Passing reports whether a status of HTTP may be gone when the request is repeated.
func Passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}

// Pause turns a number of seconds from outside into a duration in [0, 24 h].
func Pause(seconds float64) time.Duration {
	if math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, longestPause.Seconds()) * float64(time.Second))
}
