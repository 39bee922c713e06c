package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// maxMessage is the most bytes of a message, and maxReason those that it repeats of an answer.
const (
	maxMessage = 4<<10 - len("…")
	maxReason  = 3 << 10
)

// contextError returns the error of ctx with an explanation if ctx ended the exchange, else
// nil. A deadline that has passed counts even if the timer of the context has not fired yet,
// because sometimes the network notices first.
func (c *httpModel) contextError(ctx context.Context, x *exchange) error {
	ctxErr := ctx.Err()
	if deadline, ok := ctx.Deadline(); ctxErr == nil && ok && isTimeout(x.Err) && !time.Now().Before(deadline) {
		ctxErr = context.DeadlineExceeded
	}
	if ctxErr == nil {
		return nil
	}
	return fmt.Errorf("%s: waiting for the answer of %s: %w", c.provider, c.Model, ctxErr)
}

// fault explains why the exchange gave no usable answer: what happened, where, and what to do,
// without keys. err is the error of reading the answer, used if the exchange itself succeeded.
func (c *httpModel) fault(x *exchange, err error) *pipeline.ModelError {
	var e *pipeline.ModelError
	switch {
	case x.Err != nil:
		e = c.connectionFault(x)
	case x.Status < 200 || x.Status >= 300:
		e = c.statusFault(x)
	case x.Flooded:
		e = newFault(outcome.Provider, "the answer is larger than %d MiB; set a limit of tokens", maxBody>>20)
	default:
		e = c.bodyFault(x, err)
	}
	e.Status = x.Status
	e.Failure.Message = textutil.Cut(c.mask.Text(c.provider+": "+c.Model+": "+e.Failure.Message), maxMessage)
	return e
}

// newFault makes an error that is not worth retrying.
func newFault(class outcome.Class, format string, args ...any) *pipeline.ModelError {
	return &pipeline.ModelError{Failure: outcome.Failure{Class: class, Message: fmt.Sprintf(format, args...)}}
}

// connectionFault explains an exchange without a complete answer.
func (c *httpModel) connectionFault(x *exchange) *pipeline.ModelError {
	err := errors.Unwrap(x.Err) // without the address, which the message has already
	var e *pipeline.ModelError
	switch text := c.excerpt(err); {
	case isTimeout(err):
		e = newFault(outcome.Timeout, "no whole answer from %s in time: %s", c.BaseURL, text)
	case x.Status != 0:
		e = newFault(outcome.Provider, "the connection to %s broke: %s", c.BaseURL, text)
	default:
		e = newFault(outcome.Provider, "no answer from %s: %s; check %s, the network and the proxy", c.BaseURL, text,
			c.urlVariable)
	}
	e.Retry, e.Unreached = !isPermanent(err), proc.Unreached(err)
	return e
}

// bodyFault explains a body with a good status that is not an answer.
func (c *httpModel) bodyFault(x *exchange, err error) *pipeline.ModelError {
	reason := x.reason()
	switch {
	case reason.HTML:
		return newFault(outcome.Provider, "%s answered with a web page: check that %s is the address of the API", c.BaseURL, c.urlVariable)
	case reason.HasError:
		e := newFault(outcome.Provider, "the server answered with an error: %s", c.excerpt(reason.Text))
		// Gateways that have begun to answer put the status into the body.
		e.Retry = reason.has("408", "429", "500", "502", "503", "504", "524", "529")
		if reason.has("429") {
			e.Failure.Class = outcome.RateLimited
		}
		return e
	case len(x.Body) == 0:
		e := newFault(outcome.Provider, "the answer of %s is empty", c.BaseURL)
		e.Retry = true
		return e
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its text has the types of Go
		err = errors.New(strings.TrimPrefix(wrong.Field+": unexpected "+wrong.Value, ": "))
	}
	return newFault(outcome.Provider, "the answer of %s is not the expected JSON: %s; it begins with %q", c.BaseURL, c.excerpt(err), textutil.Cut(reason.Text, 200))
}

// isTimeout reports whether an error is a timeout.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// isPermanent reports whether a network error would recur: an unknown host, no trusted TLS.
func isPermanent(err error) bool {
	var name *net.DNSError
	return proc.FailedTLS(err) || errors.As(err, &name) && name.IsNotFound
}

// excerpt cuts and masks a part of an answer or an error for a message.
func (c *httpModel) excerpt(text any) string {
	return textutil.Cut(c.mask.Text(fmt.Sprint(text)), maxReason)
}

