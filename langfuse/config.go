package langfuse

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultBaseURL is the address of Langfuse Cloud (EU), used when keys are
// given without an address.
const DefaultBaseURL = "https://cloud.langfuse.com"

// The values that zero fields of Config stand for.
const (
	DefaultMaxAttempts      = 5
	DefaultMaxRetryAfter    = time.Minute
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
	// request its keys. Nil: a client that keeps enough connections open for
	// many concurrent calls.
	HTTPClient *http.Client
	// UserAgent is sent with every request. Empty: DefaultUserAgent.
	UserAgent string
	// MaxAttempts is how often one request is sent at most, the first time
	// included. 0: DefaultMaxAttempts. 1: nothing is repeated.
	MaxAttempts int
	// MaxRetryAfter caps the pause a server may ask for with Retry-After.
	// 0: DefaultMaxRetryAfter.
	MaxRetryAfter time.Duration
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
}

// validate returns all problems of the configuration at once.
func (c Config) validate() error {
	var problems []error
	if _, err := parseBaseURL(c.BaseURL); err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, keyProblems(c.PublicKey, c.SecretKey.Reveal())...)
	if c.MaxAttempts < 0 {
		problems = append(problems, fmt.Errorf("MaxAttempts is %d: it must not be negative", c.MaxAttempts))
	}
	if c.MaxRetryAfter < 0 || c.Timeout < 0 || c.MaxResponseBytes < 0 {
		problems = append(problems, errors.New("MaxRetryAfter, Timeout and MaxResponseBytes must not be negative"))
	}
	return errors.Join(problems...)
}

// keyProblems checks the keys without ever quoting them.
func keyProblems(public, secret string) []error {
	var problems []error
	if public == "" {
		problems = append(problems, errors.New("the public key is missing"))
	}
	if secret == "" {
		problems = append(problems, errors.New("the secret key is missing"))
	}
	if strings.ContainsFunc(public+secret, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		problems = append(problems, errors.New("a key contains a space or a control character"))
	}
	if strings.Contains(public, ":") {
		problems = append(problems, errors.New("the public key contains a colon, which HTTP Basic authentication cannot carry"))
	}
	if strings.HasPrefix(public, "sk-lf-") || strings.HasPrefix(secret, "pk-lf-") {
		problems = append(problems, errors.New("the keys look swapped: the public key begins with pk-lf-, the secret key with sk-lf-"))
	}
	return problems
}

// parseBaseURL returns the address without trailing slashes. Addresses that
// carry credentials, a query or a fragment are refused, and not quoted; so are those
// that end in the path of the API, which every request adds.
func parseBaseURL(address string) (string, error) {
	if address == "" {
		return DefaultBaseURL, nil
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return "", errors.New("the base URL cannot be read as a URL: expected something like " + DefaultBaseURL)
	}
	if u.User != nil {
		return "", errors.New("the base URL must not contain a user or password: the keys are given on their own")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("the base URL %q needs http:// or https:// and a host, such as %s", u.Redacted(), DefaultBaseURL)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("the base URL must not have a query or a fragment")
	}
	if strings.HasSuffix(strings.TrimRight(u.Path, "/")+"/", apiPrefix) {
		return "", fmt.Errorf("the base URL %q is that of the API: leave out %s", u.Redacted(), strings.TrimRight(apiPrefix, "/"))
	}
	return strings.TrimRight(u.String(), "/"), nil
}
