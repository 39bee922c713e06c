// Package langfuse is a client for the Langfuse public API on net/http: projects, datasets and
// their items, prompts, spans over OTLP, scores, experiments and observations, annotation
// queues and comments, and a probe of what a server can do.
//
// It is not a tracing SDK: it queues, samples and sends nothing in the background. Every method
// makes one call (or iterates over pages) and returns when the server has responded, so the
// caller knows what arrived. A Client is safe for concurrent use.
//
// A caller takes these steps:
//
//  1. ConfigFromEnv reads the LANGFUSE_* variables, and New validates the configuration.
//  2. Probe checks the address, the keys and the version and returns a Server. Its Capabilities
//     decide everything that depends on the version or mode of the server.
//  3. To write: CreateDatasetRunItem links a trace to a dataset item, ExportSpans sends the
//     trace, and CreateScores sends its scores. The caller chooses all ids, so each of these
//     calls can be repeated unchanged.
//  4. To read: the List methods iterate over pages and hold one page in memory, except that
//     ListDatasetItems, ReadTraces and, on old servers, ReadScores fetch ahead. Methods that
//     take a Server or Capabilities use whichever endpoint the server has: GetRun, ListRunItems
//     and ListRunScores for a run, ReadScores for scores, GetTrace, ReadTraces and ListTraces for
//     traces, FindObservation for an observation. Every other method uses one endpoint, which
//     some servers lack.
//
// v4 stores runs as experiments, v3 stores them as dataset runs, and a server in migration
// (v4-dual) stores both. These are the views of a run (see Capabilities.Views). A run is
// complete if it is complete in every view of the server.
//
// A success response means that Langfuse has queued the data, not that it has stored them. A
// caller that must be certain reads the data back, using Wait.
//
// In the comments of the methods, "retried" means that the client repeats a request after a
// temporary failure, up to Config.MaxAttempts times, and "safe to repeat" means that a caller
// may call the method again with the same arguments. Every method can also return the error of
// its context, and a *UsageError for arguments that cannot be sent.
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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
)

// Client calls the API of one project on one Langfuse server. It is safe for concurrent use. No
// goroutine of a Client outlives the call that started it.
type Client struct {
	config Config // zero fields are replaced by their defaults
	base   string
	http   *http.Client
	// redact replaces every key in a text with "***". It is a function because fmt would print
	// the fields of a strings.Replacer.
	redact  func(string) string
	reached *atomic.Bool // set once the server has sent a valid response

	compressors *sync.Pool // of *compressor
}

// New returns a client. If the configuration is invalid, it returns a *UsageError with all
// problems. New sends nothing: Probe checks whether the server responds.
func New(config Config) (*Client, error) {
	base, err := parseBaseURL(config.BaseURL)
	if err = errors.Join(err, config.check()); err != nil {
		return nil, usageError("configuration: %w", err)
	}
	if config.Jitter == nil {
		config.Jitter = rand.Float64
	}
	if config.OnRetry == nil {
		config.OnRetry = func(error, time.Time) {}
	}
	config.UserAgent = cmp.Or(config.UserAgent, DefaultUserAgent)
	config.MaxAttempts = cmp.Or(config.MaxAttempts, DefaultMaxAttempts)
	config.MaxUnanswered = cmp.Or(config.MaxUnanswered, config.MaxAttempts)
	config.Timeout = cmp.Or(config.Timeout, DefaultTimeout)
	config.MaxResponseBytes = min(cmp.Or(config.MaxResponseBytes, DefaultMaxResponseBytes), 1<<40)
	// Servers and the network stack may repeat the keys in error texts, plain or as Basic
	// credentials.
	const hidden = "***"
	public, secret := config.PublicKey, config.SecretKey.Reveal()
	credentials := base64.StdEncoding.EncodeToString([]byte(public + ":" + secret))
	redact := strings.NewReplacer(credentials, hidden, secret, hidden, public, hidden).Replace
	return &Client{config, base, limit.HTTPClient(config.HTTPClient), redact, new(atomic.Bool), new(sync.Pool)}, nil
}

// BaseURL returns the address of the server without a trailing slash. RunURL, CompareURL and
// ExperimentsURL take this form.
func (c *Client) BaseURL() string { return c.base }

// CloseIdleConnections closes the connections that no call is using. The client stays usable.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// FormatTime returns the time as Langfuse writes it: UTC, RFC 3339, milliseconds. Use it if the
// same time is sent in several places, for example the version of a dataset.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// DefaultBaseURL is the address of Langfuse Cloud (EU), used if keys are given without an
// address.
const DefaultBaseURL = "https://cloud.langfuse.com"

// Defaults for zero fields of Config.
const (
	DefaultMaxAttempts      = 5
	DefaultTimeout          = 2 * time.Minute
	DefaultMaxResponseBytes = 64 << 20
	DefaultUserAgent        = "langfuse-go-client"
)

