package langfuse

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
)

// apiPrefix stands between the base URL and the path of every request.
const apiPrefix = "/api/public/"

// maxErrorBody is how much of the answer to a failed request is read.
const maxErrorBody = 64 << 10

// request is one call of the API. Its body is kept as bytes, so that every
// attempt sends the same ones.
type request struct {
	method string
	path   string // after apiPrefix, its segments escaped
	query  url.Values
	body   []byte
	header map[string]string // beside the usual ones
	// once: the call must not be repeated when it may have been carried out.
	once    bool
	attempt int // 1 is the first
}

// response is an answer with a status of 2xx.
type response struct {
	header http.Header
	sent   time.Time // when the attempt that succeeded began
}

// get returns a request that reads.
func get(path string, query url.Values) request {
	return request{method: http.MethodGet, path: path, query: query}
}

// getJSON sends a GET request and decodes its answer.
func (c *Client) getJSON(ctx context.Context, path string, query url.Values, into any) error {
	_, err := c.do(ctx, get(path, query), into)
	return err
}

// call sends a request and returns its answer. Body, unless it is nil, is sent as JSON.
// What is the format of the words, and args their values, that say in an error what the
// call was about.
func call[T any](ctx context.Context, c *Client, r request, body any, what string, args ...any) (answer T, err error) {
	if body != nil {
		r.body, err = textutil.MarshalJSON(body)
	}
	if err == nil {
		_, err = c.do(ctx, r, &answer)
	}
	if err != nil {
		return *new(T), fmt.Errorf(what+": %w", append(args, err)...)
	}
	return answer, nil
}

// do sends the request until it succeeds, fails for good, has been sent
// Config.MaxAttempts times, or ctx ends, and decodes the answer into what into points to;
// where that is nil, it only has to be JSON. Unknown keys are ignored, because servers
// add some (_deprecation, mediaReferences).
func (c *Client) do(ctx context.Context, r request, into any) (response, error) {
	began := time.Now()
	for r.attempt = 1; ; r.attempt++ {
		answer, err := c.attempt(ctx, r, into)
		if err == nil {
			c.reached.Store(true)
			return answer, nil
		}
		if r.attempt >= c.config.MaxAttempts || !repeatable(r, err) || c.doubtful(err, r.attempt, time.Since(began)) {
			return response{}, err
		}
		if stop := c.rest(ctx, r.attempt, err); stop != nil {
			return response{}, fmt.Errorf("langfuse: %s %s: %w, while waiting to repeat it after: %s",
				r.method, apiPrefix+r.path, stop, err)
		}
	}
}

// attempt sends the request once and reads the answer under the cap.
func (c *Client) attempt(ctx context.Context, r request, into any) (response, error) {
	within, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	req, err := c.newRequest(within, r)
	if err != nil {
		return response{}, err
	}
	sent := time.Now()
	res, err := c.http.Do(req)
	if err != nil {
		return response{}, c.connectionError(ctx, within, r, err)
	}
	defer res.Body.Close()

	success := res.StatusCode >= 200 && res.StatusCode < 300
	most := c.config.MaxResponseBytes
	if !success {
		most = min(most, maxErrorBody)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err != nil {
		return response{}, c.connectionError(ctx, within, r, err)
	}
	if success && int64(len(body)) > most {
		return response{}, fmt.Errorf("langfuse: %s %s: the answer is larger than %d bytes, ask for smaller pages: %w",
			r.method, apiPrefix+r.path, most, ErrTooLarge)
	}
	if !success || limit.IsHTML(res.Header, body) {
		return response{}, c.apiError(r, res, body[:min(int64(len(body)), most)])
	}
	return response{header: res.Header, sent: sent}, c.decode(r, res, body, into)
}

// decode reads an answer with a status of 2xx. Langfuse answers with JSON
// everywhere; what is none was cut on its way, or something before the server
// answered. An answer of OTLP's own form would be protobuf, often empty.
func (c *Client) decode(r request, res *http.Response, body []byte, into any) error {
	if into == nil {
		protobuf := strings.HasPrefix(res.Header.Get("Content-Type"), "application/x-protobuf")
		if protobuf || res.StatusCode == http.StatusNoContent {
			return nil
		}
		into = new(json.RawMessage)
	}
	err := json.Unmarshal(body, into)
	if err == nil {
		return nil
	}
	answer := c.answered(r, res.StatusCode, nil, "the answer is not the expected JSON: "+err.Error())
	answer.foreign = !json.Valid(body)
	return answer
}

// newRequest builds the HTTP request. The path goes in as text, so that its
// escapes reach the wire as they are.
func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	address := c.base + apiPrefix + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("langfuse: building the request: %w", err)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.config.UserAgent)
	req.SetBasicAuth(c.config.PublicKey, c.config.SecretKey.Reveal())
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// connectionError says why no whole answer came: because the caller stopped
// waiting, or because the server could not be reached.
func (c *Client) connectionError(ctx, within context.Context, r request, err error) error {
	if stop := ctx.Err(); stop != nil {
		return fmt.Errorf("langfuse: %s %s: %w", r.method, apiPrefix+r.path, stop)
	}
	if within.Err() != nil {
		// Not wrapped: it is this client that gave up, not the caller's context.
		err = fmt.Errorf("no complete answer within %s", c.config.Timeout)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return &ConnectionError{
		BaseURL: c.base, Method: r.method, Path: apiPrefix + r.path, Attempts: r.attempt,
		Err: err, text: c.redact(err.Error()),
	}
}

// pathSafe reports whether a name may be in a path. Slashes are refused by
// some proxies even when escaped, dot segments are folded away on the way, and
// percent signs are decoded twice by the server on some routes.
func pathSafe(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, `/\%`)
}

