package langfuse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// inProcess passes requests to a handler without a network, so that a test can use
// testing/synctest.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	copied := req.Clone(req.Context())
	if copied.Body == nil {
		copied.Body = http.NoBody
	}
	p.handler.ServeHTTP(answer, copied)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return answer.Result(), nil
}

// fakeTimeClient returns a client for the handler without jitter. Its pauses are half of 0.5 s,
// 1 s, 2 s and so on.
func fakeTimeClient(t testingT, handler http.Handler) *Client {
	t.Helper()
	client, err := New(Config{
		BaseURL: "http://langfuse.test", PublicKey: testPublic, SecretKey: NewSecret(testSecret),
		HTTPClient: &http.Client{Transport: inProcess{handler}},
		Jitter:     func() float64 { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// scripted responds with one status (and Retry-After) per request, then with 200.
func scripted(steps ...string) http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		step := "200"
		if n < len(steps) {
			step = steps[n]
		}
		n++
		var status int
		var after string
		_, _ = fmt.Sscanf(step, "%d", &status)
		if _, after, _ = strings.Cut(step, " "); after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"message":"step modified concurrently","id":"d1","version":1}`))
	}
}

func TestRetryPauses(t *testing.T) {
	date := func(d time.Duration) string { // synctest starts at this time
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	for name, test := range map[string]struct {
		steps    []string
		want     time.Duration
		attempts int
		fails    bool
	}{
		"first time":           {nil, 0, 1, false},
		"5xx, then good":       {[]string{"500", "503"}, 250*time.Millisecond + 500*time.Millisecond, 3, false},
		"408":                  {[]string{"408"}, 250 * time.Millisecond, 2, false},
		"seconds":              {[]string{"429 7"}, 7 * time.Second, 2, false},
		"a date":               {[]string{"429 " + date(9*time.Second)}, 9 * time.Second, 2, false},
		"a date in the past":   {[]string{"429 " + date(-time.Hour)}, 250 * time.Millisecond, 2, false},
		"the cap":              {[]string{"429 86400"}, time.Minute, 2, false},
		"nonsense":             {[]string{"429 soon"}, 250 * time.Millisecond, 2, false},
		"5xx with Retry-After": {[]string{"503 3"}, 3 * time.Second, 2, false},
		"concurrent writers":   {[]string{"409"}, 250 * time.Millisecond, 2, false},
		// Pauses of 0.25, 0.5, 1 and 2 s between five attempts.
		"to the end": {[]string{"500", "500", "500", "500", "500", "500"}, 3750 * time.Millisecond, 5, true},
		"400":        {[]string{"400"}, 0, 1, true},
		"401":        {[]string{"401"}, 0, 1, true},
		"404":        {[]string{"404"}, 0, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := &recorder{next: scripted(test.steps...)}
				client := fakeTimeClient(t, record)
				start := time.Now()
				_, err := client.UpsertDataset(t.Context(), DatasetUpsert{Name: "d", Description: "<x>"})
				if took := time.Since(start); took != test.want {
					t.Errorf("took %s, want %s", took, test.want)
				}
				if (err != nil) != test.fails {
					t.Errorf("error %v", err)
				}
				requests := record.seen()
				if len(requests) != test.attempts {
					t.Errorf("%d attempts, want %d", len(requests), test.attempts)
				}
				for _, request := range requests {
					if !bytes.Equal(request.body, requests[0].body) || string(request.body) != `{"name":"d","description":"<x>"}` {
						t.Errorf("body %q, first %q", request.body, requests[0].body)
					}
				}
				var api *APIError
				if errors.As(err, &api) && api.Attempts != test.attempts {
					t.Errorf("the error says %d attempts", api.Attempts)
				}
			})
		})
	}
}

// TestGatewayInPassing checks that a request is retried after a response of a gateway: like
// after a 5xx if the client has received a valid response before, otherwise at most three times
// within 5 s. Requests that must be sent once are not retried.
func TestGatewayInPassing(t *testing.T) {
	const good = `{"id":"d1","version":1}`
	type step struct {
		status int
		body   string
		takes  time.Duration
	}
	page, empty, cut := step{200, "<html>sign in", 0}, step{200, "", 0}, step{207, `{"id":"d`, 0}
	redirect, moved, slow := step{302, "", 0}, step{301, "", 0}, step{200, "", 6 * time.Second}
	upsert := func(ctx context.Context, c *Client) error {
		stored, err := c.UpsertDataset(ctx, DatasetUpsert{Name: "d"})
		if err == nil && stored.ID != "d1" {
			err = fmt.Errorf("stored %+v", stored)
		}
		return err
	}
	remove := func(ctx context.Context, c *Client) error { return c.DeleteScore(ctx, "s") }
	export := func(ctx context.Context, c *Client) error {
		return c.ExportSpans(ctx, Scope{Name: "x"}, []Span{goodSpan()})
	}
	prompt := func(ctx context.Context, c *Client) error {
		_, err := c.CreatePrompt(ctx, Prompt{Name: "p", Type: PromptText, Prompt: []byte(`"x"`)})
		return err
	}
	for name, test := range map[string]struct {
		reached bool // the client has received a valid response before
		call    func(context.Context, *Client) error
		steps   []step // followed by good responses
		sent    int
		fails   bool
	}{
		"a page":                         {true, upsert, []step{page}, 2, false},
		"each in turn":                   {true, upsert, []step{page, empty, cut, redirect}, 5, false},
		"a page for ever":                {true, upsert, []step{page, page, page, page, page}, 5, true},
		"a deletion":                     {true, remove, []step{empty, page, cut}, 4, false},
		"spans":                          {true, export, []step{empty, redirect, cut}, 4, false},
		"a lasting redirect":             {true, upsert, []step{moved}, 1, true},
		"an answer of another kind":      {true, upsert, []step{{200, `{"id":7}`, 0}}, 1, true},
		"what goes out once":             {true, prompt, []step{page}, 1, true},
		"never met, a page and a cut":    {false, upsert, []step{page, cut}, 3, false},
		"never met, three pages":         {false, upsert, []step{page, page, page}, 3, true},
		"never met, three redirects":     {false, upsert, []step{redirect, redirect, redirect}, 3, true},
		"never met, and slow":            {false, upsert, []step{slow}, 1, true},
		"never met, and the server down": {false, upsert, []step{{503, "", 0}, {503, "", 0}, {503, "", 0}, {503, "", 0}}, 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				steps := test.steps
				record := &recorder{next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					next := step{200, good, 0}
					if len(steps) > 0 && !strings.HasSuffix(r.URL.Path, "/projects") {
						next, steps = steps[0], steps[1:]
					}
					time.Sleep(next.takes)
					if strings.HasSuffix(r.URL.Path, "/projects") {
						next.body = `{"data":[{"id":"p1"}]}`
					}
					w.WriteHeader(next.status)
					_, _ = w.Write([]byte(next.body))
				})}
				client := fakeTimeClient(t, record)
				before := 0
				if test.reached {
					if _, err := client.GetProject(t.Context()); err != nil {
						t.Fatal(err)
					}
					before = 1
				}
				began := time.Now()
				err := test.call(t.Context(), client)
				if sent := len(record.seen()) - before; sent != test.sent || (err != nil) != test.fails {
					t.Errorf("%d requests, want %d: %v", sent, test.sent, err)
				}
				if took := time.Since(began); !test.reached && test.fails && took > 5*time.Second+test.steps[0].takes {
					t.Errorf("given up after %s", took)
				}
			})
		})
	}
}

