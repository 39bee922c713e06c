package langfuse

import (
	"bytes"
	"cmp"
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

// The classes of failure that a caller may want to tell apart with errors.Is.
var (
	// ErrNotFound: the server knows no such dataset, item, prompt or label.
	// Only a JSON answer of the API counts, so that a wrong address is never
	// taken for a missing dataset.
	ErrNotFound = errors.New("not found")
	// ErrUnauthorized: the keys are wrong, belong to another server, or may not
	// do this (401, 403).
	ErrUnauthorized = errors.New("not authorised")
	// ErrRateLimited: the server refused for now, after all repetitions (429).
	ErrRateLimited = errors.New("rate limited")
	// ErrTooLarge: the request or its answer is too large (413, 422, or the
	// client's own caps); send or ask for less.
	ErrTooLarge = errors.New("too large")
	// ErrConflict: an id or name belongs to something else, or another writer
	// was faster (409).
	ErrConflict = errors.New("conflict")
	// ErrEndpointGone: this server does not offer the endpoint: its mode
	// switched it off, its version is too old or too new, or the address is not
	// that of a Langfuse server.
	ErrEndpointGone = errors.New("endpoint not available")
)

// APIError is an answer of the server that is not a success.
type APIError struct {
	Method string
	Path   string // with /api/public, without the base URL
	Status int    // of HTTP
	// Message is what the server said, made readable, at most 4 KiB, without
	// keys.
	Message string
	// RetryAfter is the pause the server asked for, 0 if none.
	RetryAfter time.Duration
	// Attempts is how often the request was sent.
	Attempts int

	class error // one of the sentinels, or nil
	base  string
	// foreign: no Langfuse answers so where it has the endpoint. Something before
	// it may have answered, or have cut the answer.
	foreign bool
}

// answered returns the error of an answer that is not a success, or one that says too
// little; class may be nil.
func (c *Client) answered(r request, status int, class error, message string) *APIError {
	return &APIError{
		Method: r.method, Path: apiPrefix + r.path, Status: status, Attempts: r.attempt,
		Message: textutil.Cut(c.redact(message), maxMessage), class: class, base: c.base,
	}
}

// sent tells how often a request was sent, if more than once.
func sent(attempts int) string {
	if attempts <= 1 {
		return ""
	}
	return fmt.Sprintf(" (sent %d times)", attempts)
}

// Error tells the request, the status, what the server said and what to check.
func (e *APIError) Error() string {
	text := fmt.Sprintf("langfuse: %s %s: %d: %s", e.Method, e.Path, e.Status, strings.TrimSuffix(e.Message, ".")) +
		sent(e.Attempts)
	switch {
	case e.class == ErrUnauthorized:
		text += fmt.Sprintf("; check that %s and %s belong to a project on %s", EnvPublicKey, EnvSecretKey, e.base)
	case e.class == ErrRateLimited && e.RetryAfter > 0:
		text += fmt.Sprintf("; the server asks to wait %s", e.RetryAfter)
	}
	return text
}

// Is reports whether the error is of the class of the sentinel.
func (e *APIError) Is(target error) bool { return e.class != nil && e.class == target }

// ExitCode returns 64 where the server understood and refused what was asked
// for (400, 404, 409, 413, 422), else 69: it could not be used.
func (e *APIError) ExitCode() int {
	if e.class != ErrEndpointGone && slices.Contains([]int{400, 404, 409, 413, 422}, e.Status) {
		return 64
	}
	return 69
}

// ConnectionError says that no whole answer came: the server could not be
// reached, the connection broke, or nothing came in time. Whether the request
// was carried out is unknown.
type ConnectionError struct {
	BaseURL  string
	Method   string
	Path     string
	Attempts int
	Err      error

	text string // of Err, without keys
}

// Error names the address and what to check.
func (e *ConnectionError) Error() string {
	return fmt.Sprintf("langfuse: %s %s: no answer from %s: %s%s; check %s, the network and that the server is running",
		e.Method, e.Path, e.BaseURL, e.text, sent(e.Attempts), EnvBaseURL)
}

// Unwrap returns the network's error.
func (e *ConnectionError) Unwrap() error { return e.Err }

// ExitCode returns 69: the server cannot be reached.
func (*ConnectionError) ExitCode() int { return 69 }

// UsageError says that what the caller gave cannot work: the configuration, the
// environment, a mode, a name or an item.
type UsageError struct{ Err error }

// Error says what is wrong; no key is ever part of it.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the problem.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitCode returns 64: the caller is at fault.
func (*UsageError) ExitCode() int { return 64 }

// apiError reads the answer to a failed request.
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
	failed := c.answered(r, res.StatusCode, class, message)
	failed.RetryAfter = max(limit.RetryAfter(res.Header, time.Now()), answer.retryAfter)
	switch res.StatusCode {
	case http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect: // the others are meant for good
		failed.foreign = true
	default:
		failed.foreign = class == ErrEndpointGone && !answer.json && res.StatusCode != http.StatusMethodNotAllowed
	}
	return failed
}

// classes are the sentinels of statuses that mean the same in every answer.
var classes = map[int]error{
	http.StatusUnauthorized:          ErrUnauthorized,
	http.StatusForbidden:             ErrUnauthorized,
	http.StatusNotFound:              ErrNotFound,
	http.StatusMethodNotAllowed:      ErrEndpointGone,
	http.StatusConflict:              ErrConflict,
	http.StatusRequestEntityTooLarge: ErrTooLarge,
	http.StatusTooManyRequests:       ErrRateLimited,
}

// classify finds the sentinel of an answer, or nil.
func classify(status int, answer errorBody) error {
	// The two texts by which Langfuse says that an endpoint is off in its write mode.
	off := strings.Contains(answer.message, "events_only mode") ||
		strings.Contains(answer.message, "only available in a Langfuse v4 write mode")
	switch {
	case answer.html && status < 300, status == http.StatusNotFound && (!answer.json || off):
		return ErrEndpointGone
	case status == http.StatusUnprocessableEntity && answer.tooMuch:
		return ErrTooLarge
	}
	return classes[status]
}

// maxMessage is the longest message of a server that goes into an error.
const maxMessage = 4 << 10

// errorBody is what the body of a failed answer said.
type errorBody struct {
	message    string
	json, html bool
	tooMuch    bool // the server gave up on the size or the duration
	retryAfter time.Duration
}

// readErrorBody reads the body of a failed answer. Langfuse answers with JSON
// of several shapes, with plain text and with HTML pages; anything is accepted
// and nothing panics.
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
			answer.tooMuch = true
		}
		// A lone word beside a message is the name of an error class: no news.
		if detail == "" || answer.message != "" && !strings.ContainsAny(detail, " :") {
			continue
		}
		answer.message = strings.TrimPrefix(answer.message+": "+detail, ": ")
	}
	if answer.message == "" {
		answer.message = string(body)
	}
	// A value that is not a string is repeated as the bytes that came.
	answer.message = strings.ToValidUTF8(answer.message, "\uFFFD")
	var details struct {
		RetryAfterSeconds Number `json:"retryAfterSeconds"`
	}
	if json.Unmarshal(fields.Details, &details) == nil {
		answer.retryAfter = limit.Pause(float64(details.RetryAfterSeconds))
	}
	return answer
}

// jsonText makes a value of a failed answer readable: strings as they are,
// lists of validation issues as "path: message; …", the rest as JSON.
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