// statusFault explains a status that is not a success.
func (c *httpModel) statusFault(x *exchange) *pipeline.ModelError {
	reason := x.reason()
	message := c.excerpt(reason.Text)
	switch {
	case reason.HTML:
		message = fmt.Sprintf("a web page, probably of a proxy or gateway in front of %s", c.BaseURL)
	case message == "":
		message = "the answer says nothing more"
	}
	e := newFault(outcome.Provider, "%d: %s", x.Status, message)
	if e.Retry = limit.Passing(x.Status); e.Retry {
		e.RetryAfter = max(limit.RetryAfter(x.Header, time.Now()), reason.RetryDelay)
	}
	wrongKey := reason.has("API_KEY_INVALID", "API_KEY_EXPIRED", "invalid_api_key") // Gemini answers with 400
	advise := func(format string, args ...any) { e.Failure.Message += "; " + fmt.Sprintf(format, args...) }
	switch {
	case x.Status == http.StatusTooManyRequests:
		e.Failure.Class = outcome.RateLimited
		if reason.has("insufficient_quota", "billing_hard_limit_reached") { // it does not pass
			e.Retry, e.RetryAfter = false, 0
			advise("the account of %s has no credit left", c.keyVariable)
		} else if strings.HasPrefix(message, "Request too large") { // OpenAI says so of one that can never pass
			e.Failure.Class, e.Retry, e.RetryAfter = outcome.Provider, false, 0
			advise("it alone exceeds what the account may use in a minute")
		} else if e.RetryAfter > 0 {
			advise("the server asks to wait %s", e.RetryAfter)
		}
	case x.Status == http.StatusPaymentRequired:
		advise("the account of %s has no credit left", c.keyVariable)
	case x.Status == http.StatusBadRequest && strings.Contains(message, "max_completion_tokens"):
		advise("say max_completion_tokens: true of the model in the file of EXPERIMENT_MODELS_FILE")
	case x.Status == http.StatusBadRequest && strings.Contains(message, "response_format"),
		x.Status == http.StatusBadRequest && strings.Contains(message, "json_schema"):
		advise("if the model takes no JSON Schema, say no_schema: true in the file of EXPERIMENT_MODELS_FILE")
	case x.Status == http.StatusUnauthorized, x.Status == http.StatusForbidden, wrongKey:
		e.Unauthorised = wrongKey
		advise("check %s: the key must be valid at %s and may use the model", c.keyVariable, c.BaseURL)
	case x.Status == http.StatusNotFound, x.Status == http.StatusMethodNotAllowed:
		advise("check that %s has the model %q, and %s", c.BaseURL, c.Model, c.urlVariable)
	case x.Status >= 300 && x.Status < 400:
		location := textutil.Cut(c.mask.Text(x.Header.Get("Location")), 300)
		e.Failure.Message = fmt.Sprintf("%d: the server redirects to %q: set %s to the address it should be", x.Status, location, c.urlVariable)
	}
	return e
}

// reason is what the body of a failed answer says.
type reason struct {
	// Text is the message of the server: the text of an error object, else the body itself. It
	// is valid UTF-8 of any length, and empty for an empty body or a web page.
	Text string
	// Codes are the codes beside the message, for example "insufficient_quota" or
	// "API_KEY_INVALID".
	Codes []string
	// HasError means that the body is JSON with an error.
	HasError bool
	// HTML means that the body is a web page.
	HTML bool
	// RetryDelay is the pause that a google.rpc.RetryInfo asks for, in [0, 24 h].
	RetryDelay time.Duration
}

// has reports whether Codes has one of the codes, in any case.
func (r reason) has(codes ...string) bool {
	return slices.ContainsFunc(codes, func(code string) bool {
		return slices.ContainsFunc(r.Codes, func(own string) bool { return strings.EqualFold(own, code) })
	})
}

// maxErrorBody is how much of a failed answer is read for its reason, in bytes.
const maxErrorBody = 1 << 20

// reason reads the body of a failed answer, which may be anything.
func (x *exchange) reason() reason {
	body := bytes.TrimSpace(x.Body)
	body = body[:min(len(body), maxErrorBody)]
	if limit.IsHTML(x.Header, body) {
		return reason{HTML: true}
	}
	var r reason
	var top any
	if json.Unmarshal(body, &top) == nil {
		if list, ok := top.([]any); ok && len(list) > 0 {
			top = list[0]
		}
		object, _ := top.(map[string]any)
		r.read(object)
	}
	r.Text = strings.ToValidUTF8(cmp.Or(r.Text, string(body)), string(utf8.RuneError))
	return r
}

// read reads the errors of servers: OpenAI and Azure {"error":{"message","code","type"}},
// Google {"error":{"message","status", "details"}} also as the only element of a list, FastAPI
// {"detail"}, others {"error":"text"} or {"message"}.
func (r *reason) read(top map[string]any) {
	fields := top
	if failure := top["error"]; failure != nil {
		r.HasError = true
		var ok bool
		if fields, ok = failure.(map[string]any); !ok {
			fields = map[string]any{"message": failure, "code": top["code"], "type": top["type"]}
		}
	}
	r.Text = cmp.Or(textOf(fields["message"]), textOf(fields["detail"]), textOf(top["message"]), textOf(fields["error"]))
	inner, _ := fields["innererror"].(map[string]any)
	codes := []any{fields["code"], fields["type"], fields["status"], inner["code"]}
	details, _ := fields["details"].([]any)
	for _, entry := range details {
		detail, _ := entry.(map[string]any)
		codes = append(codes, detail["reason"])
		if strings.HasSuffix(textOf(detail["@type"]), "google.rpc.RetryInfo") {
			// An unreadable pause is 0.
			pause, _ := time.ParseDuration(textOf(detail["retryDelay"]))
			r.RetryDelay = max(r.RetryDelay, limit.Pause(pause.Seconds()))
		}
	}
	for _, code := range codes {
		if text := textOf(code); text != "" && len(text) <= 100 {
			r.Codes = append(r.Codes, text)
		}
	}
}

// textOf returns a text unchanged, "" for null, and JSON for any other value.
func textOf(value any) string {
	if text, ok := value.(string); ok || value == nil {
		return strings.TrimSpace(text)
	}
	raw, _ := json.Marshal(value) // the value was decoded from JSON
	return string(raw)
}