// setTime sets a query value unless the time is zero.
func setTime(query url.Values, key string, t time.Time) {
	if !t.IsZero() {
		query.Set(key, FormatTime(t))
	}
}

// setText sets a query value unless the text is empty.
func setText(query url.Values, key, text string) {
	if text != "" {
		query.Set(key, text)
	}
}

// setList sets a comma-separated query value unless the list is empty.
func setList(query url.Values, key string, list []string) {
	setText(query, key, strings.Join(list, ","))
}

// The pauses between attempts: firstPause doubles up to maxPause; half of it
// is fixed and half is spread by jitter. What a server asks for counts up to
// maxRetryAfter.
const (
	firstPause    = 500 * time.Millisecond
	maxPause      = 30 * time.Second
	maxRetryAfter = time.Minute
)

// What is not an answer of Langfuse's is most likely a wrong address as long as this
// server never gave one: it is asked unreachedAttempts times within unreachedTime.
const (
	unreachedAttempts = 3
	unreachedTime     = 5 * time.Second
)

// repeatable reports whether sending the request again may help and does no
// harm.
//
//	429                           always: the server has refused to look at it
//	408, 5xx, no whole answer     unless the request must go out only once
//	a page, empty or cut JSON     likewise, with a good status; and 302, 303, 307:
//	                              something before the server may have answered
//	409 "modified concurrently"   likewise: another writer was faster
//
// Certificates that are not trusted, unknown hosts and everything else stay as
// they are.
func repeatable(r request, err error) bool {
	if api, ok := errors.AsType[*APIError](err); ok {
		switch {
		case api.Status == http.StatusTooManyRequests:
			return true
		case r.once:
			return false
		case api.Status == http.StatusConflict:
			return strings.Contains(api.Message, "modified concurrently")
		}
		return api.Status == http.StatusRequestTimeout || api.Status >= 500 || api.foreign && api.Status < 400
	}
	if _, ok := errors.AsType[*ConnectionError](err); !ok || r.once {
		return false
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	name, unresolved := errors.AsType[*net.DNSError](err)
	return !untrusted && !(unresolved && name.IsNotFound)
}

// doubtful reports whether an answer that is not Langfuse's was given so often
// by a server that never gave another that the address must be wrong.
func (c *Client) doubtful(err error, attempts int, within time.Duration) bool {
	var api *APIError
	return errors.As(err, &api) && api.foreign && !c.reached.Load() && (attempts >= unreachedAttempts || within >= unreachedTime)
}

// pause returns how long to wait after the given attempt (1 is the first).
// What the server asks for comes first, capped; up to a tenth
// is added to it, so that clients that were refused together do not return
// together.
func (c *Client) pause(attempt int, err error) time.Duration {
	if api, ok := errors.AsType[*APIError](err); ok && api.RetryAfter > 0 {
		asked := min(api.RetryAfter, maxRetryAfter)
		return asked + time.Duration(c.config.Jitter()*float64(asked)/10)
	}
	wait := min(firstPause<<min(attempt-1, 6), maxPause)
	return wait/2 + time.Duration(c.config.Jitter()*float64(wait)/2)
}

// rest waits before the next attempt, and tells Config.Paused.
func (c *Client) rest(ctx context.Context, attempt int, err error) error {
	pause := c.pause(attempt, err)
	c.config.Paused(err, time.Now().Add(pause))
	return sleep(ctx, pause)
}

// sleep waits, or returns the reason why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// The values that zero fields of Wait stand for.
const (
	DefaultWaitTimeout = 2 * time.Minute
	DefaultWaitFirst   = 500 * time.Millisecond
	DefaultWaitMost    = 5 * time.Second
)

// Wait says how patiently to look for what a server accepted but does not show
// yet: spans and scores take seconds, behind a long queue minutes. The zero
// value is usable.
type Wait struct {
	// Timeout is how long to look in all. 0: DefaultWaitTimeout; negative: look
	// once.
	Timeout time.Duration
	// First is the pause after the first look; it doubles up to Most.
	// 0: DefaultWaitFirst and DefaultWaitMost.
	First, Most time.Duration
}

// NotYetError says that what was waited for did not show in time.
type NotYetError struct {
	Waited time.Duration
	Looks  int
}

// Error tells how long was waited.
func (e *NotYetError) Error() string {
	return fmt.Sprintf("not there after %s and %d looks; the server may still be working on it: try again later, or wait longer",
		e.Waited.Round(time.Millisecond), e.Looks)
}

// ExitCode returns 69: the server did not do in time what it accepted.
func (*NotYetError) ExitCode() int { return 69 }

// Until calls look until it reports true or an error, which is returned; when
// the time is over, *NotYetError; when ctx ends, its error. The last look is
// made at the end of the time, not before it. Time passes by the clock of
// package time, so that synctest can turn it.
func (w Wait) Until(ctx context.Context, look func(context.Context) (bool, error)) error {
	timeout := cmp.Or(w.Timeout, DefaultWaitTimeout)
	pause, most := cmp.Or(w.First, DefaultWaitFirst), cmp.Or(w.Most, DefaultWaitMost)
	began := time.Now()
	for looks := 1; ; looks++ {
		done, err := look(ctx)
		if done || err != nil {
			return err
		}
		left := timeout - time.Since(began)
		if left <= 0 {
			return &NotYetError{Waited: time.Since(began), Looks: looks}
		}
		pause = min(pause, most)
		if err := sleep(ctx, max(min(pause, left), time.Millisecond)); err != nil {
			return fmt.Errorf("waiting for the server to show what it accepted: %w", err)
		}
		pause *= 2
	}
}
