package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// newFault makes an error that is not worth retrying.
func newFault(class outcome.Class, format string, args ...any) *pipeline.ModelError {
	return &pipeline.ModelError{Failure: outcome.Failure{Class: class, Message: fmt.Sprintf(format, args...)}}
}

// stoppingError stops the run because each further call would fail too: a tape takes no more calls, which
// would be paid for and not recorded, or the provider's API cannot express requests of this form.
type stoppingError struct{ error }

// Unwrap returns the error with its exit code.
func (e stoppingError) Unwrap() error { return e.error }

// StopsRun marks the error as one that stops the run; see limit.StopsRun.
func (stoppingError) StopsRun() {}

// connectionFault explains an error of proc.Address.Ask. status is 0 if nothing came at all.
func (m *httpModel) connectionFault(status int, err error) *pipeline.ModelError {
	err = errors.Unwrap(err) // without the address, which the message has already
	var e *pipeline.ModelError
	var timeout net.Error
	switch text := m.excerpt(err); {
	case errors.As(err, &timeout) && timeout.Timeout():
		e = newFault(outcome.Timeout, "no whole answer from %s in time: %s", m.BaseURL, text)
	case status != 0:
		e = newFault(outcome.Provider, "the connection to %s broke: %s", m.BaseURL, text)
	default:
		e = newFault(outcome.Provider, "no answer from %s: %s; check %s, the network and the proxy", m.BaseURL, text,
			m.urlVariable)
	}
	var name *net.DNSError
	unknownHost := errors.As(err, &name) && name.IsNotFound
	e.Retry, e.Unreached = !unknownHost && !proc.FailedTLS(err), proc.Unreached(err)
	return e
}

// bodyFault explains a body with a good status that is not an answer.
func (m *httpModel) bodyFault(reply proc.Reply, err error) *pipeline.ModelError {
	reason := readReason(reply)
	switch {
	case reason.HTML:
		return newFault(outcome.Provider, "%s answered with a web page: check that %s is the address of the API",
			m.BaseURL, m.urlVariable)
	case reason.HasError:
		e := newFault(outcome.Provider, "the server answered with an error: %s", m.excerpt(reason.Text))
		e.ErrorBody = true
		// Gateways that have begun to answer put the status into the body.
		e.Retry = reason.has("408", "429", "500", "502", "503", "504", "524", "529")
		if reason.has("429") {
			e.Failure.Class = outcome.RateLimited
		}
		return e
	case len(bytes.TrimSpace(reply.Body)) == 0: // some servers write line breaks while they are busy, and give up
		e := newFault(outcome.Provider, "the answer of %s is empty", m.BaseURL)
		e.Retry = true
		return e
	}
	cut := errors.Is(err, io.ErrUnexpectedEOF)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its text has the types of Go
		err = errors.New(strings.TrimPrefix(wrong.Field+": unexpected "+wrong.Value, ": "))
	}
	e := newFault(outcome.Provider, "the answer of %s is not the expected JSON: %s; it begins with %q",
		m.BaseURL, m.excerpt(err), textutil.Cut(reason.Text, 200))
	e.Retry = cut // like a broken connection, which a proxy can hide
	return e
}

// excerpt cuts and masks a part of an answer or an error for a message.
func (m *httpModel) excerpt(text any) string {
	return textutil.Cut(m.mask.Text(fmt.Sprint(text)), maxReason)
}