// Config configures a Client. PublicKey and SecretKey are required. The zero value of every
// other field selects a default.
type Config struct {
	// BaseURL is the address of the server, including its sub-path if it is not installed at
	// the root. Trailing slashes are ignored. Empty: DefaultBaseURL.
	BaseURL string
	// PublicKey and SecretKey are the API keys of one project.
	PublicKey string
	SecretKey Secret
	// HTTPClient sends the requests. New copies it and disables redirects, because a redirected
	// POST loses its body and a redirected request loses its keys. Nil: a client that keeps as
	// many connections open as there were concurrent calls.
	HTTPClient *http.Client
	// UserAgent is sent with every request. Empty: DefaultUserAgent.
	UserAgent string
	// MaxAttempts is the maximum number of times a request is sent. 0 means DefaultMaxAttempts,
	// and 1 means that requests are not retried.
	MaxAttempts int
	// MaxUnanswered is the same for a request that gets no answer. 0 means MaxAttempts.
	MaxUnanswered int
	// Timeout limits one attempt, including reading the response. 0: DefaultTimeout.
	Timeout time.Duration
	// MaxResponseBytes limits the size of one response after decompression. 0 means
	// DefaultMaxResponseBytes.
	MaxResponseBytes int64
	// Jitter returns numbers in [0,1) that randomize the pauses between attempts. It must be
	// safe for concurrent use. Nil: math/rand/v2.Float64.
	Jitter func() float64
	// OnRetry, if not nil, is called before every pause between two attempts, with the error of
	// the last attempt and the time of the next. It must be safe for concurrent use.
	OnRetry func(reason error, until time.Time)
	// Uncompressed disables the compression of spans, which only costs time if the server runs
	// on the same machine.
	Uncompressed bool
}

// check returns all problems of the keys and numbers. Its errors never contain a key.
func (c Config) check() error {
	public, secret := c.PublicKey, c.SecretKey.Reveal()
	unprintable := func(r rune) bool { return r <= ' ' || r == 0x7f }
	quoted := func(key string) bool { return strings.Trim(key, "\"'") != key }
	var found textutil.Problems
	found.Add(public == "", "the public key is missing")
	found.Add(secret == "", "the secret key is missing")
	found.Add(strings.ContainsFunc(public+secret, unprintable), "a key contains a space or a control character")
	found.Add(quoted(public) || quoted(secret), "a key is in quotation marks, which belong to the shell: leave them out")
	found.Add(strings.Contains(public, ":"), "the public key contains a colon, which HTTP Basic authentication cannot carry")
	found.Add(strings.HasPrefix(public, "sk-lf-") || strings.HasPrefix(secret, "pk-lf-"),
		"the keys look swapped: the public key begins with pk-lf-, the secret key with sk-lf-")
	found.Add(min(int64(c.MaxAttempts), int64(c.MaxUnanswered), int64(c.Timeout), c.MaxResponseBytes) < 0,
		"MaxAttempts (%d), MaxUnanswered (%d), Timeout (%s) and MaxResponseBytes (%d) must not be negative; 0 means the default",
		c.MaxAttempts, c.MaxUnanswered, c.Timeout, c.MaxResponseBytes)
	return errors.Join(found...)
}

// parseBaseURL returns the address without trailing slashes. It rejects addresses with
// credentials, a query or a fragment, and does not quote those. It also rejects addresses that
// end in the path of the API, because every request adds that path.
func parseBaseURL(address string) (string, error) {
	if address == "" {
		return DefaultBaseURL, nil
	}
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil:
		return "", errors.New("the base URL cannot be read as a URL: it begins with http:// or https://, such as " + DefaultBaseURL)
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
	// EnvHost is the old name of EnvBaseURL, read if EnvBaseURL is not set.
	EnvHost = "LANGFUSE_HOST"
)

// ConfigFromEnv reads the keys and the address with lookup, usually os.LookupEnv. It trims
// white space and treats a blank variable as not set.
//
// If both keys are set, it returns true; BaseURL is DefaultBaseURL if no address is set. If no
// variable is set, it returns false and no error. In every other case it returns a *UsageError.
func ConfigFromEnv(lookup func(string) (string, bool)) (Config, bool, error) {
	value := func(name string) string {
		text, _ := lookup(name)
		return strings.TrimSpace(text)
	}
	isSet := func(name string) bool { return value(name) != "" }
	missing := slices.DeleteFunc([]string{EnvPublicKey, EnvSecretKey}, isSet)
	set := slices.DeleteFunc([]string{EnvPublicKey, EnvSecretKey, EnvBaseURL, EnvHost}, func(name string) bool { return !isSet(name) })
	if len(set) == 0 {
		return Config{}, false, nil
	}
	if names, found := strings.Join(missing, " and "), strings.Join(set, " and "); names != "" {
		err := fmt.Errorf("there is %s without %s: set %s too, or unset %s", found, names, names, found)
		return Config{}, false, &UsageError{err}
	}
	address := cmp.Or(value(EnvBaseURL), value(EnvHost), DefaultBaseURL)
	return Config{PublicKey: value(EnvPublicKey), SecretKey: NewSecret(value(EnvSecretKey)), BaseURL: address}, true, nil
}

// Secret holds a key that must not be printed. Every way of formatting it gives "***". The zero
// value is an empty key.
type Secret = secret.Secret

// NewSecret returns a secret that holds key.
func NewSecret(key string) Secret { return secret.New(key) }
