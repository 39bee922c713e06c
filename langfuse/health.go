package langfuse

import (
	"context"
	"net/http"
	"time"
)

// Health is what a server says about itself.
type Health struct {
	Status  string `json:"status"`
	Version string `json:"version"`
	// Time is the server's clock when it answered, to the second; zero if it
	// did not say. A dataset version must be taken from this clock: one taken
	// from a clock that is behind leaves items out without an error.
	Time time.Time `json:"-"`
	// Skew is how far that clock is ahead of ours (negative: behind). It is 0
	// where it is unknown, or so small that the rounding to the second and the
	// time the answer took explain it.
	Skew time.Duration `json:"-"`
}

// GetHealth asks whether the server is up and which version it is. It does not
// check the keys. Retried; errors: *APIError (503 when the server is up but
// cannot work), *ConnectionError.
//
// API: GET /api/public/health
func (c *Client) GetHealth(ctx context.Context) (Health, error) {
	var health Health
	r := request{method: http.MethodGet, path: "health", into: &health}
	answer, err := c.do(ctx, r)
	if err != nil {
		return Health{}, err
	}
	received := time.Now()
	if health.Version == "" {
		return Health{}, &APIError{
			Method: r.method, Path: apiPrefix + r.path, Status: http.StatusOK, base: c.base, class: ErrEndpointGone,
			Message: "the answer names no version: check that " + EnvBaseURL + " is a Langfuse server",
		}
	}
	// A missing or odd Date leaves the zero time.
	health.Time, _ = http.ParseTime(answer.header.Get("Date"))
	if !health.Time.IsZero() {
		health.Skew = clockSkew(answer.sent, received, health.Time)
	}
	return health, nil
}

// clockSkew returns how far a clock that showed at, cut to the second, somewhere
// between sent and received is certainly ahead (or, negative, behind): the
// distance of [at, at+1s) from [sent, received], 0 where the two meet.
func clockSkew(sent, received, at time.Time) time.Duration {
	switch {
	case at.After(received):
		return at.Sub(received)
	case at.Add(time.Second).Before(sent):
		return at.Add(time.Second).Sub(sent)
	}
	return 0
}