// statusFault explains a status that is not a success.
func (m *httpModel) statusFault(reply proc.Reply, reason reason) *pipeline.ModelError {
	message := cmp.Or(m.excerpt(reason.Text), "the answer says nothing more")
	if reason.HTML {
		message = fmt.Sprintf("a web page, probably of a proxy or gateway in front of %s", m.BaseURL)
	}
	// Gemini answers with 400 to a wrong key. OpenAI says of a request that it is too large if it can never pass.
	wrongKey := reason.has("API_KEY_INVALID", "API_KEY_EXPIRED", "invalid_api_key")
	// OpenRouter answers with 402 while the requests under way could use up the credit.
	rejected := reply.Status == http.StatusTooManyRequests || reason.has("in_flight_budget_exhausted")
	noCredit := reason.usedUp()
	tooLarge := rejected && !noCredit && strings.HasPrefix(message, "Request too large")
	complains := func(of string) bool { return reply.Status == http.StatusBadRequest && strings.Contains(message, of) }
	pause := max(limit.RetryAfter(reply.Header, time.Now()), reason.RetryDelay)
	var advice string
	switch {
	case noCredit, reply.Status == http.StatusPaymentRequired && !rejected:
		advice = fmt.Sprintf("the account of %s has no credit left", m.keyVariable)
	case tooLarge:
		advice = "it alone exceeds what the account may use in a minute"
	case rejected && pause > 0:
		advice = fmt.Sprintf("the server asks to wait %s", pause)
	case complains("Use 'max_completion_tokens'"):
		advice = "say max_completion_tokens: true of the model in the file of EXPERIMENT_MODELS_FILE"
	case complains("temperature"): // a judge sends it unasked
		advice = "leave the temperature out, or say no_temperature: true of the model in the file of EXPERIMENT_MODELS_FILE"
	case complains("response_format"), complains("schema"), complains("Schema"):
		advice = "if the model takes no JSON Schema, say no_schema: true in the file of EXPERIMENT_MODELS_FILE"
	case reply.Status == http.StatusUnauthorized, reply.Status == http.StatusForbidden, wrongKey:
		advice = fmt.Sprintf("check %s: the key must be valid at %s and may use the model", m.keyVariable, m.BaseURL)
	case reply.Status == http.StatusNotFound, reply.Status == http.StatusMethodNotAllowed:
		advice = fmt.Sprintf("check that %s has the model %q, and %s", m.BaseURL, m.Model, m.urlVariable)
	case reply.Status/100 == 3:
		location := textutil.Cut(m.mask.Text(reply.Header.Get("Location")), 300)
		message = fmt.Sprintf("the server redirects to %q: set %s to the address it should be", location, m.urlVariable)
	}
	if advice != "" {
		message += "; " + advice
	}
	e := newFault(outcome.Provider, "%d: %s", reply.Status, message)
	e.Unauthorised = wrongKey || noCredit
	if rejected && !tooLarge {
		e.Failure.Class = outcome.RateLimited
	}
	if e.Retry = (rejected || limit.Passing(reply.Status)) && !noCredit && !tooLarge; e.Retry {
		e.RetryAfter = pause
	}
	if reason.has("json_validate_failed") { // so Groq reports that the model wrote no JSON
		e.Failure.Class, e.Retry = outcome.InvalidOutput, true
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
	// Flagged means that a moderation declined the prompt.
	Flagged bool
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

// usedUp reports whether the account has no credit left, or has reached a limit of spending: by the codes of OpenAI
// and Moonshot, or the texts of Anthropic and xAI, which have no such codes.
func (r reason) usedUp() bool {
	texts := []string{"Your credit balance is too low", "You have reached your specified", "used all available credits"}
	contained := func(text string) bool { return strings.Contains(r.Text, text) }
	return slices.ContainsFunc(texts, contained) ||
		r.has("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error")
}

// maxErrorBody is how much of a failed answer is read for its reason, in bytes.
const maxErrorBody = 1 << 20

// readReason reads the body of a failed answer, which may be anything.
func readReason(reply proc.Reply) reason {
	body := bytes.TrimSpace(reply.Body)
	body = body[:min(len(body), maxErrorBody)]
	if limit.IsHTML(reply.Header, body) {
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
// {"detail"}, OpenRouter {"error":{"metadata"}}, others {"error":"text"} or {"message"}.
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
	metadata, _ := fields["metadata"].(map[string]any)
	r.Flagged = metadata["flagged_input"] != nil
	inner, _ := fields["innererror"].(map[string]any)
	codes := []any{fields["code"], fields["type"], fields["status"], inner["code"], metadata["reason"]}
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
