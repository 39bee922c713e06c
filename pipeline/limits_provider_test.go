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

// verdict is how a provider handles a request.
type verdict struct {
	status     int
	retryAfter time.Duration // 0: no header
	hang       bool
}

// rule decides about a request that arrives at the given time, at full scale, while inFlight others
// are in progress.
type rule func(at time.Duration, inFlight int) verdict

// fakeProvider is a server that speaks the OpenAI protocol and follows a profile.
type fakeProvider struct {
	profile profile
	scale   time.Duration // divisor of all times
	start   time.Time

	mu       sync.Mutex
	random   *rand.Rand
	decide   rule
	inFlight int
	calls    int
	statuses map[int]int
}

func newFakeProvider(p profile, seed uint64, scale int) *fakeProvider {
	f := &fakeProvider{profile: p, scale: time.Duration(scale), start: time.Now(), random: rand.New(rand.NewPCG(seed, 1)), statuses: map[int]int{}}
	f.decide = p.build(f)
	return f
}

func (f *fakeProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the client disconnects
	f.mu.Lock()
	f.calls++
	v := f.decide(time.Since(f.start)*f.scale, f.inFlight)
	f.statuses[v.status]++
	latency := time.Duration((0.5 + f.random.Float64()) * float64(f.profile.latency))
	if v.status != http.StatusTooManyRequests {
		f.inFlight++
	}
	f.mu.Unlock()
	if v.status == http.StatusTooManyRequests {
		time.Sleep(f.profile.latency / 20 / f.scale) // the round trip
		f.refuse(w, v)
		return
	}
	defer func() {
		f.mu.Lock()
		f.inFlight--
		f.mu.Unlock()
	}()
	if v.hang {
		<-r.Context().Done()
		return
	}
	select {
	case <-time.After(latency / f.scale):
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

// slotRule rejects requests while n others are in progress.
func slotRule(n int, retryAfter time.Duration) func(*fakeProvider) rule {
	return func(*fakeProvider) rule {
		return func(_ time.Duration, working int) verdict {
			if working >= n {
				return verdict{status: http.StatusTooManyRequests, retryAfter: retryAfter}
			}
			return verdict{status: http.StatusOK}
		}
	}
}

// rateRule is a token bucket, which gains a request every interval and holds up to burst.
func rateRule(every time.Duration, burst float64, header bool) func(*fakeProvider) rule {
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

// windowRule accepts n requests in every window of time.
func windowRule(n int, size time.Duration, header bool) func(*fakeProvider) rule {
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

// pauseRule rejects everything during a pause after every n requests.
func pauseRule(n int, pause time.Duration) func(*fakeProvider) rule {
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

// shareRule gives v to a random share of the requests and accepts the others.
func shareRule(part float64, v verdict) func(*fakeProvider) rule {
	return func(f *fakeProvider) rule {
		return func(time.Duration, int) verdict {
			if f.random.Float64() < part {
				return v
			}
			return verdict{status: http.StatusOK}
		}
	}
}

// varyingRule accepts at most high requests at once, then at most low, in turns.
func varyingRule(high, low int, every time.Duration) func(*fakeProvider) rule {
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
