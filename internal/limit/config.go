package limit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Config says how calls are limited; the zero value is usable.
type Config struct {
	// Most is the upper bound of the calls at once; 0 means 4.
	Most int
	// RequestsPerMinute and TokensPerMinute are what the provider is known to
	// allow; 0 means that it is not known.
	RequestsPerMinute, TokensPerMinute int64
	// LongestPause bounds what a provider may ask to wait; 0 means 10 minutes.
	LongestPause time.Duration
	// Backoff is the first pause after a rejection that states none, doubled
	// with every further one; 0 means half a second. LongestBackoff bounds it;
	// 0 means 30 × Backoff.
	Backoff, LongestBackoff time.Duration
	// Patience is how long a provider may refuse or fail every call before the
	// limiter trips; 0 means 30 minutes. A tenth of it is given to a provider
	// that never answered and does not say that its limits are the reason, a
	// 120th to one to which there never was a connection, and it ends when a call
	// is given up.
	Patience time.Duration
	// Alike is how many calls in a row must fail for the same reason, without
	// one that was answered, until the limiter trips; 0 means 10.
	Alike int
	// Jitter returns a number in [0, 1) that lengthens a pause, so that several
	// processes do not end it at once; nil means a random one.
	Jitter func() float64
}

// New checks the configuration and returns every problem of it at once.
func New(cfg Config) (*Limiter, error) {
	var problems []error
	check := func(name string, value int64) {
		if value < 0 {
			problems = append(problems, fmt.Errorf("limit: Config.%s is %d: it must not be negative", name, value))
		}
	}
	check("Most", int64(cfg.Most))
	check("RequestsPerMinute", cfg.RequestsPerMinute)
	check("TokensPerMinute", cfg.TokensPerMinute)
	check("LongestPause", int64(cfg.LongestPause))
	check("Backoff", int64(cfg.Backoff))
	check("LongestBackoff", int64(cfg.LongestBackoff))
	check("Patience", int64(cfg.Patience))
	check("Alike", int64(cfg.Alike))
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	fill(&cfg.Most, 4)
	fill(&cfg.LongestPause, 10*time.Minute)
	fill(&cfg.Backoff, 500*time.Millisecond)
	fill(&cfg.LongestBackoff, time.Duration(min(30*float64(cfg.Backoff), math.MaxInt64/4)))
	fill(&cfg.Patience, 30*time.Minute)
	fill(&cfg.Alike, 10)
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	return &Limiter{
		window:   window{size: 1, most: float64(cfg.Most), starting: true, hold: leastHold, peak: -1},
		gate:     gate{cfg: cfg},
		breaker:  breaker{alike: cfg.Alike, patience: cfg.Patience},
		requests: rate{perSecond: float64(cfg.RequestsPerMinute) / 60},
		tokens:   rate{perSecond: float64(cfg.TokensPerMinute) / 60},
	}, nil
}

func fill[T int | time.Duration](value *T, fallback T) {
	if *value == 0 {
		*value = fallback
	}
}
