package exchange

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
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
)

// A message has at most maxMessage bytes, and repeats maxReason of an answer.
const (
	maxMessage = 4<<10 - len("…")
	maxReason  = 3 << 10
)

// Kind says what sort of failure a Fault is.
type Kind int

// The kinds of failure.
const (
	Failed   Kind = iota // the server or the way to it
	Limited              // the server refused because of its limits (429)
	TimedOut             // no whole answer came in time
	Unsent               // nothing was sent: the request could not be built
)

// Fault is why an exchange gave no usable answer.
type Fault struct {
	Kind       Kind
	Message    string // what happened, where, and what to do; without keys
	Status     int    // of HTTP, 0 if no answer came
	RetryAfter time.Duration
	Retry      bool // the same request may succeed later
	// Unreached: there was no connection, because it was refused or the host is
	// not known.
	Unreached bool
}

// Service is what messages about a server need to know.
type Service struct {
	Provider     string // "openai"
	Model        string
	Base         string // address
	KeyVariable  string // "OPENAI_API_KEY"
	BaseVariable string // "OPENAI_BASE_URL"
	Mask         *secret.Masker
	Now          func() time.Time
}

// Stopped returns ctx's error in words if it was ctx that ended the exchange,
// else nil. A deadline that has passed counts although the context's own timer
// may not have fired yet: the network notices first now and then.
func (s Service) Stopped(ctx context.Context, x *Exchange) error {
	stop := ctx.Err()
	if deadline, ok := ctx.Deadline(); stop == nil && ok && timedOut(x.Err) && !time.Now().Before(deadline) {
		stop = context.DeadlineExceeded
	}
	if stop == nil {
		return nil
	}
	return fmt.Errorf("%s: waiting for the answer of %s: %w", s.Provider, s.Model, stop)
}

// Fault says why the exchange gave no usable answer. Err is what the library
// made of it; it counts where the exchange itself went well.
func (s Service) Fault(x *Exchange, err error) Fault {
	var fault Fault
	switch {
	case x.Requests == 0:
		fault = Fault{Kind: Unsent, Message: fmt.Sprintf("building the request: %s", s.short(err))}
	case x.Err != nil:
		fault = s.unanswered(x)
	case x.Status < 200 || x.Status >= 300:
		fault = s.refused(x)
	default:
		fault = s.unreadable(x, err)
	}
	fault.Message = textutil.Cut(s.Mask.Text(s.Provider+": "+s.Model+": "+fault.Message), maxMessage)
	return fault
}

// unanswered is the fault of an exchange without a whole answer.
func (s Service) unanswered(x *Exchange) Fault {
	err := x.Err
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := s.short(err)
	switch {
	case errors.Is(err, errTooLarge):
		return Fault{Status: x.Status, Message: text + "; set a limit of tokens"}
	case timedOut(err):
		return Fault{Kind: TimedOut, Status: x.Status, Retry: true, Unreached: unreached(err), Message: fmt.Sprintf("no whole answer from %s in time: %s", s.Base, text)}
	case x.Status != 0:
		return Fault{Status: x.Status, Retry: true, Message: fmt.Sprintf("the connection to %s broke: %s", s.Base, text)}
	}
	return Fault{Retry: !permanent(err), Unreached: unreached(err), Message: fmt.Sprintf("no answer from %s: %s; check %s, the network and the proxy", s.Base, text, s.BaseVariable)}
}

