package proc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"unicode"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
)

// AddressConfig configures an Address. URL and MaxAnswer are required. The default Client
// follows the usual environment variables for proxies and certificates.
type AddressConfig struct {
	URL string
	// Token, if not empty, is sent in the header "Authorization: Bearer".
	Token string
	// Headers are sent with every request.
	Headers map[string]secret.Secret
	// Mask masks answers and messages. Nil: a Masker for Token and the secrets in the
	// environment.
	Mask *secret.Masker
	// Client sends the requests. NewAddress copies it. Nil: a client without a timeout.
	Client *http.Client
	// MaxAnswer limits the size of an answer in bytes.
	MaxAnswer int
}

// Address is a program behind an HTTP address. It gets requests in JSON and answers in JSON.
// Redirects are not followed, so that requests are not sent to an address that the user has not
// given. Answers and messages are masked. An Address is safe for concurrent use.
type Address struct {
	// Shown is the masked address without its query, for messages.
	Shown string
	// Max limits the size of an answer in bytes.
	Max int

	cfg     AddressConfig // Client and Mask are not nil
	reached atomic.Bool
}

// NewAddress validates the address. It sends nothing.
func NewAddress(cfg AddressConfig) (*Address, error) {
	u, err := url.Parse(strings.TrimSpace(cfg.URL))
	var bad *url.Error
	switch {
	case errors.As(err, &bad): // its text contains the address
		return nil, fmt.Errorf("the address cannot be read: %w", bad.Err)
	case u.User != nil:
		return nil, errors.New("the address holds a password, which would end up in metadata and reports: give a token by the environment instead")
	case strings.ContainsFunc(cfg.Token, unicode.IsControl):
		return nil, errors.New("the token in the environment contains a line break or another control character: copy it again")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("it must be an address with http:// or https:// and a host")
	}
	cfg.URL = u.String()
	cfg.Client = limit.HTTPClient(cfg.Client)
	if cfg.Mask == nil {
		cfg.Mask = secret.NewMasker(append(os.Environ(), "TOKEN="+cfg.Token), nil)
	}
	u.RawQuery, u.Fragment = "", ""
	return &Address{Shown: cfg.Mask.Text(u.String()), Max: cfg.MaxAnswer, cfg: cfg}, nil
}

// Reply is a response with any status.
type Reply struct {
	Status  int
	Header  http.Header
	Body    []byte // masked
	Flooded bool   // Body is truncated, because it is longer than Address.Max
}

// OK reports whether the status is a success.
func (r Reply) OK() bool { return r.Status/100 == 2 }

// Refusal describes an unsuccessful reply, with advice and message. If message is empty, it is
// the beginning of the body.
func (a *Address) Refusal(r Reply, message string) string {
	advice := ""
	switch {
	case r.Status/100 == 3:
		advice = " (redirects are not followed: give the address that it leads to)"
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		advice = " (check the token)"
	case r.Status == http.StatusNotFound || r.Status == http.StatusMethodNotAllowed:
		advice = " (check the address: it must take POST)"
	}
	message = cmp.Or(message, textutil.Cut(string(bytes.TrimSpace(r.Body)), 500))
	return strings.TrimSuffix(fmt.Sprintf("%s answered %d %s%s: %s", a.Shown, r.Status, http.StatusText(r.Status), advice, message), ": ")
}

// Ask sends a request once. An error means that there is no complete response; the Reply may
// still have a Status. The error wraps that of ctx if ctx has ended.
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
	req.Host = cmp.Or(req.Header.Get("Host"), req.Host) // Go does not send it from the Header
	resp, err := a.cfg.Client.Do(req)
	if err != nil {
		return Reply{}, a.unanswered(ctx, err)
	}
	a.reached.Store(true)
	defer resp.Body.Close() // an error after reading does not matter
	r := Reply{Status: resp.StatusCode, Header: resp.Header}
	r.Body, err = io.ReadAll(io.LimitReader(resp.Body, int64(a.Max)+1))
	if err != nil && (r.OK() || ctx.Err() != nil) {
		return Reply{Status: r.Status}, a.unanswered(ctx, fmt.Errorf("the answer was cut off: %w", err))
	}
	r.Flooded = len(r.Body) > a.Max
	r.Body = a.cfg.Mask.JSON(bytes.TrimPrefix(r.Body, []byte("\ufeff"))) // some servers begin with a byte order mark
	return r, nil
}

// Reached reports whether Ask has ever received a response.
func (a *Address) Reached() bool { return a.reached.Load() }

// Close closes idle connections. The error is always nil.
func (a *Address) Close() error {
	a.cfg.Client.CloseIdleConnections()
	return nil
}

// unanswered returns the masked error of a request without a complete response. It omits the
// text of a url.Error, which contains the whole address.
func (a *Address) unanswered(ctx context.Context, err error) error {
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return &textutil.Reworded{Text: a.cfg.Mask.Text(fmt.Sprintf("asking %s: %v", a.Shown, err)), Err: err}
}

// Unreached reports whether an error means a refused connection, an unknown host, or FailedTLS, so
// that nothing was sent. A timeout of connecting does not count.
func Unreached(err error) bool {
	var name *net.DNSError
	var network *net.OpError
	return errors.As(err, &name) || FailedTLS(err) ||
		errors.As(err, &network) && (network.Op == "dial" || network.Op == "proxyconnect") && !network.Timeout()
}

// FailedTLS reports whether an error means that a server has no trusted certificate, or speaks no
// TLS.
func FailedTLS(err error) bool {
	var certificate *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &noTLS) || errors.Is(err, http.ErrSchemeMismatch)
}
