package provider

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
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
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// A message has at most maxMessage bytes, and repeats maxReason of an answer.
const (
	maxMessage = 4<<10 - len("…")
	maxReason  = 3 << 10
)

// stopped returns ctx's error in words if it was ctx that ended the exchange,
// else nil. A deadline that has passed counts although the context's own timer
// may not have fired yet: the network notices first now and then.
func (c *chat) stopped(ctx context.Context, x *exchange) error {
	stop := ctx.Err()
	if deadline, ok := ctx.Deadline(); stop == nil && ok && timedOut(x.Err) && !time.Now().Before(deadline) {
		stop = context.DeadlineExceeded
	}
	if stop == nil {
		return nil
	}
	return fmt.Errorf("%s: waiting for the answer of %s: %w", c.provider, c.Model, stop)
}

// fault says why the exchange gave no usable answer: what happened, where, and what to
// do; without keys. Err is what the library made of it; it counts where the exchange
// itself went well.
func (c *chat) fault(x *exchange, err error) *pipeline.ModelError {
	var e *pipeline.ModelError
	switch {
	case x.Err != nil:
		e = c.unanswered(x)
	case x.Flooded:
		e = failed(outcome.Provider, "the answer is larger than %d MiB; set a limit of tokens", maxBody>>20)
	case x.Status < 200 || x.Status >= 300:
		e = c.refused(x)
	default:
		e = c.unreadable(x, err)
	}
	e.Status = x.Status
	e.Failure.Message = textutil.Cut(c.mask.Text(c.provider+": "+c.Model+": "+e.Failure.Message), maxMessage)
	return e
}

// failed makes an error that asking again does not mend.
func failed(class outcome.Class, format string, args ...any) *pipeline.ModelError {
	return &pipeline.ModelError{Failure: outcome.Failure{Class: class, Message: fmt.Sprintf(format, args...)}}
}

// unanswered is the fault of an exchange without a whole answer.
func (c *chat) unanswered(x *exchange) *pipeline.ModelError {
	err := errors.Unwrap(x.Err) // without the address, which is said here
	var e *pipeline.ModelError
	switch text := c.short(err); {
	case timedOut(err):
		e = failed(outcome.Timeout, "no whole answer from %s in time: %s", c.BaseURL, text)
	case x.Status != 0:
		e = failed(outcome.Provider, "the connection to %s broke: %s", c.BaseURL, text)
	default:
		e = failed(outcome.Provider, "no answer from %s: %s; check %s, the network and the proxy", c.BaseURL, text, c.baseVariable)
	}
	e.Retry, e.Unreached = !permanent(err), unreached(err)
	return e
}

// unreadable is the fault of an answer with a good status that is none.
func (c *chat) unreadable(x *exchange, err error) *pipeline.ModelError {
	reason := x.reason()
	switch {
	case reason.HTML:
		return failed(outcome.Provider, "%s answered with a web page: check that %s is the address of the API", c.BaseURL, c.baseVariable)
	case reason.Stated:
		return failed(outcome.Provider, "the server answered with an error: %s", c.short(reason.Text))
	case len(x.Body) == 0:
		e := failed(outcome.Provider, "the answer of %s is empty", c.BaseURL)
		e.Retry = true
		return e
	}
	return failed(outcome.Provider, "the answer of %s is not the expected JSON: %s; it begins with %q", c.BaseURL, c.short(err), textutil.Cut(reason.Text, 200))
}

// timedOut reports whether an error is that of a limit of time.
func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// permanent reports whether an error of the network stays when the request is
// repeated: an unknown host, a certificate that is not trusted.
func permanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	return errors.As(err, &certificate) || errors.As(err, &name) && name.IsNotFound
}

// unreached reports whether an error is that of a connection that was refused, or
// of a host that is not known. One that is not accepted in time is neither.
func unreached(err error) bool {
	var name *net.DNSError
	var network *net.OpError
	return errors.As(err, &name) || errors.As(err, &network) && (network.Op == "dial" || network.Op == "proxyconnect") && !network.Timeout()
}

// short is what a message repeats of an answer or an error.
func (c *chat) short(text any) string {
	return textutil.Cut(c.mask.Text(fmt.Sprint(text)), maxReason)
}

// wrongKey are the words by which servers say with a status of 400 that the
// key is none.
var wrongKey = []string{"API_KEY_INVALID", "API_KEY_EXPIRED", "invalid_api_key"}

// spent are the words that make a 429 stay: no credit is left.
var spent = []string{"insufficient_quota", "billing_hard_limit_reached"}