func TestPromptVersionIsNotSentAgain(t *testing.T) {
	for steps, want := range map[string]int{"500": 1, "408": 1, "409": 1, "429 1": 2} {
		synctest.Test(t, func(t *testing.T) {
			record := &recorder{next: scripted(steps)}
			client := fakeTimeClient(t, record)
			_, _ = client.CreatePrompt(t.Context(), Prompt{Name: "p", Type: PromptText, Prompt: []byte(`"x"`)})
			if n := len(record.seen()); n != want {
				t.Errorf("after %s: %d requests, want %d", steps, n, want)
			}
		})
	}
}

func TestJitterSpreadsPauses(t *testing.T) {
	client := fakeTimeClient(t, http.NotFoundHandler())
	client.config.Jitter = func() float64 { return 0.5 }
	// 0.5 s: half is fixed, and half of the other half is added.
	if got := client.pause(1, &APIError{Status: 500}); got != 375*time.Millisecond {
		t.Errorf("first pause %s", got)
	}
	// The doubling ends at 30 s: 15 s + 7.5 s.
	for _, attempt := range []int{7, 8, 100, 1 << 40} {
		if got := client.pause(attempt, &APIError{Status: 500}); got != 22500*time.Millisecond {
			t.Errorf("pause %d: %s", attempt, got)
		}
	}
	// The server asks for 10 s; half of a tenth is added.
	if got := client.pause(1, &APIError{Status: 429, RetryAfter: 10 * time.Second}); got != 10500*time.Millisecond {
		t.Errorf("asked pause %s", got)
	}
}

