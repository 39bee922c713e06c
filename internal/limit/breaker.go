package limit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"extraction-experiment/internal/textutil"
)

// TrippedError is the reason why a Limiter grants no more permits. The run can be resumed when
// the reason is gone.
type TrippedError struct {
	// Reason is the failure of the call that tripped the limiter.
	Reason string
	// Why is the rule that tripped the limiter, for example "10 calls in a row failed alike".
	Why string
	// Unauthorised means that the provider does not accept the key, or that its account is used
	// up.
	Unauthorised bool
}

// Error describes what happened and what to do.
func (e *TrippedError) Error() string {
	return fmt.Sprintf("no more calls are made, because %s: %s; fix that first", e.Why, e.Reason)
}

// ExitCode returns 69 because the provider cannot be reached or does not authorise the calls.
func (*TrippedError) ExitCode() int { return 69 }

// StopsRun marks errors that stop the run. The item has not failed: it was not tried, or would
// fail like all others, and is run again when the run is resumed.
func (*TrippedError) StopsRun() {}

// StopsRun reports whether err wraps an error with a method StopsRun: the run stops, and the
// item has not failed.
func StopsRun(err error) bool {
	var stop interface{ StopsRun() }
	return errors.As(err, &stop)
}

const (
	// maxFailing is how long all calls may fail before the limiter trips. A provider that has
	// never answered has a tenth of this time, unless it rejects calls because of its limits.
	maxFailing = 30 * time.Minute
	// maxUnreached is how long all connections may fail before the limiter trips, if there
	// never was a connection. A call that is not retried ends this time early.
	maxUnreached = 15 * time.Second
)

// breaker detects that all calls fail for the same reason.
type breaker struct {
	tripped *TrippedError
	reached bool // the provider has sent a response, even a refusal
	// giveUpAt is when the breaker trips unless the provider is reached. It is zero if it is reached or
	// no connection has failed.
	giveUpAt        time.Time
	unreachedReason string    // of the last failed connection
	answered        bool      // the provider has answered a call
	since           time.Time // of the first failure after the last answer, or zero
	reason          string    // the normalised reason of the last failures
	sameFailures    int       // failures in a row with this reason
}

// succeeded records an answer. With a reason, it is one that cannot be used, such as an empty one.
func (b *breaker) succeeded(r Result) {
	b.answered, b.since = true, time.Time{}
	if r.Reason == "" {
		b.sameFailures = 0
	} else if r.Final && b.tripped == nil {
		b.failedAlike(r)
	}
}

// expire trips the breaker if the provider was not reached in time.
func (b *breaker) expire(now time.Time) {
	if b.tripped == nil && !b.giveUpAt.IsZero() && !now.Before(b.giveUpAt) {
		b.tripped = &TrippedError{Reason: b.unreachedReason, Why: "the provider was never reached"}
	}
}

// failed records a call without an answer.
func (b *breaker) failed(now, began time.Time, r Result) {
	if b.tripped != nil {
		return
	}
	if r.Unreached && !b.reached {
		b.unreachedReason = r.Reason
		switch {
		case r.Final:
			b.giveUpAt = now
		case b.giveUpAt.IsZero():
			b.giveUpAt = began.Add(maxUnreached)
		}
		b.expire(now)
		return
	}
	r.Fatal = r.Fatal || r.Forbidden && !b.answered
	if r.Fatal {
		b.trip(r, "the provider does not accept the key or its account is used up")
		return
	}
	if b.since.IsZero() {
		b.since = now
	}
	patience := maxFailing
	if !b.answered && r.Kind != Rejected {
		patience /= 10
	}
	if lasts := now.Sub(b.since); lasts >= patience {
		b.trip(r, "no call was answered for %s", lasts.Round(time.Second))
	} else if r.Final {
		b.failedAlike(r)
	}
}

func (b *breaker) trip(r Result, format string, args ...any) {
	b.tripped = &TrippedError{Reason: r.Reason, Why: fmt.Sprintf(format, args...), Unauthorised: r.Fatal}
}

// failedAlike records a call that is not retried, and trips the breaker if all the last ones failed
// for the same reason.
func (b *breaker) failedAlike(r Result) {
	if reason := normalised(r.Reason); reason != b.reason {
		b.reason, b.sameFailures = reason, 0
	}
	if b.sameFailures++; b.sameFailures >= maxSameFailures {
		b.trip(r, "%d calls in a row failed alike", b.sameFailures)
	}
}

// quoted matches a text in quotation marks, which may be cut.
var quoted = textutil.Pattern(`"(?:[^"\\]|\\.)*"?`)

// normalised removes what differs from call to call: quoted texts, such as the beginning of an
// answer, and the words with digits, for example ids, times and counts.
func normalised(reason string) string {
	numbered := func(word string) bool { return strings.ContainsFunc(word, unicode.IsDigit) }
	return strings.Join(slices.DeleteFunc(strings.Fields(quoted().ReplaceAllString(reason, "")), numbered), " ")
}
