package exchange

import (
	"fmt"
	"net/http"

	"extraction-experiment/internal/retryafter"
	"extraction-experiment/internal/secret"
)

// wrongKey are the words by which servers say with a status of 400 that the
// key is none.
var wrongKey = []string{"API_KEY_INVALID", "API_KEY_EXPIRED", "invalid_api_key"}

// spent are the words that make a 429 stay: no credit is left.
var spent = []string{"insufficient_quota", "billing_hard_limit_reached"}

// refused is the fault of an answer whose status is no success.
func (s Service) refused(x *Exchange) Fault {
	reason := ReadReason(x.Header.Get("Content-Type"), x.Body)
	said := short(secret.Redact(reason.Text, s.Keys...))
	switch {
	case reason.HTML:
		said = fmt.Sprintf("a web page, probably of a proxy or gateway in front of %s", s.Base)
	case said == "":
		said = "the answer says nothing more"
	}
	fault := Fault{Status: x.Status, Retry: passing(x.Status), Message: fmt.Sprintf("%d: %s", x.Status, said)}
	if fault.Retry {
		fault.RetryAfter = max(retryafter.Of(x.Header, s.Now()), reason.RetryDelay)
	}
	switch {
	case x.Status == http.StatusTooManyRequests:
		fault.Kind = Limited
		if hasAny(reason, spent) {
			fault.Retry, fault.RetryAfter = false, 0
			fault.Message += fmt.Sprintf("; the account of %s has no credit left", s.KeyVariable)
		} else if fault.RetryAfter > 0 {
			fault.Message += fmt.Sprintf("; the server asks to wait %s", fault.RetryAfter)
		}
	case x.Status == http.StatusUnauthorized, x.Status == http.StatusForbidden, hasAny(reason, wrongKey):
		fault.Message += fmt.Sprintf("; check %s: the key must be valid at %s and may use the model", s.KeyVariable, s.Base)
	case x.Status == http.StatusNotFound, x.Status == http.StatusMethodNotAllowed:
		fault.Message += fmt.Sprintf("; check that %s has the model %q, and %s", s.Base, s.Model, s.BaseVariable)
	case x.Status >= 300 && x.Status < 400:
		to := cut(secret.Redact(x.Header.Get("Location"), s.Keys...), 300)
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

func hasAny(r Reason, codes []string) bool {
	for _, code := range codes {
		if r.Has(code) {
			return true
		}
	}
	return false
}
