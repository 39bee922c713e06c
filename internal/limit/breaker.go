package limit

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// TrippedError says why no more calls are made. What it stops can be taken up
// again when the reason is gone.
type TrippedError struct {
	// Reason is how the call failed that tripped the limiter.
	Reason string
	// Why says what made that one call decide: "10 calls in a row failed alike".
	Why string
	// Unauthorised says that the provider does not accept the key, or that its
	// account is used up.
	Unauthorised bool
}

// Error says what happened and what to do.
func (e *TrippedError) Error() string {
	return fmt.Sprintf("no more calls are made, because %s: %s; see to that first", e.Why, e.Reason)
}

// ExitCode is 69: the provider cannot be reached or does not authorise.
func (*TrippedError) ExitCode() int { return 69 }

// StopsRun marks errors that are no failure of the item: it was not tried, or
// would fail like all others, and is to be run again when the run is resumed.
func (*TrippedError) StopsRun() {}

// StopsRun reports whether an error in the chain of err stops a run, and is no
// failure of the item: whether it has a method StopsRun.
func StopsRun(err error) bool {
	var stop interface{ StopsRun() }
	return errors.As(err, &stop)
}

// unmetShare is the part of the patience, 15 seconds of the usual one, for a
// provider to which there never was a connection.
const unmetShare = 120

// breaker notices that everything fails for the same reason.
type breaker struct {
	alike    int
	patience time.Duration

	tripped  *TrippedError
	met      bool      // anything ever came from the provider, refusals included
	givesUp  time.Time // when it trips unless the provider is reached; zero: none was refused, or met
	unmet    string    // why it was not reached last
	answered bool      // ever
	since    time.Time // of the first failure after the last answer; zero if there was none
	reason   string    // of the failures in a row, normalised
	inARow   int
}

// ok takes note of an answer.
func (b *breaker) ok() {
	b.answered, b.since, b.inARow = true, time.Time{}, 0
}

// expire trips where the provider was not reached by the time given to it.
func (b *breaker) expire(now time.Time) {
	if b.tripped == nil && !b.givesUp.IsZero() && !now.Before(b.givesUp) {
		b.tripped = &TrippedError{Reason: b.unmet, Why: "the provider was never reached"}
	}
}

// failed takes note of a call, begun at began, that was not answered.
func (b *breaker) failed(now, began time.Time, r Result) {
	if b.tripped != nil {
		return
	}
	if r.Unreached && !b.met {
		b.unmet = r.Reason
		switch {
		case r.Final:
			b.givesUp = now
		case b.givesUp.IsZero():
			b.givesUp = began.Add(b.patience / unmetShare)
		}
		b.expire(now)
		return
	}
	trip := func(format string, args ...any) {
		b.tripped = &TrippedError{Reason: r.Reason, Why: fmt.Sprintf(format, args...), Unauthorised: r.Fatal}
	}
	if r.Fatal {
		trip("the provider does not accept the key or its account is used up")
		return
	}
	if b.since.IsZero() {
		b.since = now
	}
	patience := b.patience
	if !b.answered && r.Kind != Rejected {
		patience /= 10
	}
	if lasts := now.Sub(b.since); lasts >= patience {
		trip("no call was answered for %s", lasts.Round(time.Second))
		return
	}
	if !r.Final {
		return
	}
	if reason := normalised(r.Reason); reason != b.reason {
		b.reason, b.inARow = reason, 0
	}
	if b.inARow++; b.inARow >= b.alike {
		trip("%d calls in a row failed alike", b.inARow)
	}
}

// normalised leaves out the words with digits in them, which differ from call to
// call: ids, times, counts.
func normalised(reason string) string {
	words := strings.Fields(reason)
	kept := words[:0]
	for _, word := range words {
		if !strings.ContainsFunc(word, unicode.IsDigit) {
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, " ")
}
