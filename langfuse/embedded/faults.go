package embedded

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
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
	//
	// Which request fails how follows from Seed, the request's bytes and how
	// often the same bytes came before; not from the order of different requests.
	Fail float64
	// RateLimit is how many requests each bucket of Langfuse Cloud takes in a
	// window; the next ones are 429 with Retry-After. 0 means no limit.
	RateLimit int
	// RateWindow is the length of a window; 0 means a minute.
	RateWindow time.Duration
	// RetryAfter is what random 429 answers ask for, in whole seconds; 0 means a
	// second, less than a second is written as 0.
	RetryAfter time.Duration
	// Seed chooses among the series of faults.
	Seed uint64
}

func (f Faults) check() error {
	var problems []error
	if !(f.Fail >= 0 && f.Fail <= 1) {
		problems = append(problems, fmt.Errorf("the share of failing requests is %v: give a number from 0 to 1", f.Fail))
	}
	if f.Latency < 0 || f.RateWindow < 0 || f.RetryAfter < 0 {
		problems = append(problems, errors.New("latency, rate window and retry after cannot be negative"))
	}
	if f.RateLimit < 0 {
		problems = append(problems, fmt.Errorf("the rate limit is %d: give a number of requests, or 0 for none", f.RateLimit))
	}
	return errors.Join(problems...)
}

// faulty makes requests fail. It is safe for concurrent use.
type faulty struct {
	Faults
	mu      sync.Mutex
	seen    map[uint64]uint64 // how often a request came, by its bytes
	windows map[string]window // by bucket
}

// newFaulty returns nil for the zero value, which costs nothing.
func newFaulty(f Faults) *faulty {
	if f.Latency == 0 && f.Fail == 0 && f.RateLimit == 0 {
		return nil
	}
	if f.RateWindow == 0 {
		f.RateWindow = time.Minute
	}
	if f.RetryAfter == 0 {
		f.RetryAfter = time.Second
	}
	return &faulty{Faults: f, seen: map[uint64]uint64{}, windows: map[string]window{}}
}

// serve passes a request on to next, or lets it fail.
func (f *faulty) serve(w http.ResponseWriter, r *http.Request, rt route, now time.Time, next http.HandlerFunc) {
	if !f.wait(r) {
		panic(http.ErrAbortHandler) // the caller is gone
	}
	if f.limit(w, rt, now) {
		return
	}
	body, err := bufferBody(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	dice := f.dice(r, body)
	if dice.Float64() >= f.Fail {
		next(w, r)
		return
	}
	f.fail(w, r, rt, body, dice, next)
}

// wait lets the latency pass; it is false where the request ended before.
func (f *faulty) wait(r *http.Request) bool {
	if f.Latency == 0 {
		return true
	}
	timer := time.NewTimer(f.Latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// dice returns the chances of a request: the same for the same request at its
// same repetition.
func (f *faulty) dice(r *http.Request, body []byte) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s\n", r.Method, r.URL.RequestURI())
	_, _ = h.Write(body) // a hash takes everything
	key := h.Sum64()
	f.mu.Lock()
	defer f.mu.Unlock()
	times := f.seen[key]
	f.seen[key]++
	return rand.New(rand.NewPCG(f.Seed^key, times))
}
