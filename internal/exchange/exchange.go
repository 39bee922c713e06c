package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"extraction-experiment/internal/secret"
)

// MaxBody is how much of an answer is read at most, in bytes after
// decompression.
const MaxBody = 64 << 20

// errTooLarge says that an answer was cut off at MaxBody.
var errTooLarge = fmt.Errorf("the answer is larger than %d MiB", MaxBody>>20)

// errSecond is what a library gets that wants to send another request.
var errSecond = errors.New("a second request within one call was refused")

// Exchange is one request and its answer. Edit is set before, the rest is
// filled in by the client. It belongs to one call and one goroutine.
type Exchange struct {
	// Edit returns the body to send for the one that the library made; nil
	// sends that one.
	Edit func(body []byte) ([]byte, error)

	Requests int         // how many were sent: 0 or 1
	Status   int         // of HTTP; 0 if no answer began
	Header   http.Header // of the answer
	Body     []byte      // what was read of the answer
	Err      error       // why no whole answer came, or none was asked for
}

type contextKey struct{}

// With returns a context whose request is x.
func With(ctx context.Context, x *Exchange) context.Context {
	return context.WithValue(ctx, contextKey{}, x)
}

// NewClient returns a client that sends requests made within With through
// inner, with the headers added. Inner is copied, so that redirects are not
// followed: they would lose the body or the key. Nil is a client with Go's
// default transport that keeps enough connections open for many calls at once.
// Requests outside of With fail. A server that repeats one of the keys in its
// answer is not listened to: *** stands there. Safe for concurrent use.
func NewClient(inner *http.Client, headers map[string]secret.Secret, keys ...secret.Secret) *http.Client {
	if inner == nil {
		inner = &http.Client{Transport: defaultTransport()}
	}
	once := *inner
	once.CheckRedirect = stay
	return &http.Client{Transport: &transport{client: &once, headers: headers, keys: keys}, CheckRedirect: stay}
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func defaultTransport() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	own := standard.Clone()
	own.MaxIdleConnsPerHost = 64
	return own
}

type transport struct {
	client  *http.Client
	headers map[string]secret.Secret
	keys    []secret.Secret // the longest first
}

// RoundTrip sends the request and reads the whole answer.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(contextKey{}).(*Exchange)
	body, err := drain(req.Body)
	switch {
	case !ok:
		return nil, errors.New("a request outside of an exchange was refused")
	case x.Requests > 0:
		return nil, errSecond
	case err != nil:
		return nil, err
	}
	res, err := t.send(req, x, body)
	x.Err = err
	return res, err
}

func (t *transport) send(req *http.Request, x *Exchange, body []byte) (*http.Response, error) {
	if x.Edit != nil {
		edited, err := x.Edit(body)
		if err != nil {
			return nil, fmt.Errorf("writing the body of the request: %w", err)
		}
		body = edited
	}
	out, err := http.NewRequestWithContext(req.Context(), req.Method, req.URL.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = req.Header.Clone()
	for name, value := range t.headers {
		out.Header.Set(name, value.Reveal())
	}
	x.Requests++
	res, err := t.client.Do(out)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	x.Status, x.Header = res.StatusCode, res.Header
	x.Body, err = io.ReadAll(io.LimitReader(res.Body, MaxBody+1))
	if err == nil && len(x.Body) > MaxBody {
		x.Body, err = x.Body[:MaxBody], errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer, of which %d bytes came: %w", len(x.Body), err)
	}
	x.Body = secret.Mask(x.Body, t.keys...)
	answer := *res
	answer.Request = req
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(x.Body)), int64(len(x.Body))
	return &answer, nil
}

// drain reads and closes the body of a request, which may be nil.
func drain(body io.ReadCloser) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	read, err := io.ReadAll(body)
	return read, errors.Join(err, body.Close())
}
