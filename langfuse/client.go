// Package langfuse is a client of the Langfuse public API on net/http: projects,
// datasets and their items, prompts, spans over OTLP, scores, experiments and
// observations, and a probe of what a server can do.
//
// It is not a tracing SDK: nothing is queued, sampled or sent in the
// background. Every method is one call (or one iterator over pages) that
// returns when the server has answered, so that the caller knows what arrived.
// It keeps no state but its configuration and is safe for concurrent use.
//
// The steps of a caller:
//
//  1. ConfigFromEnv reads the LANGFUSE_* variables; New validates.
//  2. Probe checks address, keys and version and returns a Server, whose
//     Capabilities decide everything that depends on the server's version or
//     mode.
//  3. Writing: CreateDatasetRunItem links a trace to a dataset item,
//     ExportSpans sends the trace, CreateScores its scores. All ids are the
//     caller's, so every one of these may be sent again unchanged.
//  4. Reading: the List methods are iterators over pages; one page is held in
//     memory at a time. Methods that take a Server or its Capabilities read
//     through whichever endpoint it has: GetRun, ListRunItems and ListRunScores
//     a run, ReadScores scores, GetTrace, ReadTraces and ListTraces traces. The
//     others are one endpoint, which not every server has.
//
// v4 keeps runs as experiments, v3 as runs of a dataset, and a server that is
// being migrated as both; these are a run's views (Capabilities.Views), and it is
// complete where it is complete in each.
//
// What Langfuse answers with success is queued, not stored: read it back, with
// patience (Wait), where it must be certain.
//
//	config, set, err := langfuse.ConfigFromEnv(os.LookupEnv)
//	if err != nil || !set {
//		return err
//	}
//	client, err := langfuse.New(config)
//	if err != nil {
//		return err
//	}
//	server, err := client.Probe(ctx)
//	if err != nil {
//		return err
//	}
//	fmt.Println(server.Project.Name, server.Version, server.Mode())
package langfuse

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
)

// Client speaks to one project of one Langfuse server. It is safe for
// concurrent use and starts no goroutine of its own.
type Client struct {
	config  Config // without zero values
	base    string
	http    *http.Client
	redact  func(string) string // replaces every key in a text by "***"; fmt would print a replacer's fields
	reached *atomic.Bool        // the server has given a proper answer

	compressors *sync.Pool // of *compressor
}

// New returns a client, or a *UsageError with all problems of the
// configuration. It sends nothing: use Probe to see whether the server answers.
func New(config Config) (*Client, error) {
	base, err := parseBaseURL(config.BaseURL)
	if err = errors.Join(err, checkKeys(config.PublicKey, config.SecretKey.Reveal())); err != nil {
		return nil, &UsageError{fmt.Errorf("langfuse: configuration: %w", err)}
	}
	if config.Jitter == nil {
		config.Jitter = rand.Float64
	}
	if config.Paused == nil {
		config.Paused = func(error, time.Time) {}
	}
	config.UserAgent = cmp.Or(config.UserAgent, DefaultUserAgent)
	config.MaxAttempts = cmp.Or(config.MaxAttempts, DefaultMaxAttempts)
	config.Timeout = cmp.Or(config.Timeout, DefaultTimeout)
	config.MaxResponseBytes = min(cmp.Or(config.MaxResponseBytes, DefaultMaxResponseBytes), 1<<40)
	// It takes the keys out of text that a server or the network stack sent back: as they
	// are, and as Basic credentials.
	const hidden = "***"
	public, secret := config.PublicKey, config.SecretKey.Reveal()
	credentials := base64.StdEncoding.EncodeToString([]byte(public + ":" + secret))
	redact := strings.NewReplacer(credentials, hidden, secret, hidden, public, hidden).Replace
	return &Client{config, base, limit.HTTPClient(config.HTTPClient), redact, new(atomic.Bool), new(sync.Pool)}, nil
}

// BaseURL returns the server's address without a trailing slash, as the
// functions for links take it.
func (c *Client) BaseURL() string { return c.base }

// CloseIdleConnections closes the connections that no call is using. The
// client stays usable.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// FormatTime returns the instant as Langfuse writes it: UTC, RFC 3339,
// milliseconds. Use it wherever one instant is sent in several places, such as
// the version of a dataset.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// DefaultBaseURL is the address of Langfuse Cloud (EU), used when keys are
// given without an address.
const DefaultBaseURL = "https://cloud.langfuse.com"

// The values that zero fields of Config stand for.
const (
	DefaultMaxAttempts      = 5
	DefaultTimeout          = 2 * time.Minute
	DefaultMaxResponseBytes = 64 << 20
	DefaultUserAgent        = "langfuse-go-client"
)

