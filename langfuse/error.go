package langfuse

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
)

// The classes of errors that callers can distinguish with errors.Is.
var (
	// ErrNotFound: the server has no such dataset, item, prompt or label. Only a JSON response
	// of the API has this class, so that a wrong address is not mistaken for a missing dataset.
	ErrNotFound = errors.New("not found")
	// ErrUnauthorized: the keys are wrong, belong to another server, or lack the permission
	// (401, 403).
	ErrUnauthorized = errors.New("not authorised")
	// ErrRateLimited: the server rejected the request for now, after all retries (429).
	ErrRateLimited = errors.New("rate limited")
	// ErrTooLarge: the request or its response is too large (413, a 422 that says so, or a limit of the
	// client). Send or request less.
	ErrTooLarge = errors.New("too large")
	// ErrConflict: an id or name belongs to something else, or another writer was faster (409).
	ErrConflict = errors.New("conflict")
	// ErrEndpointGone: the server lacks the endpoint, because its mode disables it, because its
	// version is too old or too new, or because the address is not that of a Langfuse server.
	ErrEndpointGone = errors.New("endpoint not available")
)

// APIError is an unsuccessful or unusable response of the server.
type APIError struct {
	Method string
	Path   string // with /api/public, without the base URL
	Status int    // of HTTP
	// Message is the readable message of the server, without keys, at most 4 KiB.
	Message string
	// RetryAfter is the pause that the server asked for, or 0.
	RetryAfter time.Duration
	// Attempts is the number of times the request was sent.
	Attempts int

	class error // one of the Err variables, or nil
	base  string
	// notLangfuse: a Langfuse server that has the endpoint does not respond like this. A proxy
	// or gateway may have responded, or the response was truncated.
	notLangfuse bool
}

// newAPIError returns the error for a response that is unsuccessful or lacks a required value.
// class may be nil.
func (c *Client) newAPIError(r request, status int, class error, message string) *APIError {
	return &APIError{
		Method: r.method, Path: apiPrefix + r.path, Status: status, Attempts: r.attempt,
		Message: textutil.Cut(c.redact(message), maxMessage), class: class, base: c.base,
	}
}

// attemptsText returns " (sent n times)" for messages, or "" for one attempt.
func attemptsText(attempts int) string {
	if attempts <= 1 {
		return ""
	}
	return fmt.Sprintf(" (sent %d times)", attempts)
}

// Error includes the request, the status, the message of the server and what to check.
func (e *APIError) Error() string {
	text := fmt.Sprintf("langfuse: %s %s: %d: %s", e.Method, e.Path, e.Status, strings.TrimSuffix(e.Message, ".")) +
		attemptsText(e.Attempts)
	switch {
	case e.class == ErrUnauthorized:
		text += fmt.Sprintf("; check that %s and %s belong to a project on %s", EnvPublicKey, EnvSecretKey, e.base)
	case e.class == ErrRateLimited && e.RetryAfter > 0:
		text += fmt.Sprintf("; the server asks to wait %s", e.RetryAfter)
	}
	return text
}

// Is reports whether target is the class of the error, for example ErrNotFound.
func (e *APIError) Is(target error) bool { return e.class != nil && e.class == target }

// ExitCode returns 64 if the server rejected the request for its content (400, 404, 409, 413,
// 422), and 69 if the server could not be used.
func (e *APIError) ExitCode() int {
	if e.class != ErrEndpointGone && slices.Contains([]int{400, 404, 409, 413, 422}, e.Status) {
		return 64
	}
	return 69
}

// ConnectionError reports that no complete response arrived: the server could not be reached,
// the connection broke, or the attempt took longer than Config.Timeout (then Err is
// os.ErrDeadlineExceeded). The server may have executed the request.
type ConnectionError struct {
	BaseURL  string
	Method   string
	Path     string
	Attempts int
	Err      error

	text string // the text of Err, without keys
}

// Error includes the request, the address and what to check.
func (e *ConnectionError) Error() string {
	advice := "check " + EnvBaseURL + ", the network and that the server is running"
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](e.Err); untrusted {
		advice = "the system must trust its certificate; on Linux, SSL_CERT_FILE names a file of certificates"
	}
	return fmt.Sprintf("langfuse: %s %s: no answer from %s: %s%s; %s",
		e.Method, e.Path, e.BaseURL, e.text, attemptsText(e.Attempts), advice)
}

// Unwrap returns the error of the network.
func (e *ConnectionError) Unwrap() error { return e.Err }

// ExitCode returns 69 because the server cannot be reached.
func (*ConnectionError) ExitCode() int { return 69 }

// UsageError reports invalid input of the caller: the configuration, the environment, a mode or
// an argument of a call, which is not sent.
type UsageError struct{ Err error }

// usageError returns a *UsageError. format and args are as in fmt.Errorf.
func usageError(format string, args ...any) error {
	return &UsageError{fmt.Errorf("langfuse: "+format, args...)}
}

// Error describes the problem. It never contains a key.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitCode returns 64 because the caller is at fault.
func (*UsageError) ExitCode() int { return 64 }

