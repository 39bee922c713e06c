package provider

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// askThrough sends one request through a client.
func askThrough(t *testing.T, client *http.Client, url string) error {
	t.Helper()
	model, err := newOpenAI(modelConfig{Model: "m", BaseURL: url, HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	_, err = model.Generate(t.Context(), smallRequest("hello"))
	return err
}

func TestClient_largeAnswer(t *testing.T) {
	suite.Slow(t, "it reads 64 MiB")
	status := http.StatusOK
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		chunk := strings.Repeat("x", 1<<20)
		for range maxBody>>20 + 8 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	fault := modelFailure(t, askThrough(t, s.Client(), s.URL))
	if fault.Retry || !strings.Contains(fault.Failure.Message, "larger than 64 MiB") {
		t.Errorf("%+v", fault)
	}
	status = http.StatusServiceUnavailable
	fault = modelFailure(t, askThrough(t, s.Client(), s.URL))
	if !fault.Retry || !strings.Contains(fault.Failure.Message, "503: xxx") {
		t.Errorf("%+v", fault)
	}
}

// TestClient_tls checks that a server without a trusted certificate, or without TLS, counts as not
// reached and is not asked again.
func TestClient_tls(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(reply(http.StatusOK, "{}"))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	plain := serve(t, reply(http.StatusOK, "{}"))
	for want, url := range map[string]string{
		"certificate": untrusted.URL, "HTTPS client": "https" + strings.TrimPrefix(plain.URL, "http"),
	} {
		fault := modelFailure(t, askThrough(t, nil, url))
		if fault.Retry || !fault.Unreached || !strings.Contains(fault.Failure.Message, want) {
			t.Errorf("%s: %+v", url, fault)
		}
	}
}

func FuzzReadReason(f *testing.F) {
	for _, body := range []string{`{"error":{"message":["a"],"code":1,"details":[{"@type":"google.rpc.RetryInfo","retryDelay":"3s"}]}}`, `[{"error":"x"}]`, `{"detail":[{}]}`, "<html>", "\xff", ""} {
		f.Add("application/json", []byte(body))
	}
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		r := readReason(proc.Reply{Header: http.Header{"Content-Type": {kind}}, Body: body})
		if !utf8.ValidString(r.Text) || r.RetryDelay < 0 || r.RetryDelay > 24*time.Hour || r.HTML && r.Text != "" {
			t.Errorf("got %+v", r)
		}
	})
}

type failingTransport struct{ err error }

func (f failingTransport) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// TestFault_unreached checks that a provider is unreached if a connection is refused, also by the
// proxy, or the host has no address, but not if a connection is slow or breaks.
func TestFault_unreached(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"refused":           {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		"proxy refuses":     {&net.OpError{Op: "proxyconnect", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, true},
		"unknown host":      {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, true},
		"names are down":    {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", IsTimeout: true}}, true},
		"slow to connect":   {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, false},
		"reset":             {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, false},
		"cut":               {io.ErrUnexpectedEOF, false},
		"no answer in time": {context.DeadlineExceeded, false},
	} {
		fault := modelFailure(t, askThrough(t, &http.Client{Transport: failingTransport{c.err}}, "http://localhost"))
		if fault.Unreached != c.want {
			t.Errorf("%s: %+v", name, fault)
		}
	}
}

// TestNewMask checks that the mask hides the key, the values of headers and the part after their
// scheme, unchanged and within an address, and the password of a proxy, but no short words.
func TestNewMask(t *testing.T) {
	t.Setenv("https_proxy", "http://user:proxy-pass-1@10.0.0.1:3128")
	headers := map[string]secret.Secret{"Authorization": secret.New("Bearer sk-abcdef-123"), "X-Team": secret.New("red")}
	mask := newMask(secret.New("sk-abcdef/1"), headers, true)
	for text, want := range map[string]string{
		"keys sk-abcdef/1 and sk-abcdef-123 are wrong":      "keys *** and *** are wrong",
		"GET /?key=sk-abcdef%2F1":                           "GET /?key=***",
		"proxy http://user:proxy-pass-1@10.0.0.1:3128 fell": "proxy *** fell",
		"the red team has proxy-pass-1":                     "the red team has ***",
	} {
		if got := mask.Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestTokenUsage checks that a usage with a count that cannot be is not used.
func TestTokenUsage(t *testing.T) {
	if got, odd := tokenUsage(20, 30, 25, 5, 0, 1<<30); odd != "" || got != (outcome.Usage{Input: 20, Output: 30, Cached: 20, Reasoning: 5}) {
		t.Errorf("got %+v, %q", got, odd)
	}
	for _, count := range []tokenCount{-100, 1<<30 + 1} {
		if got, odd := tokenUsage(1, 2, 3, 4, 10, count); got != (outcome.Usage{}) || !strings.Contains(odd, "which cannot be") {
			t.Errorf("%d: got %+v, %q", count, got, odd)
		}
	}
}

// TestParseAnswer_manyChoices checks that only the first of many choices takes memory.
func TestParseAnswer_manyChoices(t *testing.T) {
	const n = 100_000
	for body, api := range map[string]protocol{
		`{"candidates":[{"content":{"parts":[{"text":"ab"}]}}` + strings.Repeat(",{}", n) + `]}`: &gemini{},
		`{"choices":[{"message":{"content":"ab"}}` + strings.Repeat(",{}", n) + `]}`:             &openAI{},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		answer, err := api.parseAnswer([]byte(body))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err != nil || answer.Text != "ab" || used > 20*n {
			t.Errorf("%T: %q in %d bytes of memory, %v", api, answer.Text, used, err)
		}
	}
}

// TestParseAnswer_manyParts checks that the memory for an answer in n parts is not quadratic: to copy the text of
// two bytes for each part takes n² bytes.
func TestParseAnswer_manyParts(t *testing.T) {
	const n, part = 20_000, `{"text":"ab"}`
	parts := part + strings.Repeat(","+part, n-1)
	for body, api := range map[string]protocol{
		`{"candidates":[{"content":{"parts":[` + parts + `]}}]}`: &gemini{},
		`{"choices":[{"message":{"content":[` + parts + `]}}]}`:  &openAI{},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		answer, err := api.parseAnswer([]byte(body))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err != nil || len(answer.Text) != 2*n || used > n*n/10 {
			t.Errorf("%T: %d characters in %d bytes of memory, %v", api, len(answer.Text), used, err)
		}
	}
}
