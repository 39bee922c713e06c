package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/secret"
)

// maxReason bounds what a message repeats of an answer, in bytes; with the
// words around it a message stays under 4 KiB.
const maxReason = 3 << 10

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
	Keys         []secret.Secret
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
		fault = Fault{Kind: Unsent, Message: fmt.Sprintf("building the request: %s", short(fmt.Sprint(err)))}
	case x.Err != nil:
		fault = s.unanswered(x)
	case x.Status < 200 || x.Status >= 300:
		fault = s.refused(x)
	default:
		fault = s.unreadable(x, err)
	}
	fault.Message = cut(secret.Redact(s.Provider+": "+s.Model+": "+fault.Message, s.Keys...), 4<<10)
	return fault
}

// unanswered is the fault of an exchange without a whole answer.
func (s Service) unanswered(x *Exchange) Fault {
	err := x.Err
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := short(secret.Redact(err.Error(), s.Keys...))
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
		fault.Message = "the server answered with an error: " + short(secret.Redact(reason.Text, s.Keys...))
	case len(x.Body) == 0:
		fault.Message, fault.Retry = "the answer of "+s.Base+" is empty", true
	default:
		begins := cut(secret.Redact(reason.Text, s.Keys...), 200)
		fault.Message = fmt.Sprintf("the answer of %s is not the expected JSON: %s; it begins with %q", s.Base, short(fmt.Sprint(err)), begins)
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

func short(text string) string { return cut(text, maxReason) }

// cut makes text valid UTF-8 of at most limit bytes, cut at the edge of a
// character: libraries repeat the bytes of an answer as they came.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
