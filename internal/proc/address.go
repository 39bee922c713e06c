package proc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
)

// AddressConfig configures an Address; URL is needed. The usual variables for proxies and
// certificates are followed.
type AddressConfig struct {
	URL string
	// Token, if set, is sent as "Authorization: Bearer"; it is shown nowhere, and nor
	// are the secrets of the environment.
	Token string
	// Headers are sent with every request; their values are shown nowhere.
	Headers map[string]secret.Secret
	// Mask, if set, says what else is shown nowhere, in place of the environment.
	Mask *secret.Masker
	// Client sends the requests; it is copied. Nil: one without a limit of time.
	Client *http.Client
	// MaxAnswer bounds an answer, in bytes.
	MaxAnswer int
}

// Address is a program behind an HTTP address: it is sent JSON and answers JSON.
// Redirects are never followed, so that nothing travels to a place that nobody named.
// What it was given in confidence is masked in answers and messages. It is safe for
// concurrent use.
type Address struct {
	// Shown is the address without its query, for people.
	Shown string
	// Max bounds an answer, in bytes.
	Max int

	cfg    AddressConfig
	client *http.Client
	mask   *secret.Masker
	met    atomic.Bool
}

// NewAddress checks the address and sends nothing.
func NewAddress(cfg AddressConfig) (*Address, error) {
	u, err := url.Parse(strings.TrimSpace(cfg.URL))
	var bad *url.Error
	switch {
	case errors.As(err, &bad): // its text would repeat the address
		return nil, fmt.Errorf("the address cannot be read: %w", bad.Err)
	case u.User != nil:
		return nil, errors.New("the address holds a password, which would end up in metadata and reports: give a token by the environment instead")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("%s://… is neither a program nor an address with http:// or https:// and a host", u.Scheme)
	}
	cfg.URL = u.String()
	mask := cfg.Mask
	if mask == nil {
		mask = secret.NewMasker(append(os.Environ(), "TOKEN="+cfg.Token), nil)
	}
	u.RawQuery, u.Fragment = "", ""
	return &Address{Shown: mask.Text(u.String()), Max: cfg.MaxAnswer, cfg: cfg, client: limit.HTTPClient(cfg.Client), mask: mask}, nil
}

// Reply is what an address answered, whatever its status.
type Reply struct {
	Status  int
	Header  http.Header
	Body    []byte // masked
	Flooded bool   // there was more than MaxAnswer
}

// OK reports whether the status is a success.
func (r Reply) OK() bool { return r.Status/100 == 2 }

// Refusal says what a status that is not a success means, with what to do and what the
// answer says.
func (a *Address) Refusal(r Reply, said string) string {
	advice := ""
	switch {
	case r.Status/100 == 3:
		advice = " (redirects are not followed: give the address that it leads to)"
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		advice = " (check the token)"
	case r.Status == http.StatusNotFound || r.Status == http.StatusMethodNotAllowed:
		advice = " (check the address: it must take POST)"
	}
	said = cmp.Or(said, textutil.Cut(string(bytes.TrimSpace(r.Body)), 500))
	return strings.TrimSuffix(fmt.Sprintf("%s answered %d %s%s: %s", a.Shown, r.Status, http.StatusText(r.Status), advice, said), ": ")
}

// Ask sends one request with a method. The error says that there is no whole answer, of
// which the reply may have the status; it wraps that of ctx where ctx ended.
func (a *Address) Ask(ctx context.Context, method string, body []byte) (Reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return Reply{}, a.unanswered(ctx, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if a.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.cfg.Token)
	}
	for name, value := range a.cfg.Headers {
		req.Header.Set(name, value.Reveal())
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return Reply{}, a.unanswered(ctx, err)
	}
	a.met.Store(true)
	defer resp.Body.Close() // only read: nothing can be lost
	r := Reply{Status: resp.StatusCode, Header: resp.Header}
	r.Body, err = io.ReadAll(io.LimitReader(resp.Body, int64(a.Max)+1))
	if err != nil && (r.OK() || ctx.Err() != nil) {
		return Reply{Status: r.Status}, a.unanswered(ctx, fmt.Errorf("the answer was cut off: %w", err))
	}
	r.Flooded = len(r.Body) > a.Max
	r.Body = a.mask.JSON(r.Body)
	return r, nil
}

// Met reports whether somebody ever answered, whatever it was.
func (a *Address) Met() bool { return a.met.Load() }

// Close closes idle connections.
func (a *Address) Close() error {
	a.client.CloseIdleConnections()
	return nil
}

// unanswered leaves out the text of a url.Error, which holds the whole address.
func (a *Address) unanswered(ctx context.Context, err error) error {
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return &maskedError{a.mask.Text(fmt.Sprintf("asking %s: %v", a.Shown, err)), err}
}

// maskedError has a text of its own before its cause.
type maskedError struct {
	text  string
	cause error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.cause }
