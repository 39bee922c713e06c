package limit

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HTTPClient returns a copy of a client that does not follow redirects. A redirected request
// could lose its body or its keys, or go to an address that the user has not given. The status
// 101, Switching Protocols, is an error. For nil, HTTPClient returns a client with the default
// transport of Go that keeps as many idle connections as there were concurrent requests. Callers
// limit their number, and a new connection costs a handshake.
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
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	client.Transport = noUpgrade{client.Transport}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// noUpgrade is a transport that refuses the status 101. Its body would be the open connection,
// where reading does not end with the context of the request.
type noUpgrade struct{ http.RoundTripper }

// RoundTrip sends the request once.
func (t noUpgrade) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		return response, err
	}
	_ = response.Body.Close() // the connection is of no use
	return nil, errors.New("the server switches to another protocol, which was not asked for")
}

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (t noUpgrade) CloseIdleConnections() {
	(&http.Client{Transport: t.RoundTripper}).CloseIdleConnections()
}

// IsHTML reports whether a response is an HTML page.
func IsHTML(header http.Header, body []byte) bool {
	if strings.Contains(strings.ToLower(header.Get("Content-Type")), "text/html") {
		return true
	}
	body = bytes.TrimSpace(body)
	start := bytes.ToLower(body[:min(len(body), 256)])
	return bytes.HasPrefix(start, []byte("<!doctype")) || bytes.HasPrefix(start, []byte("<html"))
}

// longestPause is the longest pause that Pause returns.
const longestPause = 24 * time.Hour

// RetryAfter returns the pause that a response asks for: Retry-After-Ms (milliseconds, used by
// OpenAI and Azure), or otherwise Retry-After (seconds or an HTTP date, relative to the Date of
// the response, or to now without a Date). The result is in [0, 24 h]. It is 0 if there is no
// valid header or the time is in the past.
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

// Passing reports whether a request with this HTTP status may succeed if it is repeated.
func Passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}

// Pause converts seconds from an untrusted source to a duration in [0, 24 h].
func Pause(seconds float64) time.Duration {
	if math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, longestPause.Seconds()) * float64(time.Second))
}