// apiError returns the error for an unsuccessful response, or for an HTML page with any status.
func (c *Client) apiError(r request, res *http.Response, body []byte) *APIError {
	answer := readErrorBody(res.Header, body)
	class := classify(res.StatusCode, answer)
	message := answer.message
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		location := res.Header.Get("Location")
		base, _, _ := strings.Cut(location, apiPrefix)
		message = fmt.Sprintf("the server redirects to %q: set %s to the address it should be", cmp.Or(base, location), EnvBaseURL)
	case answer.html && class == ErrEndpointGone:
		message = fmt.Sprintf("%s answered with an HTML page, not as the Langfuse API does: check %s (or this server's version "+
			"lacks the endpoint)", c.base, EnvBaseURL)
	case answer.html:
		message = fmt.Sprintf("an HTML page, probably of a proxy or gateway in front of %s", c.base)
	case message == "" && strings.Contains(r.path, "%2F"):
		message = "empty answer: a proxy may have refused the escaped slash in the path"
	case message == "":
		message = "empty answer"
	}
	failed := c.newAPIError(r, res.StatusCode, class, message)
	failed.RetryAfter = max(limit.RetryAfter(res.Header, time.Now()), answer.retryAfter)
	switch res.StatusCode {
	case http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect: // the other redirects are permanent
		failed.notLangfuse = true
	default:
		failed.notLangfuse = class == ErrEndpointGone && !answer.json && res.StatusCode != http.StatusMethodNotAllowed
	}
	return failed
}

// classes maps statuses to error classes if they do not depend on the body.
var classes = map[int]error{
	http.StatusUnauthorized:          ErrUnauthorized,
	http.StatusForbidden:             ErrUnauthorized,
	http.StatusNotFound:              ErrNotFound,
	http.StatusMethodNotAllowed:      ErrEndpointGone,
	http.StatusConflict:              ErrConflict,
	http.StatusRequestEntityTooLarge: ErrTooLarge,
	http.StatusTooManyRequests:       ErrRateLimited,
}

// classify returns the error class of a response, or nil.
func classify(status int, answer errorBody) error {
	// Langfuse has two messages for endpoints that its write mode disables.
	disabled := strings.Contains(answer.message, "events_only mode") ||
		strings.Contains(answer.message, "only available in a Langfuse v4 write mode")
	switch {
	case answer.html && status < 300, status == http.StatusNotFound && (!answer.json || disabled):
		return ErrEndpointGone
	case status == http.StatusUnprocessableEntity && answer.tooLarge:
		return ErrTooLarge
	}
	return classes[status]
}

// maxMessage is the maximum length in bytes of a server's message in an error.
const maxMessage = 4 << 10

// errorBody is the content of an unsuccessful response.
type errorBody struct {
	message    string
	json, html bool
	tooLarge   bool // the server gave up because of the size or the duration
	retryAfter time.Duration
}

// readErrorBody parses the body of an unsuccessful response. Langfuse responds with JSON of
// several shapes, plain text and HTML pages. readErrorBody accepts any bytes.
func readErrorBody(header http.Header, body []byte) errorBody {
	body = bytes.TrimSpace(body)
	if limit.IsHTML(header, body) {
		return errorBody{html: true}
	}
	var fields struct {
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
		Errors  json.RawMessage `json:"errors"`
		Details json.RawMessage `json:"details"`
	}
	if json.Unmarshal(body, &fields) != nil {
		return errorBody{message: strings.ToValidUTF8(string(body), "\uFFFD")}
	}
	answer := errorBody{json: true, message: jsonText(fields.Message)}
	for _, raw := range []json.RawMessage{fields.Error, fields.Errors} {
		detail := jsonText(raw)
		if detail == "PayloadTooLargeError" || detail == "Request timed out" {
			answer.tooLarge = true
		}
		// A single word next to a message is the name of an error class and adds nothing.
		if detail == "" || answer.message != "" && !strings.ContainsAny(detail, " :") {
			continue
		}
		answer.message = strings.TrimPrefix(answer.message+": "+detail, ": ")
	}
	if answer.message == "" {
		answer.message = string(body)
	}
	// JSON values that are not strings may contain invalid UTF-8.
	answer.message = strings.ToValidUTF8(answer.message, "\uFFFD")
	var details struct {
		RetryAfterSeconds Number `json:"retryAfterSeconds"`
	}
	if json.Unmarshal(fields.Details, &details) == nil {
		answer.retryAfter = limit.Pause(float64(details.RetryAfterSeconds))
	}
	return answer
}

// jsonText returns a readable form of a JSON value in an unsuccessful response: the text of a
// string, "path: message; …" for a list of validation issues, and JSON for everything else.
func jsonText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var issues []struct {
		Path    []any  `json:"path"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &issues) != nil {
		return string(raw)
	}
	var out []string
	for _, issue := range issues {
		var path []string
		for _, step := range issue.Path {
			path = append(path, fmt.Sprint(step))
		}
		out = append(out, strings.TrimPrefix(strings.Join(path, ".")+": "+issue.Message, ": "))
	}
	return strings.Join(out, "; ")
}
