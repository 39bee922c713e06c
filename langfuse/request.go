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
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
)

// apiPrefix is the part of every request's address between the base URL and the path.
const apiPrefix = "/api/public/"

// maxErrorBody is the maximum number of bytes read from the response to a failed request.
const maxErrorBody = 64 << 10

// request is one call of the API. Its body is a byte slice so that every attempt sends the same
// bytes.
type request struct {
	method string
	path   string // after apiPrefix, with escaped segments
	query  url.Values
	body   []byte
	header map[string]string // in addition to the headers that newRequest sets
	// sendOnce: the request must not be repeated if the server may have executed it.
	sendOnce bool
	attempt  int // 1 is the first
}

// response describes a response with a status of 2xx.
type response struct {
	header http.Header
	sent   time.Time // when the successful attempt began
}

// get returns a GET request.
func get(path string, query url.Values) request {
	return request{method: http.MethodGet, path: path, query: query}
}

// post returns a POST request that may be repeated.
func post(path string) request { return request{method: http.MethodPost, path: path} }

// postOnce returns a POST request that must not be repeated if the server may have executed it.
func postOnce(path string) request {
	return request{method: http.MethodPost, path: path, sendOnce: true}
}

// call sends a request and returns the decoded response. It sends body, if not nil, as JSON.
// The prefix of every error is formatted from what and args. The response must have content;
// for one that need not have any, call do with nil.
func call[T any](ctx context.Context, c *Client, r request, body any, what string, args ...any) (answer T, err error) {
	if body != nil {
		r.body, err = textutil.MarshalJSON(body)
	}
	if err != nil {
		err = usageError("the arguments cannot be written as JSON: %w", err)
	} else {
		_, err = c.do(ctx, r, &answer)
	}
	if err != nil {
		return *new(T), fmt.Errorf(what+": %w", append(args, err)...)
	}
	return answer, nil
}

// do sends the request until it succeeds, fails permanently, has been sent as often as the Config
// allows, or ctx ends. It decodes the response into into; if into is nil, the response only has
// to be JSON. Unknown keys are ignored because servers add some (_deprecation,
// mediaReferences).
func (c *Client) do(ctx context.Context, r request, into any) (response, error) {
	began := time.Now()
	for r.attempt = 1; ; r.attempt++ {
		answer, err := c.attempt(ctx, r, into)
		if err == nil {
			c.reached.Store(true)
			return answer, nil
		}
		most := c.config.MaxAttempts
		if _, unanswered := errors.AsType[*ConnectionError](err); unanswered {
			most = c.config.MaxUnanswered
		}
		if r.attempt >= most || !retryable(r, err) || c.wrongAddress(err, r.attempt, time.Since(began)) {
			return response{}, err
		}
		if ctxErr := c.waitToRetry(ctx, r.attempt, err); ctxErr != nil {
			return response{}, fmt.Errorf("langfuse: %s %s: %w, while waiting to repeat it after: %s",
				r.method, apiPrefix+r.path, ctxErr, err)
		}
	}
}

// attempt sends the request once and reads the response, up to Config.MaxResponseBytes.
func (c *Client) attempt(ctx context.Context, r request, into any) (response, error) {
	attemptCtx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	req, err := c.newRequest(attemptCtx, r)
	if err != nil {
		return response{}, err
	}
	sent := time.Now()
	res, err := c.http.Do(req)
	if err != nil {
		return response{}, c.connectionError(ctx, attemptCtx, r, err)
	}
	defer res.Body.Close()

	success := res.StatusCode >= 200 && res.StatusCode < 300
	maxBytes := c.config.MaxResponseBytes
	if !success {
		maxBytes = min(maxBytes, maxErrorBody)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBytes+1))
	if err != nil {
		return response{}, c.connectionError(ctx, attemptCtx, r, err)
	}
	if success && int64(len(body)) > maxBytes {
		return response{}, c.newAPIError(r, res.StatusCode, ErrTooLarge,
			fmt.Sprintf("the answer is larger than %d bytes: ask for smaller pages", maxBytes))
	}
	if !success || limit.IsHTML(res.Header, body) {
		return response{}, c.apiError(r, res, body[:min(int64(len(body)), maxBytes)])
	}
	return response{header: res.Header, sent: sent}, c.decode(r, res, body, into)
}