// unreadable is the fault of an answer with a good status that is none.
func (s Service) unreadable(x *Exchange, err error) Fault {
	reason := ReadReason(x.Header.Get("Content-Type"), x.Body)
	fault := Fault{Status: x.Status}
	switch {
	case reason.HTML:
		fault.Message = fmt.Sprintf("%s answered with a web page: check that %s is the address of the API", s.Base, s.BaseVariable)
	case reason.Stated:
		fault.Message = "the server answered with an error: " + s.short(reason.Text)
	case len(x.Body) == 0:
		fault.Message, fault.Retry = "the answer of "+s.Base+" is empty", true
	default:
		fault.Message = fmt.Sprintf("the answer of %s is not the expected JSON: %s; it begins with %q", s.Base, s.short(err), textutil.Cut(reason.Text, 200))
	}
	return fault
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
func (s Service) short(text any) string {
	return textutil.Cut(s.Mask.Text(fmt.Sprint(text)), maxReason)
}

// wrongKey are the words by which servers say with a status of 400 that the
// key is none.
var wrongKey = []string{"API_KEY_INVALID", "API_KEY_EXPIRED", "invalid_api_key"}

// spent are the words that make a 429 stay: no credit is left.
var spent = []string{"insufficient_quota", "billing_hard_limit_reached"}

// refused is the fault of an answer whose status is no success.
func (s Service) refused(x *Exchange) Fault {
	reason := ReadReason(x.Header.Get("Content-Type"), x.Body)
	said := s.short(reason.Text)
	switch {
	case reason.HTML:
		said = fmt.Sprintf("a web page, probably of a proxy or gateway in front of %s", s.Base)
	case said == "":
		said = "the answer says nothing more"
	}
	fault := Fault{Status: x.Status, Retry: passing(x.Status), Message: fmt.Sprintf("%d: %s", x.Status, said)}
	if fault.Retry {
		fault.RetryAfter = max(limit.RetryAfter(x.Header, s.Now()), reason.RetryDelay)
	}
	switch {
	case x.Status == http.StatusTooManyRequests:
		fault.Kind = Limited
		if reason.Has(spent...) {
			fault.Retry, fault.RetryAfter = false, 0
			fault.Message += fmt.Sprintf("; the account of %s has no credit left", s.KeyVariable)
		} else if fault.RetryAfter > 0 {
			fault.Message += fmt.Sprintf("; the server asks to wait %s", fault.RetryAfter)
		}
	case x.Status == http.StatusUnauthorized, x.Status == http.StatusForbidden, reason.Has(wrongKey...):
		fault.Message += fmt.Sprintf("; check %s: the key must be valid at %s and may use the model", s.KeyVariable, s.Base)
	case x.Status == http.StatusNotFound, x.Status == http.StatusMethodNotAllowed:
		fault.Message += fmt.Sprintf("; check that %s has the model %q, and %s", s.Base, s.Model, s.BaseVariable)
	case x.Status >= 300 && x.Status < 400:
		to := textutil.Cut(s.Mask.Text(x.Header.Get("Location")), 300)
		fault.Message = fmt.Sprintf("%d: the server redirects to %q: set %s to the address it should be", x.Status, to, s.BaseVariable)
	}
	return fault
}

// passing reports whether a status may be gone when the request is repeated.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}

// Reason is what the body of a failed answer says.
type Reason struct {
	// Text is the server's message: the text of an error object, else the body
	// itself. Valid UTF-8, of any length; empty for an empty body or a page.
	Text string
	// Codes are the short words that stand beside the message, such as
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

// Has reports whether the server said one of the codes, in any case of letters.
func (r Reason) Has(codes ...string) bool {
	return slices.ContainsFunc(codes, func(code string) bool {
		return slices.ContainsFunc(r.Codes, func(said string) bool { return strings.EqualFold(said, code) })
	})
}

// maxRead bounds how much of a failed answer is looked into, in bytes.
const maxRead = 1 << 20

// ReadReason reads the body of a failed answer. Anything is accepted.
func ReadReason(contentType string, body []byte) Reason {
	body = bytes.TrimSpace(body)
	body = body[:min(len(body), maxRead)]
	if looksLikeHTML(contentType, body) {
		return Reason{HTML: true}
	}
	var reason Reason
	var top any
	if json.Unmarshal(body, &top) == nil {
		if list, ok := top.([]any); ok && len(list) > 0 {
			top = list[0]
		}
		object, _ := top.(map[string]any)
		reason.read(object)
	}
	if reason.Text == "" {
		reason.Text = string(body)
	}
	reason.Text = strings.ToValidUTF8(reason.Text, string(utf8.RuneError))
	return reason
}

// read takes what servers put into their errors: OpenAI and Azure
// {"error":{"message","code","type"}}, Google {"error":{"message","status",
// "details"}} also as the only element of a list, FastAPI {"detail"}, others
// {"error":"text"} or {"message"}.
func (r *Reason) read(top map[string]any) {
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

// textOf returns a text, a list of texts joined, and JSON for anything else that is
// not null.
func textOf(value any) string {
	if text, ok := value.(string); ok || value == nil {
		return strings.TrimSpace(text)
	}
	raw, _ := json.Marshal(value) // it was read from JSON
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		return strings.Join(texts, ", ")
	}
	return string(raw)
}

// looksLikeHTML reports whether an answer is a web page.
func looksLikeHTML(contentType string, body []byte) bool {
	if strings.Contains(strings.ToLower(contentType), "text/html") {
		return true
	}
	start := bytes.ToLower(bytes.TrimSpace(body[:min(len(body), 256)]))
	return bytes.HasPrefix(start, []byte("<!doctype")) || bytes.HasPrefix(start, []byte("<html"))
}
