package embedded

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Faults says how a server behaves badly, for tests of what talks to it. The
// zero value behaves well.
type Faults struct {
	// Latency passes before each answer.
	Latency time.Duration
	// Fail is the share of requests that fail, from 0 to 1: with 500 or 503, with
	// 429 with or without Retry-After, by a connection that is cut before or
	// after the work was done or in the middle of the answer, and for
	// POST /ingestion also by a 207 that refuses some events with status 500.
	// The same requests in the same order fail in the same way.
	Fail float64
	// RateLimit is how many requests each bucket of Langfuse Cloud takes in a
	// minute; the next ones are 429 with Retry-After. 0 means no limit.
	RateLimit int
}

func (f Faults) check() error {
	return errors.Join(
		unless(f.Fail >= 0 && f.Fail <= 1, "the share of failing requests is %v: give a number from 0 to 1", f.Fail),
		unless(f.Latency >= 0, "the latency cannot be negative"),
		unless(f.RateLimit >= 0, "the rate limit is %d: give a number of requests, or 0 for none", f.RateLimit))
}

// unless is an error where something does not hold.
func unless(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// faulty makes requests fail. It is safe for concurrent use.
type faulty struct {
	Faults
	mu      sync.Mutex
	dice    *rand.Rand
	windows map[string]window // by bucket
}

// window is a minute in which a bucket takes so many requests.
type window struct {
	ends time.Time
	used int
}

// newFaulty returns nil for the zero value, which costs nothing.
func newFaulty(f Faults) *faulty {
	if f == (Faults{}) {
		return nil
	}
	return &faulty{Faults: f, dice: rand.New(rand.NewPCG(1, 1)), windows: map[string]window{}}
}

// serve answers a call with what work returns, or lets it fail.
func (f *faulty) serve(c *call, rt route, now time.Time, work func() response) {
	select {
	case <-time.After(f.Latency):
	case <-c.r.Context().Done():
		panic(http.ErrAbortHandler) // the caller is gone
	}
	if ends, met := f.limit(bucket(rt.pattern), now); met {
		wait := int(math.Ceil(ends.Sub(now).Seconds()))
		tooMany(c.w, wait, object{"retryAfterSeconds": wait, "limit": f.RateLimit, "remaining": 0, "resetAt": iso(ends.UnixMilli())})
		return
	}
	f.mu.Lock()
	fails, way, seed := f.dice.Float64() < f.Fail, f.dice.IntN(9), f.dice.Uint64()
	f.mu.Unlock()
	if !fails {
		work().write(c.w)
		return
	}
	if !strings.HasSuffix(rt.pattern, "/ingestion") {
		way %= 7
	}
	switch way {
	case 0:
		jsonAnswer(http.StatusInternalServerError, object{"message": "Internal Server Error"}).write(c.w)
	case 1:
		page(http.StatusServiceUnavailable, "<html><h1>503 Service Unavailable</h1></html>").write(c.w)
	case 2:
		tooMany(c.w, 1, object{"retryAfterSeconds": 1})
	case 3:
		response{http.StatusTooManyRequests, "text/plain; charset=utf-8", []byte("429 - rate limit exceeded")}.write(c.w)
	case 4:
		panic(http.ErrAbortHandler)
	case 5:
		work()
		panic(http.ErrAbortHandler)
	case 6:
		whole := work()
		c.w.Header().Set("Content-Length", strconv.Itoa(len(whole.body)))
		whole.body = whole.body[:len(whole.body)/2]
		whole.write(c.w)
		_ = http.NewResponseController(c.w).Flush() // the half arrives or it does not
		panic(http.ErrAbortHandler)
	default:
		dice := rand.New(rand.NewPCG(1, seed))
		c.refuse = func() bool { return dice.IntN(2) == 0 }
		work().write(c.w)
	}
}

// limit counts a request in the minute of its bucket, and says whether the
// bucket had taken as many as it takes, and when it takes more.
func (f *faulty) limit(name string, now time.Time) (ends time.Time, met bool) {
	if f.RateLimit == 0 || name == "" {
		return ends, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.windows[name]
	if !now.Before(current.ends) {
		current = window{ends: now.Add(time.Minute)}
	}
	current.used++
	f.windows[name] = current
	return current.ends, current.used > f.RateLimit
}

// bucket names the group of routes that share a limit; prompts, health and
// projects have none, nor has what is not of Langfuse.
func bucket(pattern string) string {
	method, path, _ := strings.Cut(pattern, " ")
	path, public := strings.CutPrefix(path, "/api/public/")
	first, _, _ := strings.Cut(path, "/")
	switch {
	case !public || strings.Contains(path, "prompts") || first == "health" || first == "projects":
		return ""
	case first == "otel" || first == "ingestion":
		return "ingestion"
	case strings.HasPrefix(strings.TrimPrefix(path, "v2/"), "dataset"):
		return "datasets"
	case first == "annotation-queues":
		return first
	case method == http.MethodDelete && first == "scores":
		return "score-delete"
	case first == "traces" || first == "observations":
		return "public-api-legacy"
	}
	return "public-api"
}

// tooMany answers 429 as Langfuse Cloud does.
func tooMany(w http.ResponseWriter, seconds int, details object) {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	jsonAnswer(http.StatusTooManyRequests,
		object{"message": "Rate limit exceeded", "code": "rate_limited", "details": details}).write(w)
}