// Config says which server to speak to and how patiently. PublicKey and
// SecretKey are required; every other zero value is usable.
type Config struct {
	// BaseURL is the address of the server, with the sub-path it is installed
	// under, if any; trailing slashes do not matter. Empty: DefaultBaseURL.
	BaseURL string
	// PublicKey and SecretKey are the API keys of one project.
	PublicKey string
	SecretKey Secret
	// HTTPClient sends the requests. It is copied: redirects are never
	// followed, because a redirected POST loses its body and a redirected
	// request its keys. Nil: a client that keeps as many connections open as
	// calls were made at once.
	HTTPClient *http.Client
	// UserAgent is sent with every request. Empty: DefaultUserAgent.
	UserAgent string
	// MaxAttempts is how often one request is sent at most, the first time
	// included. 0: DefaultMaxAttempts. 1: nothing is repeated.
	MaxAttempts int
	// Timeout bounds one attempt, the reading of the answer included.
	// 0: DefaultTimeout.
	Timeout time.Duration
	// MaxResponseBytes bounds one answer after decompression.
	// 0: DefaultMaxResponseBytes.
	MaxResponseBytes int64
	// Jitter returns numbers in [0,1) that spread the pauses between attempts;
	// it must be safe for concurrent use. Nil: a source of the client's own,
	// seeded at random.
	Jitter func() float64
	// Paused is told of every pause: why the last attempt failed, and when the next
	// one is made; it must be safe for concurrent use. Nil: nobody is told.
	Paused func(reason error, until time.Time)
	// Uncompressed sends spans as they are: on the same machine compression only
	// costs time.
	Uncompressed bool
}

// problems gathers all that is wrong with something.
type problems []error

// add notes a problem, if there is one.
func (p *problems) add(there bool, format string, args ...any) {
	if there {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// checkKeys returns all problems of the keys without ever quoting them.
func checkKeys(public, secret string) error {
	unprintable := func(r rune) bool { return r <= ' ' || r == 0x7f }
	var found problems
	found.add(public == "", "the public key is missing")
	found.add(secret == "", "the secret key is missing")
	found.add(strings.ContainsFunc(public+secret, unprintable), "a key contains a space or a control character")
	found.add(strings.Contains(public, ":"), "the public key contains a colon, which HTTP Basic authentication cannot carry")
	found.add(strings.HasPrefix(public, "sk-lf-") || strings.HasPrefix(secret, "pk-lf-"),
		"the keys look swapped: the public key begins with pk-lf-, the secret key with sk-lf-")
	return errors.Join(found...)
}

// parseBaseURL returns the address without trailing slashes. Addresses that
// carry credentials, a query or a fragment are refused, and not quoted; so are those
// that end in the path of the API, which every request adds.
func parseBaseURL(address string) (string, error) {
	if address == "" {
		return DefaultBaseURL, nil
	}
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil:
		return "", errors.New("the base URL cannot be read as a URL: expected something like " + DefaultBaseURL)
	case u.User != nil:
		return "", errors.New("the base URL must not contain a user or password: the keys are given on their own")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("the base URL %q needs http:// or https:// and a host, such as %s", u.Redacted(), DefaultBaseURL)
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("the base URL must not have a query or a fragment")
	case strings.HasSuffix(strings.TrimRight(u.Path, "/")+"/", apiPrefix):
		return "", fmt.Errorf("the base URL %q is that of the API: leave out %s", u.Redacted(), strings.TrimRight(apiPrefix, "/"))
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// The environment variables that ConfigFromEnv reads.
const (
	EnvPublicKey = "LANGFUSE_PUBLIC_KEY"
	EnvSecretKey = "LANGFUSE_SECRET_KEY"
	EnvBaseURL   = "LANGFUSE_BASE_URL"
	// EnvHost is the old name of EnvBaseURL; it is read where the new one is
	// not set.
	EnvHost = "LANGFUSE_HOST"
)

// ConfigFromEnv reads the keys and the address through lookup, usually
// os.LookupEnv. Surrounding white space does not count, and a blank variable
// counts as not set.
//
// With none of the variables set it returns false and no error. With both keys
// set it returns true; without an address BaseURL is DefaultBaseURL. Anything
// between is a *UsageError.
func ConfigFromEnv(lookup func(string) (string, bool)) (Config, bool, error) {
	values := map[string]string{}
	var set, missing []string
	for _, name := range []string{EnvPublicKey, EnvSecretKey, EnvBaseURL, EnvHost} {
		value, _ := lookup(name)
		values[name] = strings.TrimSpace(value)
		switch {
		case values[name] != "":
			set = append(set, name)
		case name == EnvPublicKey, name == EnvSecretKey:
			missing = append(missing, name)
		}
	}
	if len(set) == 0 {
		return Config{}, false, nil
	}
	if rest := strings.Join(missing, " and "); rest != "" {
		return Config{}, false, &UsageError{fmt.Errorf("%s is set but %s is not: set %s too, or unset all LANGFUSE_* variables",
			strings.Join(set, " and "), rest, rest)}
	}
	address := cmp.Or(values[EnvBaseURL], values[EnvHost], DefaultBaseURL)
	return Config{PublicKey: values[EnvPublicKey], SecretKey: NewSecret(values[EnvSecretKey]), BaseURL: address}, true, nil
}

// Secret holds a key that must not be printed: every way of formatting it gives
// "***". The zero value is an empty key.
type Secret = secret.Secret

// NewSecret returns the secret that holds key.
func NewSecret(key string) Secret { return secret.New(key) }
