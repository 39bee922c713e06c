package langfuse

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// The pauses between attempts: firstPause doubles up to maxPause; half of it
// is fixed and half is spread by jitter.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 30 * time.Second
)

// What is no answer of Langfuse's is most likely a wrong address as long as this
// server never gave one: it is asked unmetAttempts times within unmetTime.
const (
	unmetAttempts = 3
	unmetTime     = 5 * time.Second
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
	var api *APIError
	if errors.As(err, &api) {
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
	var connection *ConnectionError
	if !errors.As(err, &connection) || r.once {
		return false
	}
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	if errors.As(err, &certificate) || errors.As(err, &name) && name.IsNotFound {
		return false
	}
	return true
}

// doubtful reports whether an answer that is not Langfuse's was given so often
// by a server that never gave another that the address must be wrong.
func (c *Client) doubtful(err error, attempts int, within time.Duration) bool {
	var api *APIError
	return errors.As(err, &api) && api.foreign && !c.met.Load() && (attempts >= unmetAttempts || within >= unmetTime)
}

// pause returns how long to wait after the given attempt (1 is the first).
// What the server asks for comes first, capped by maxRetryAfter; up to a tenth
// is added to it, so that clients that were refused together do not return
// together.
func (c *Client) pause(attempt int, err error) time.Duration {
	var api *APIError
	if errors.As(err, &api) && api.RetryAfter > 0 {
		asked := min(api.RetryAfter, c.maxRetryAfter)
		return asked + time.Duration(c.jitter()*float64(asked)/10)
	}
	wait := maxPause
	if shift := attempt - 1; shift < 6 {
		wait = min(firstPause<<shift, maxPause)
	}
	return wait/2 + time.Duration(c.jitter()*float64(wait)/2)
}

// sleep waits, or returns the reason why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