// decode decodes a response with a status of 2xx. Langfuse always responds with JSON; anything
// else was truncated or comes from a proxy or gateway. If into is nil, decode also accepts
// protobuf, which is the standard response of OTLP and often empty.
func (c *Client) decode(r request, res *http.Response, body []byte, into any) error {
	if into == nil {
		protobuf := strings.HasPrefix(res.Header.Get("Content-Type"), "application/x-protobuf")
		if protobuf || res.StatusCode == http.StatusNoContent {
			return nil
		}
		into = new(json.RawMessage)
	}
	err := checkElements(body, 2)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err == nil && unidentified(into) {
		err = errors.New("it is not one of Langfuse, as it has no id, name or list: check " + EnvBaseURL)
	}
	if err == nil {
		return nil
	}
	answer := c.newAPIError(r, res.StatusCode, nil, "the answer is not the expected JSON: "+err.Error())
	answer.notLangfuse = !json.Valid(body)
	return answer
}

// maxElements is far more than a page, a trace or a batch has, and few enough to be held in memory.
const maxElements = 1 << 16

// checkElements returns an error if a list has more than maxElements elements, which take hundreds
// of times as much memory as bytes if they are empty. Only a body with that many commas is parsed.
// With depth 2, it checks the lists in the elements of lists, too.
func checkElements(body []byte, depth int) error {
	if depth == 0 || bytes.Count(body, []byte{','}) < maxElements {
		return nil
	}
	// Other lists, such as the input of an item, are not decoded.
	lists := []string{"data", "observations", "scores", "successes", "errors"}
	for key, value := range textutil.JSONMembers(body) {
		isKey := func(name string) bool { return strings.EqualFold(key, name) } // as encoding/json compares them
		if !slices.ContainsFunc(lists, isKey) {
			continue
		}
		n := 0
		for element := range textutil.JSONElements(value) {
			if n++; n > maxElements {
				return fmt.Errorf("%q has more than %d elements", key, maxElements)
			}
			if err := checkElements(element, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// unidentified reports whether a decoded answer lacks what every answer of its type has: an id,
// a name or a list. It is false for types without such a field.
func unidentified(answer any) bool {
	value, has := reflect.Indirect(reflect.ValueOf(answer)), false
	if value.Kind() != reflect.Struct {
		return false
	}
	for _, name := range []string{"ID", "DatasetRunID", "Name", "Data"} {
		field := value.FieldByName(name)
		if field.IsValid() && !field.IsZero() {
			return false
		}
		has = has || field.IsValid()
	}
	return has
}

// newRequest builds the HTTP request. It passes the path as a string so that its escapes are
// sent unchanged.
func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	for segment := range strings.SplitSeq(r.path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return nil, usageError("%s %s: %q cannot be part of a path: give another id or name",
				r.method, apiPrefix+r.path, segment)
		}
	}
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

// connectionError returns the error of an attempt without a complete response: that of ctx if
// ctx has ended, otherwise a *ConnectionError.
func (c *Client) connectionError(ctx, attemptCtx context.Context, r request, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("langfuse: %s %s: %w", r.method, apiPrefix+r.path, ctxErr)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	text := err.Error()
	if attemptCtx.Err() != nil {
		// The error of attemptCtx is not wrapped because the caller's context has not ended.
		err, text = os.ErrDeadlineExceeded, fmt.Sprintf("no complete answer within %s", c.config.Timeout)
	}
	return &ConnectionError{
		BaseURL: c.base, Method: r.method, Path: apiPrefix + r.path, Attempts: r.attempt,
		Err: err, text: c.redact(text),
	}
}

// pathSafe reports whether a name can be used in a path. Some proxies reject slashes even if
// they are escaped, dot segments are removed on the way, and the server decodes percent signs
// twice on some routes.
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

// The pause between attempts starts at firstPause and doubles up to maxPause. Half of it is
// fixed and half is random. A pause that the server asks for is limited to maxRetryAfter.
const (
	firstPause    = 500 * time.Millisecond
	maxPause      = 30 * time.Second
	maxRetryAfter = time.Minute
)

// A response that does not come from Langfuse most likely means a wrong address as long as the
// client has received no valid response. Such a request is sent at most wrongAddressAttempts
// times, within wrongAddressTime.
const (
	wrongAddressAttempts = 3
	wrongAddressTime     = 5 * time.Second
)

// retryable reports whether sending the request again may help and is safe.
//
//	429                            always: the server has not processed the request
//	408, 5xx, incomplete response  unless request.sendOnce
//	HTML, empty or truncated JSON  likewise, if the status is 2xx, 302, 303 or 307: a proxy may
//	                               have responded
//	409 "modified concurrently"    likewise: another writer was faster
//
// It returns false for everything else, including untrusted certificates and unknown hosts.
func retryable(r request, err error) bool {
	if api, ok := errors.AsType[*APIError](err); ok {
		switch {
		case api.Status == http.StatusTooManyRequests:
			return true
		case r.sendOnce:
			return false
		case api.Status == http.StatusConflict:
			return strings.Contains(api.Message, "modified concurrently")
		}
		return api.Status == http.StatusRequestTimeout || api.Status >= 500 || api.notLangfuse && api.Status < 400
	}
	if _, ok := errors.AsType[*ConnectionError](err); !ok || r.sendOnce {
		return false
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	name, unresolved := errors.AsType[*net.DNSError](err)
	return !untrusted && !(unresolved && name.IsNotFound)
}

// wrongAddress reports whether the address is probably wrong: the response does not come from
// Langfuse, the client has never received a valid response, and it has tried often or long
// enough.
func (c *Client) wrongAddress(err error, attempts int, elapsed time.Duration) bool {
	var api *APIError
	return errors.As(err, &api) && api.notLangfuse && !c.reached.Load() && (attempts >= wrongAddressAttempts || elapsed >= wrongAddressTime)
}

// pause returns how long to wait after the given attempt (1 is the first). A pause that the
// server asks for takes precedence; up to a tenth is added so that clients that were rejected
// together do not retry together.
func (c *Client) pause(attempt int, err error) time.Duration {
	if api, ok := errors.AsType[*APIError](err); ok && api.RetryAfter > 0 {
		pause := min(api.RetryAfter, maxRetryAfter)
		return pause + time.Duration(c.config.Jitter()*float64(pause)/10)
	}
	wait := min(firstPause<<min(attempt-1, 6), maxPause)
	return wait/2 + time.Duration(c.config.Jitter()*float64(wait)/2)
}

// waitToRetry calls Config.OnRetry and waits for the next attempt.
func (c *Client) waitToRetry(ctx context.Context, attempt int, err error) error {
	pause := c.pause(attempt, err)
	c.config.OnRetry(err, time.Now().Add(pause))
	return sleep(ctx, pause)
}

// sleep waits for d, or returns the error of ctx if it ends earlier.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Defaults for zero fields of Wait.
const (
	DefaultWaitTimeout = 2 * time.Minute
	DefaultWaitFirst   = 500 * time.Millisecond
	DefaultWaitMost    = 5 * time.Second
)

// Wait configures polling for data that a server has accepted but does not return yet. Spans
// and scores take seconds to appear, or minutes if the queue is long. The zero value is usable.
type Wait struct {
	// Timeout is the total duration of polling. 0: DefaultWaitTimeout. Negative: poll once.
	Timeout time.Duration
	// MinPause is the pause after the first poll. It doubles up to MaxPause. 0 means DefaultWaitFirst
	// or DefaultWaitMost.
	MinPause, MaxPause time.Duration
}

// NotYetError reports that the expected data did not appear in time.
type NotYetError struct {
	Waited time.Duration
	Polls  int // number of polls
}

// Error includes the duration of the wait and the number of polls.
func (e *NotYetError) Error() string {
	return fmt.Sprintf("not there after %s and %s; the server may still be working on it: try again later, or wait longer",
		e.Waited.Round(time.Millisecond), textutil.Counted(e.Polls, "look"))
}

// ExitCode returns 69 because the server did not process in time what it had accepted.
func (*NotYetError) ExitCode() int { return 69 }

// Until calls poll until poll returns true or an error, and returns that error. If the time is
// over, it returns a *NotYetError; if ctx ends, it returns the error of ctx. The last poll
// happens at the end of the timeout, not before. Until uses the clock of package time, so that
// it works with testing/synctest.
func (w Wait) Until(ctx context.Context, poll func(context.Context) (bool, error)) error {
	timeout := cmp.Or(w.Timeout, DefaultWaitTimeout)
	pause, maxPause := cmp.Or(w.MinPause, DefaultWaitFirst), cmp.Or(w.MaxPause, DefaultWaitMost)
	began := time.Now()
	for polls := 1; ; polls++ {
		done, err := poll(ctx)
		if done || err != nil {
			return err
		}
		left := timeout - time.Since(began)
		if left <= 0 {
			return &NotYetError{Waited: time.Since(began), Polls: polls}
		}
		pause = min(pause, maxPause)
		if err := sleep(ctx, max(min(pause, left), time.Millisecond)); err != nil {
			return fmt.Errorf("waiting for the server to show what it accepted: %w", err)
		}
		pause *= 2
	}
}
