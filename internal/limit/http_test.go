package limit_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"extraction-experiment/internal/limit"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "2", 2 * time.Second},
		{"Retry-After", " 1.5 ", 1500 * time.Millisecond},
		{"Retry-After", "0", 0},
		{"Retry-After", "-1", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "Inf", 24 * time.Hour},
		{"Retry-After", "1e300", 24 * time.Hour},
		{"Retry-After", "Wed, 04 Mar 2026 05:06:37 GMT", 30 * time.Second},
		{"Retry-After", "Wed, 04 Mar 2020 05:06:37 GMT", 0},
		{"Retry-After", "tomorrow", 0},
		{"Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT", 24 * time.Hour},
		{"Retry-After", "", 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"Retry-After-Ms", "x", 0},
		{"Other", "7", 0},
	} {
		if got := limit.RetryAfter(http.Header{c.name: {c.value}}, now); got != c.want {
			t.Errorf("%s: %s: got %s, want %s", c.name, c.value, got, c.want)
		}
	}
	ahead := http.Header{"Retry-After": {"Wed, 04 Mar 2026 07:00:05 GMT"}, "Date": {"Wed, 04 Mar 2026 07:00:00 GMT"}}
	if got := limit.RetryAfter(ahead, now); got != 5*time.Second {
		t.Errorf("got %s: the date counts from that of the answer", got)
	}
	both := http.Header{"Retry-After": {"9"}, "Retry-After-Ms": {"1250"}}
	if got := limit.RetryAfter(both, now); got != 1250*time.Millisecond {
		t.Errorf("got %s: the finer one counts", got)
	}
	both.Set("Retry-After-Ms", "0")
	if got := limit.RetryAfter(both, now); got != 9*time.Second {
		t.Errorf("got %s: one that asks for nothing does not count", got)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"", "7", "-1", "NaN", "1e400", "0x1p70", "Wed, 04 Mar 2026 05:06:37 GMT"} {
		f.Add(value, value)
	}
	f.Fuzz(func(t *testing.T, ms, value string) {
		if got := limit.RetryAfter(http.Header{"Retry-After-Ms": {ms}, "Retry-After": {value}}, now); got < 0 || got > 24*time.Hour {
			t.Errorf("got %s", got)
		}
	})
}

func TestPassing(t *testing.T) {
	for status, want := range map[int]bool{200: false, 400: false, 404: false, 408: true, 409: true, 425: true, 429: true, 500: true, 501: false, 503: true, 505: false, 529: true} {
		if limit.Passing(status) != want {
			t.Errorf("%d: %v", status, !want)
		}
	}
}

// TestHTTPClient_redirects checks that a redirect is the answer, and is not followed.
func TestHTTPClient_redirects(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound))
	defer server.Close()
	answer, err := limit.HTTPClient(server.Client()).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusFound {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// TestHTTPClient_keepsConnections checks that two rounds of 150 concurrent requests open 150
// connections. The default client of Go would keep 2 idle connections per host and 100 in total.
func TestHTTPClient_keepsConnections(t *testing.T) {
	const atOnce = 150
	var round sync.WaitGroup // done when all requests have reached the server
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		round.Done()
		round.Wait()
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client := limit.HTTPClient(nil)
	defer client.CloseIdleConnections()
	for range 2 {
		round.Add(atOnce)
		var calls sync.WaitGroup
		for range atOnce {
			calls.Go(func() {
				answer, err := client.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				_ = answer.Body.Close()
			})
		}
		calls.Wait()
	}
	if got := opened.Load(); got != atOnce {
		t.Errorf("%d connections were opened for two rounds of %d calls", got, atOnce)
	}
}

// A server that switches to another protocol keeps its connection open: no context ends reading there.
func TestHTTPClient_upgrade(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "x")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}))
	defer s.Close()
	for _, given := range []*http.Client{nil, {}} {
		client := limit.HTTPClient(given)
		response, err := client.Get(s.URL)
		if err == nil {
			_ = response.Body.Close()
			t.Errorf("got the status %s", response.Status)
		}
		client.CloseIdleConnections()
	}
}
