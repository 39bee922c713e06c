package embedded

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"extraction-experiment/internal/textutil"
)

// Faults configures how a server misbehaves, for tests of its clients. The zero value means no
// faults.
type Faults struct {
	// Latency is the delay before each request is worked on.
	Latency time.Duration
	// FailShare is the share of requests that fail, from 0 to 1. A request fails with 500 or 503, with
	// 429 with or without Retry-After, or by a connection that is cut before or after the work is
	// done or in the middle of the answer. POST /ingestion may also answer 207 and refuse some
	// events with status 500. The same requests in the same order fail in the same way.
	FailShare float64
	// RateLimit is the number of requests per minute that each bucket of Langfuse Cloud accepts.
	// Further requests get 429 with Retry-After. 0 means no limit.
	RateLimit int
}

func (f Faults) check() error {
	var problems textutil.Problems
	isShare := f.FailShare >= 0 && f.FailShare <= 1
	problems.Add(!isShare, "the share of failing requests is %v: give a number from 0 to 1", f.FailShare)
	problems.Add(f.Latency < 0, "the latency cannot be negative")
	problems.Add(f.RateLimit < 0, "the rate limit is %d: give a number of requests, or 0 for none", f.RateLimit)
	return errors.Join(problems...)
}

// faultInjector makes requests fail. It is safe for concurrent use.
type faultInjector struct {
	Faults
	mu      sync.Mutex
	random  *rand.Rand
	resetAt time.Time      // when the minute of used ends
	used    map[bucket]int // requests by bucket
}

// newFaultInjector returns nil for the zero value of Faults.
func newFaultInjector(f Faults) *faultInjector {
	if f == (Faults{}) {
		return nil
	}
	return &faultInjector{Faults: f, random: rand.New(rand.NewPCG(1, 1)), used: map[bucket]int{}}
}

// serve answers a call with the result of work, or makes it fail.
func (f *faultInjector) serve(c *call, rt route, now time.Time, work func() response) {
	select {
	case <-time.After(f.Latency):
	case <-c.r.Context().Done():
		panic(http.ErrAbortHandler) // the client is gone
	}
	if resetAt, exceeded := f.countRequest(rt.bucket, now); exceeded {
		wait := int(math.Ceil(resetAt.Sub(now).Seconds()))
		c.w.Header().Set("X-RateLimit-Limit", strconv.Itoa(f.RateLimit))
		c.w.Header().Set("X-RateLimit-Remaining", "0")
		const jsDate = "Mon Jan 02 2006 15:04:05 GMT+0000 (Coordinated Universal Time)"
		c.w.Header().Set("X-RateLimit-Reset", resetAt.UTC().Format(jsDate))
		writeTooManyRequests(c.w, wait, object{"retryAfterSeconds": wait, "limit": f.RateLimit, "remaining": 0, "resetAt": iso(resetAt.UnixMilli())})
		return
	}
	f.mu.Lock()
	fails, failure, seed := f.random.Float64() < f.FailShare, f.random.IntN(9), f.random.Uint64()
	f.mu.Unlock()
	if !fails {
		work().write(c.w)
		return
	}
	if !strings.HasSuffix(rt.pattern, "/ingestion") {
		failure %= 7
	}
	switch failure {
	case 0:
		newAnswer(http.StatusInternalServerError, object{"message": "Internal Server Error"}).write(c.w)
	case 1:
		htmlAnswer(http.StatusServiceUnavailable, "<html><h1>503 Service Unavailable</h1></html>").write(c.w)
	case 2:
		writeTooManyRequests(c.w, 1, object{"retryAfterSeconds": 1})
	case 3:
		newAnswer(http.StatusTooManyRequests, "429 - rate limit exceeded").write(c.w)
	case 4:
		panic(http.ErrAbortHandler)
	case 5:
		work()
		panic(http.ErrAbortHandler)
	case 6:
		answer := work()
		c.w.Header().Set("Content-Length", strconv.Itoa(len(answer.body)))
		answer.body = answer.body[:len(answer.body)/2]
		answer.write(c.w)
		_ = http.NewResponseController(c.w).Flush() // the client may be gone
		panic(http.ErrAbortHandler)
	default:
		random := rand.New(rand.NewPCG(1, seed))
		c.refuse = func() bool { return random.IntN(2) == 0 }
		work().write(c.w)
	}
}

// countRequest counts a request of a bucket. It returns when the current minute ends, and whether
// the bucket is over its limit.
func (f *faultInjector) countRequest(name bucket, now time.Time) (resetAt time.Time, exceeded bool) {
	if f.RateLimit == 0 || name == unlimited {
		return resetAt, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !now.Before(f.resetAt) {
		f.resetAt = now.Add(time.Minute)
		clear(f.used)
	}
	f.used[name]++
	return f.resetAt, f.used[name] > f.RateLimit
}

// writeTooManyRequests answers 429 as Langfuse Cloud does.
func writeTooManyRequests(w http.ResponseWriter, seconds int, details object) {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	newAnswer(http.StatusTooManyRequests,
		object{"message": "Rate limit exceeded", "code": "rate_limited", "details": details}).write(w)
}
