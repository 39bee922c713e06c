package pipeline_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// verdict is what a provider does with a request.
type verdict struct {
	status     int
	retryAfter time.Duration // 0: no header
	hang       bool
}

// rule decides about a request that arrives after the given time, at full
// scale, while others are being worked on.
type rule func(at time.Duration, working int) verdict

// fakeProvider is a server that speaks OpenAI's protocol and follows a profile.
type fakeProvider struct {
	profile profile
	scale   time.Duration // full time is divided by it
	began   time.Time

	mu       sync.Mutex
	random   *rand.Rand
	decide   rule
	working  int
	calls    int
	statuses map[int]int
}

func newFakeProvider(p profile, seed uint64, scale int) *fakeProvider {
	f := &fakeProvider{profile: p, scale: time.Duration(scale), began: time.Now(), random: rand.New(rand.NewPCG(seed, 1)), statuses: map[int]int{}}
	f.decide = p.build(f)
	return f
}

func (f *fakeProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // so that a client that goes away is noticed
	f.mu.Lock()
	f.calls++
	v := f.decide(time.Since(f.began)*f.scale, f.working)
	f.statuses[v.status]++
	took := time.Duration((0.5 + f.random.Float64()) * float64(f.profile.latency))
	if v.status != http.StatusTooManyRequests {
		f.working++
	}
	f.mu.Unlock()
	if v.status == http.StatusTooManyRequests {
		time.Sleep(f.profile.latency / 20 / f.scale) // the way there and back
		f.refuse(w, v)
		return
	}
	defer func() {
		f.mu.Lock()
		f.working--
		f.mu.Unlock()
	}()
	if v.hang {
		<-r.Context().Done()
		return
	}
	select {
	case <-time.After(took / f.scale):
	case <-r.Context().Done():
		return
	}
	if v.status != http.StatusOK {
		http.Error(w, `{"error":{"message":"seeded"}}`, v.status)
		return
	}
	_, _ = fmt.Fprint(w, `{"model":"m","choices":[{"message":{"role":"assistant","content":"{}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`)
}

func (f *fakeProvider) refuse(w http.ResponseWriter, v verdict) {
	if v.retryAfter > 0 && f.scale == 1 {
		w.Header().Set("Retry-After", strconv.Itoa(int((v.retryAfter+time.Second-1)/time.Second)))
	} else if v.retryAfter > 0 {
		seconds := (v.retryAfter + time.Second - 1) / time.Second * time.Second
		w.Header().Set("Retry-After-Ms", strconv.FormatFloat((seconds/f.scale).Seconds()*1000, 'f', -1, 64))
	}
	http.Error(w, `{"error":{"message":"slow down"}}`, v.status)
}

var rejected = verdict{status: http.StatusTooManyRequests}

// slots works on n requests at once.
func slots(n int, retryAfter time.Duration) func(*fakeProvider) rule {
	return func(*fakeProvider) rule {
		return func(_ time.Duration, working int) verdict {
			if working >= n {
				return verdict{status: http.StatusTooManyRequests, retryAfter: retryAfter}
			}
			return verdict{status: http.StatusOK}
		}
	}
}

// steady lets a request through for every interval, and saves up to burst.
func steady(every time.Duration, burst float64, header bool) func(*fakeProvider) rule {
	return func(*fakeProvider) rule {
		level, last := burst, time.Duration(0)
		return func(at time.Duration, _ int) verdict {
			level, last = min(burst, level+(at-last).Seconds()/every.Seconds()), at
			if level < 1 {
				v := rejected
				if header {
					v.retryAfter = time.Duration((1 - level) * float64(every))
				}
				return v
			}
			level--
			return verdict{status: http.StatusOK}
		}
	}
}

// windows lets n requests through in every window of time.
func windows(n int, size time.Duration, header bool) func(*fakeProvider) rule {
	return func(*fakeProvider) rule {
		current, used := time.Duration(-1), 0
		return func(at time.Duration, _ int) verdict {
			if at/size != current {
				current, used = at/size, 0
			}
			if used >= n {
				v := rejected
				if header {
					v.retryAfter = (current+1)*size - at
				}
				return v
			}
			used++
			return verdict{status: http.StatusOK}
		}
	}
}

// closes refuses everything for a while after every n requests.
func closes(n int, pause time.Duration) func(*fakeProvider) rule {
	return func(*fakeProvider) rule {
		used, until := 0, time.Duration(0)
		return func(at time.Duration, _ int) verdict {
			if at < until {
				return verdict{status: http.StatusTooManyRequests, retryAfter: until - at}
			}
			if used == n {
				used, until = 0, at+pause
				return verdict{status: http.StatusTooManyRequests, retryAfter: pause}
			}
			used++
			return verdict{status: http.StatusOK}
		}
	}
}

// share treats a part of the requests in another way.
func share(part float64, v verdict) func(*fakeProvider) rule {
	return func(f *fakeProvider) rule {
		return func(time.Duration, int) verdict {
			if f.random.Float64() < part {
				return v
			}
			return verdict{status: http.StatusOK}
		}
	}
}

// changing has capacity for high and low calls at once, in turn.
func changing(high, low int, every time.Duration) func(*fakeProvider) rule {
	return func(*fakeProvider) rule {
		return func(at time.Duration, working int) verdict {
			n := high
			if at/every%2 == 1 {
				n = low
			}
			if working >= n {
				return rejected
			}
			return verdict{status: http.StatusOK}
		}
	}
}
