package langfuse

import (
	"bytes"
	crand "crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxIdleConnections is how many connections are kept open between calls: those of 64
// run items and as many requests of scores, which a publisher sends beside each other.
const maxIdleConnections = 128

// Client speaks to one project of one Langfuse server. It is safe for
// concurrent use and starts no goroutine of its own.
type Client struct {
	base          string
	publicKey     string
	secretKey     Secret
	http          *http.Client
	userAgent     string
	maxAttempts   int
	maxRetryAfter time.Duration
	timeout       time.Duration
	maxResponse   int64
	jitter        func() float64
	paused        func(error, time.Time)
	redact        func(string) string // replaces every key in a text by "***"
	met           *atomic.Bool        // the server has given a proper answer
}

// ConfigError holds every problem of a Config that New refused.
type ConfigError struct{ Err error }

// Error lists the problems; no key is ever part of it.
func (e *ConfigError) Error() string { return "langfuse: configuration: " + e.Err.Error() }

// Unwrap returns the joined problems.
func (e *ConfigError) Unwrap() error { return e.Err }

// ExitCode returns 64: the configuration is at fault.
func (*ConfigError) ExitCode() int { return 64 }

// New returns a client, or a *ConfigError with all problems of the
// configuration. It sends nothing: use Probe to see whether the server answers.
func New(config Config) (*Client, error) {
	if err := config.validate(); err != nil {
		return nil, &ConfigError{Err: err}
	}
	base, err := parseBaseURL(config.BaseURL)
	if err != nil {
		return nil, &ConfigError{Err: err}
	}
	jitter := config.Jitter
	if jitter == nil {
		jitter = newJitter()
	}
	paused := config.Paused
	if paused == nil {
		paused = func(error, time.Time) {}
	}
	return &Client{
		base:          base,
		publicKey:     config.PublicKey,
		secretKey:     config.SecretKey,
		http:          withoutRedirects(config.HTTPClient),
		userAgent:     orDefault(config.UserAgent, DefaultUserAgent),
		maxAttempts:   orDefault(config.MaxAttempts, DefaultMaxAttempts),
		maxRetryAfter: orDefault(config.MaxRetryAfter, DefaultMaxRetryAfter),
		timeout:       orDefault(config.Timeout, DefaultTimeout),
		maxResponse:   min(orDefault(config.MaxResponseBytes, DefaultMaxResponseBytes), 1<<40),
		jitter:        jitter,
		paused:        paused,
		redact:        newRedactor(config.PublicKey, config.SecretKey.Reveal()),
		met:           new(atomic.Bool),
	}, nil
}

// BaseURL returns the server's address without a trailing slash, as the
// functions for links take it.
func (c *Client) BaseURL() string { return c.base }

// withoutRedirects returns a copy of the client that reports a redirect
// instead of following it.
func withoutRedirects(given *http.Client) *http.Client {
	client := http.Client{Transport: newTransport()}
	if given != nil {
		client = *given
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// newTransport returns the default transport with more than its two idle
// connections per host: a publisher makes many calls to one.
func newTransport() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	transport := standard.Clone()
	transport.MaxIdleConnsPerHost = maxIdleConnections
	return transport
}

// CloseIdleConnections closes the connections that no call is using. The
// client stays usable.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// newJitter returns a source of numbers in [0,1) that belongs to one client.
func newJitter() func() float64 {
	var seed [16]byte
	_, _ = crand.Read(seed[:]) // documented never to fail
	source := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])))
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return source.Float64()
	}
}

// newRedactor returns a function that takes the keys out of text that a server
// or the network stack sent back: as they are, and as Basic credentials. It is
// a function because fmt would print the fields of a replacer.
func newRedactor(public, secret string) func(string) string {
	const hidden = "***"
	credentials := base64.StdEncoding.EncodeToString([]byte(public + ":" + secret))
	return strings.NewReplacer(credentials, hidden, secret, hidden, public, hidden).Replace
}

// orDefault returns value, or fallback for the zero value.
func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// encode returns the JSON of a request body. Characters of HTML stay as they
// are, which keeps documents with markup small.
func encode(body any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, fmt.Errorf("langfuse: encoding the request: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// FormatTime returns the instant as Langfuse writes it: UTC, RFC 3339,
// milliseconds. Use it wherever one instant is sent in several places, such as
// the version of a dataset.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