func TestCancellationIsImmediate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fakeTimeClient(t, scripted("429 50", "429 50"))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := client.GetProject(ctx)
		if took := time.Since(start); took != 3*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %s: %v", took, err)
		}
		if !strings.Contains(err.Error(), "429") {
			t.Errorf("the error does not say what it waited for: %v", err)
		}
	})
}

func TestSlowServerIsUnknownNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fakeTimeClient(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}))
		client.config.MaxUnanswered = 2
		start := time.Now()
		_, err := client.GetProject(t.Context())
		var connection *ConnectionError
		if !errors.As(err, &connection) || connection.Attempts != 2 || errors.Is(err, context.DeadlineExceeded) ||
			!errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(start); took != 2*DefaultTimeout+250*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

func TestConnectionCutInTheMiddleIsRepeated(t *testing.T) {
	n := 0
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n > 1 {
			_, _ = w.Write([]byte(`{"data":[{"id":"p1"}]}`))
			return
		}
		connection, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = buffered.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\":[")
		_ = buffered.Flush()
		_ = connection.Close()
	}, func(c *Config) { c.MaxAttempts = 2 })
	if project, err := client.GetProject(t.Context()); err != nil || project.ID != "p1" || n != 2 {
		t.Errorf("%+v, %v after %d requests", project, err, n)
	}
}

func TestHopelessConnectionsAreNotRepeated(t *testing.T) {
	server := httptest.NewUnstartedServer(answers(t, "projects.json"))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	client, err := New(Config{BaseURL: server.URL, PublicKey: testPublic, SecretKey: NewSecret(testSecret)})
	if err != nil {
		t.Fatal(err)
	}
	var connection *ConnectionError
	if _, err := client.GetProject(t.Context()); !errors.As(err, &connection) || connection.Attempts != 1 ||
		!strings.Contains(err.Error(), "SSL_CERT_FILE") || strings.Contains(err.Error(), "server is running") {
		t.Errorf("an unknown certificate: %v", err)
	}
	unknown := &ConnectionError{Err: &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}}
	if retryable(request{}, unknown) {
		t.Error("an unknown host is repeated")
	}
	if !retryable(request{}, &ConnectionError{Err: errors.New("reset")}) || retryable(request{sendOnce: true}, &ConnectionError{Err: errors.New("reset")}) {
		t.Error("a broken connection is repeated exactly where that is safe")
	}
}

// TestRetryAfter_ofItsOwnClock uses a server whose clock is an hour ahead.
func TestRetryAfter_ofItsOwnClock(t *testing.T) {
	now := time.Now().Add(time.Hour).Truncate(time.Second)
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		w.Header().Set("Retry-After", now.UTC().Add(2*time.Second).Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	}, func(c *Config) { c.MaxAttempts = 1 })
	_, err := client.GetProject(t.Context())
	var api *APIError
	if !errors.As(err, &api) || api.RetryAfter != 2*time.Second {
		t.Errorf("%+v", err)
	}
}