// refused is the fault of an answer whose status is not a success.
func (c *chat) refused(x *exchange) *pipeline.ModelError {
	reason := x.reason()
	said := c.short(reason.Text)
	switch {
	case reason.HTML:
		said = fmt.Sprintf("a web page, probably of a proxy or gateway in front of %s", c.BaseURL)
	case said == "":
		said = "the answer says nothing more"
	}
	e := failed(outcome.Provider, "%d: %s", x.Status, said)
	if e.Retry = limit.Passing(x.Status); e.Retry {
		e.RetryAfter = max(limit.RetryAfter(x.Header, c.Now()), reason.RetryDelay)
	}
	advise := func(format string, args ...any) { e.Failure.Message += "; " + fmt.Sprintf(format, args...) }
	switch {
	case x.Status == http.StatusTooManyRequests:
		e.Failure.Class = outcome.RateLimited
		if reason.has(spent...) {
			e.Retry, e.RetryAfter = false, 0
			advise("the account of %s has no credit left", c.keyVariable)
		} else if e.RetryAfter > 0 {
			advise("the server asks to wait %s", e.RetryAfter)
		}
	case x.Status == http.StatusUnauthorized, x.Status == http.StatusForbidden, reason.has(wrongKey...):
		advise("check %s: the key must be valid at %s and may use the model", c.keyVariable, c.BaseURL)
	case x.Status == http.StatusNotFound, x.Status == http.StatusMethodNotAllowed:
		advise("check that %s has the model %q, and %s", c.BaseURL, c.Model, c.baseVariable)
	case x.Status >= 300 && x.Status < 400:
		to := textutil.Cut(c.mask.Text(x.Header.Get("Location")), 300)
		e.Failure.Message = fmt.Sprintf("%d: the server redirects to %q: set %s to the address it should be", x.Status, to, c.baseVariable)
	}
	return e
}

// reason is what the body of a failed answer says.
type reason struct {
	// Text is the server's message: the text of an error object, else the body
	// itself. Valid UTF-8, of any length; empty for an empty body or a page.
	Text string
	// Codes are the short words that are beside the message, such as
	// "insufficient_quota" or "API_KEY_INVALID".
	Codes []string
	// Stated says that the body is JSON with an error in it.
	Stated bool
	// HTML says that the body is a web page.
	HTML bool
	// RetryDelay is the pause that a google.rpc.RetryInfo asks for, in
	// [0, 24 h].
	RetryDelay time.Duration
}

// has reports whether the server said one of the codes, in any case of letters.
func (r reason) has(codes ...string) bool {
	return slices.ContainsFunc(codes, func(code string) bool {
		return slices.ContainsFunc(r.Codes, func(said string) bool { return strings.EqualFold(said, code) })
	})
}

// maxRead bounds how much of a failed answer is looked into, in bytes.
const maxRead = 1 << 20

// reason reads the body of a failed answer. Anything is accepted.
func (x *exchange) reason() reason {
	body := bytes.TrimSpace(x.Body)
	body = body[:min(len(body), maxRead)]
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

// read takes what servers put into their errors: OpenAI and Azure
// {"error":{"message","code","type"}}, Google {"error":{"message","status",
// "details"}} also as the only element of a list, FastAPI {"detail"}, others
// {"error":"text"} or {"message"}.
func (r *reason) read(top map[string]any) {
	fields := top
	if failure := top["error"]; failure != nil {
		r.Stated = true
		var ok bool
		if fields, ok = failure.(map[string]any); !ok {
			fields = map[string]any{"message": failure, "code": top["code"], "type": top["type"]}
		}
	}
	r.Text = cmp.Or(textOf(fields["message"]), textOf(fields["detail"]), textOf(top["message"]), textOf(fields["error"]))
	inner, _ := fields["innererror"].(map[string]any)
	codes := []any{fields["code"], fields["type"], fields["status"], inner["code"]}
	details, _ := fields["details"].([]any)
	for _, one := range details {
		detail, _ := one.(map[string]any)
		codes = append(codes, detail["reason"])
		if strings.HasSuffix(textOf(detail["@type"]), "google.rpc.RetryInfo") {
			// A pause that cannot be read is none.
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

// textOf returns a text as it is, and JSON for anything else that is not null.
func textOf(value any) string {
	if text, ok := value.(string); ok || value == nil {
		return strings.TrimSpace(text)
	}
	raw, _ := json.Marshal(value) // it was read from JSON
	return string(raw)
}
