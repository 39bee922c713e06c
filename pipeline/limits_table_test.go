package pipeline_test

import (
	"fmt"
	"strings"
	"time"
)

// profile describes how a provider limits requests, and the ideal result of a scheduler that knows
// it. Times are at full scale.
type profile struct {
	name        string
	items       int
	concurrency int           // --concurrency
	latency     time.Duration // L: the mean; uniform in [0.5, 1.5) of it
	timeout     time.Duration // of one request
	// build makes the rule of a server.
	build func(p *fakeProvider) rule
	// formula says how calls and time follow for a scheduler that knows the profile, as in
	// docs/limits.md: N items, C calls at once. time takes L in seconds.
	formula string
	calls   float64
	time    func(l float64) float64
	// slow means that some seeds take more than 1.3 times as long; docs/limits.md says how
	// much.
	slow bool
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// requestsPerMinute is the rate of the profiles with rates.
const requestsPerMinute = 60

// profiles returns the profiles of docs/limits.md.
func profiles() []profile {
	return []profile{
		slotProfile("8 slots, Retry-After 1 s", 2, 32, 1),
		slotProfile("8 slots, no header", 2, 32, 0),
		rateProfile("60 a minute, Retry-After", 2, 32, 60, true),
		rateProfile("60 a minute, one a second, Retry-After", 2, 32, 1, true),
		windowProfile("60 in every minute, Retry-After", 2, 32, true),
		rateProfile("60 a minute, no header", 2, 32, 10, false),
		windowProfile("60 in every minute, no header", 2, 32, false),
		pauseProfile("closed for 600 s after every 200", 2, 16),
		errorProfile("5 % answered with 500", 2, 16),
		hangProfile("1 % hang", 2, 16),
		varyingProfile("16 slots, 8, 16, …", 2, 32),
	}
}

// loopbackProfiles returns profiles whose calls still take long enough to measure at a hundredth of
// the durations.
func loopbackProfiles() []profile {
	return []profile{
		slotProfile("8 slots, Retry-After 1 s", 12, 32, 1),
		rateProfile("60 a minute, Retry-After", 12, 32, 60, true),
		windowProfile("60 in every minute, no header", 12, 32, false),
		pauseProfile("closed for 600 s after every 200", 12, 16),
		errorProfile("5 % answered with 500", 12, 16),
		hangProfile("1 % hang", 12, 16),
		varyingProfile("16 slots, 8, 16, …", 12, 32),
	}
}

// gridProfiles returns the same rules with other latencies, concurrencies and headers.
func gridProfiles() []profile {
	var all []profile
	for _, l := range []float64{0.5, 2, 10} {
		for _, concurrency := range []int{8, 32, 64} {
			suffix := fmt.Sprintf("; L %v s, C %d", l, concurrency)
			for _, ask := range []float64{0, 1, 5} {
				all = append(all, slotProfile(fmt.Sprintf("8 slots, ask %v s", ask)+suffix, l, concurrency, ask))
			}
			for _, header := range []bool{true, false} {
				for _, burst := range []float64{1, 10, 60} {
					all = append(all, rateProfile(fmt.Sprintf("60 a minute, burst %v, header %v", burst, header)+suffix, l, concurrency, burst, header))
				}
				all = append(all, windowProfile(fmt.Sprintf("60 in every minute, header %v", header)+suffix, l, concurrency, header))
			}
			all = append(all, pauseProfile("closing"+suffix, l, concurrency), errorProfile("500"+suffix, l, concurrency), hangProfile("hang"+suffix, l, concurrency))
			if concurrency > 8 {
				all = append(all, varyingProfile("16/8 slots"+suffix, l, concurrency))
			}
		}
	}
	for i, p := range all {
		all[i].slow = strings.Contains(p.name, "burst 1,") && p.latency == 10*time.Second
	}
	return all
}

func slotProfile(name string, l float64, concurrency int, ask float64) profile {
	const n, slots = 600, 8
	return profile{
		name: name, items: n, concurrency: concurrency, latency: seconds(l), build: slotRule(slots, seconds(ask)),
		formula: "calls N; time N·L/8", calls: n, time: func(l float64) float64 { return n * l / slots },
	}
}

// rateProfile allows a request every second and saves up to burst of them.
func rateProfile(name string, l float64, concurrency int, burst float64, header bool) profile {
	const n = 600
	return profile{
		name: name, items: n, concurrency: concurrency, latency: seconds(l), build: rateRule(time.Minute/requestsPerMinute, burst, header),
		formula: "calls N; time max((N − saved up)/rate, N·L/C) + L", calls: n,
		time: func(l float64) float64 { return max(n-burst, n*l/float64(concurrency)) + l },
	}
}

func windowProfile(name string, l float64, concurrency int, header bool) profile {
	const n = 600
	const last = 60 * (n/requestsPerMinute - 1)
	return profile{
		name: name, items: n, concurrency: concurrency, latency: seconds(l), build: windowRule(requestsPerMinute, time.Minute, header),
		formula: "calls N; time max(9 min + max(L, 60·L/C), N·L/C)", calls: n,
		time: func(l float64) float64 {
			return max(last+max(l, requestsPerMinute*l/float64(concurrency)), n*l/float64(concurrency))
		},
	}
}

func pauseProfile(name string, l float64, concurrency int) profile {
	const n, every, pause = 1000, 200, 600
	return profile{
		name: name, items: n, concurrency: concurrency, latency: seconds(l), build: pauseRule(every, pause*time.Second),
		formula: "calls N; time N·L/C + 600 s · (N/200 − 1)", calls: n,
		time: func(l float64) float64 { return n*l/float64(concurrency) + pause*(n/every-1) },
	}
}

func errorProfile(name string, l float64, concurrency int) profile {
	const part = 0.05
	n := 125 * concurrency
	calls := float64(n) / (1 - part)
	return profile{
		name: name, items: n, concurrency: concurrency, latency: seconds(l), build: shareRule(part, verdict{status: 500}),
		formula: "calls N/0.95; time N·L/(0.95·C)", calls: calls,
		time: func(l float64) float64 { return calls * l / float64(concurrency) },
	}
}

func hangProfile(name string, l float64, concurrency int) profile {
	const part = 0.01
	timeout := 30 * l
	n := 250 * concurrency
	calls := float64(n) / (1 - part)
	return profile{
		name: name, items: n, concurrency: concurrency, latency: seconds(l), timeout: seconds(timeout),
		build:   shareRule(part, verdict{status: 200, hang: true}),
		formula: "calls N/0.99; time (N·L + (N/0.99 − N)·T)/C, T = 30·L the timeout of a request",
		calls:   calls,
		time: func(l float64) float64 {
			return (float64(n)*l + (calls-float64(n))*timeout) / float64(concurrency)
		},
	}
}

func varyingProfile(name string, l float64, concurrency int) profile {
	const n, high, low = 2000, 16, 8
	return profile{
		name: name, items: n, concurrency: concurrency, latency: seconds(l), build: varyingRule(high, low, seconds(30*l)),
		formula: "calls N; time N·L/12, 12 the mean number of slots; it changes every 30·L", calls: n,
		time: func(l float64) float64 { return n * l / ((high + low) / 2) },
	}
}
