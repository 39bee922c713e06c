package limit

import (
	"bytes"
	"net/http"
	"strings"
)

// HTTPClient returns a copy of a client that follows no redirect: one would lose the
// body of a request, or its keys, or lead to a place that nobody named. Nil is a
// client with Go's default transport that keeps so many connections open to a host.
func HTTPClient(given *http.Client, connections int) *http.Client {
	var client http.Client
	if given != nil {
		client = *given
	} else if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		transport := standard.Clone()
		transport.MaxIdleConnsPerHost = connections
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
