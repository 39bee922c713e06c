package pipeline_test

import (
	"fmt"
	"strings"
	"time"
)

// profile is a provider's way to limit, and what a scheduler would need that
// knows it. Times are those at full scale.
type profile struct {
	name    string
	items   int
	most    int           // --concurrency
	latency time.Duration // L: the mean; uniform in [0.5, 1.5) of it
	timeout time.Duration // of one request
	// build makes the rule of one server.
	build func(p *fakeProvider) rule
	// formula is how calls and time follow for the scheduler that knows the
	// profile, as docs/limits.md has it: N items, C calls at once. Time is
	// given L in seconds.
	formula string
	calls   float64
	time    func(l float64) float64
	// misses says that some seeds are known to take more than 1.3 times as
	// long; docs/limits.md says how much.
	misses bool
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// minute is the number of requests in each minute of the profiles with rates.
const minute = 60

// profiles are those of docs/limits.md.
func profiles() []profile {
	all := []profile{
		slotted("8 slots, Retry-After 1 s", 2, 32, 1),
		slotted("8 slots, no header", 2, 32, 0),
		steadily("60 a minute, Retry-After", 2, 32, 60, true),
		steadily("60 a minute, one a second, Retry-After", 2, 32, 1, true),
		windowed("60 in every minute, Retry-After", 2, 32, true),
		steadily("60 a minute, no header", 2, 32, 10, false),
		windowed("60 in every minute, no header", 2, 32, false),
		closing("closed for 600 s after every 200", 2, 16),
		erring("5 % answered with 500", 2, 16),
		hanging("1 % hang", 2, 16),
		halving("16 slots, 8, 16, …", 2, 32),
	}
	return all
}

// slower are profiles whose calls take long enough at a hundredth of the time.
func slower() []profile {
	return []profile{
		slotted("8 slots, Retry-After 1 s", 12, 32, 1),
		steadily("60 a minute, Retry-After", 12, 32, 60, true),
		windowed("60 in every minute, no header", 12, 32, false),
		closing("closed for 600 s after every 200", 12, 16),
		erring("5 % answered with 500", 12, 16),
		hanging("1 % hang", 12, 16),
		halving("16 slots, 8, 16, …", 12, 32),
	}
}

// grid are the same rules with other latencies, concurrencies and headers.
func grid() []profile {
	var all []profile
	for _, l := range []float64{0.5, 2, 10} {
		for _, most := range []int{8, 32, 64} {
			at := fmt.Sprintf("; L %v s, C %d", l, most)
			for _, ask := range []float64{0, 1, 5} {
				all = append(all, slotted(fmt.Sprintf("8 slots, ask %v s", ask)+at, l, most, ask))
			}
			for _, header := range []bool{true, false} {
				for _, burst := range []float64{1, 10, 60} {
					all = append(all, steadily(fmt.Sprintf("60 a minute, burst %v, header %v", burst, header)+at, l, most, burst, header))
				}
				all = append(all, windowed(fmt.Sprintf("60 in every minute, header %v", header)+at, l, most, header))
			}
			all = append(all, closing("closing"+at, l, most), erring("500"+at, l, most), hanging("hang"+at, l, most))
			if most > 8 {
				all = append(all, halving("16/8 slots"+at, l, most))
			}
		}
	}
	for i, p := range all {
		all[i].misses = strings.Contains(p.name, "burst 1,") && p.latency == 10*time.Second
	}
	return all
}

func slotted(name string, l float64, most int, ask float64) profile {
	const n, places = 600, 8
	return profile{
		name: name, items: n, most: most, latency: seconds(l), build: slots(places, seconds(ask)),
		formula: "calls N; time N·L/8", calls: n, time: func(l float64) float64 { return n * l / places },
	}
}

// steadily saves up to burst requests; one comes in every second.
func steadily(name string, l float64, most int, burst float64, header bool) profile {
	const n = 600
	return profile{
		name: name, items: n, most: most, latency: seconds(l), build: steady(time.Minute/minute, burst, header),
		formula: "calls N; time max((N − saved up)/rate, N·L/C) + L", calls: n,
		time: func(l float64) float64 { return max(n-burst, n*l/float64(most)) + l },
	}
}

func windowed(name string, l float64, most int, header bool) profile {
	const n = 600
	const last = 60 * (n/minute - 1)
	return profile{
		name: name, items: n, most: most, latency: seconds(l), build: windows(minute, time.Minute, header),
		formula: "calls N; time max(9 min + max(L, 60·L/C), N·L/C)", calls: n,
		time: func(l float64) float64 {
			return max(last+max(l, minute*l/float64(most)), n*l/float64(most))
		},
	}
}

func closing(name string, l float64, most int) profile {
	const n, every, pause = 1000, 200, 600
	return profile{
		name: name, items: n, most: most, latency: seconds(l), build: closes(every, pause*time.Second),
		formula: "calls N; time N·L/C + 600 s · (N/200 − 1)", calls: n,
		time: func(l float64) float64 { return n*l/float64(most) + pause*(n/every-1) },
	}
}

func erring(name string, l float64, most int) profile {
	const part = 0.05
	n := 125 * most
	calls := float64(n) / (1 - part)
	return profile{
		name: name, items: n, most: most, latency: seconds(l), build: share(part, verdict{status: 500}),
		formula: "calls N/0.95; time N·L/(0.95·C)", calls: calls,
		time: func(l float64) float64 { return calls * l / float64(most) },
	}
}

func hanging(name string, l float64, most int) profile {
	const part = 0.01
	timeout := 30 * l
	n := 250 * most
	calls := float64(n) / (1 - part)
	return profile{
		name: name, items: n, most: most, latency: seconds(l), timeout: seconds(timeout),
		build:   share(part, verdict{status: 200, hang: true}),
		formula: "calls N/0.99; time (N·L + (N/0.99 − N)·T)/C, T = 30·L the timeout of a request",
		calls:   calls,
		time: func(l float64) float64 {
			return (float64(n)*l + (calls-float64(n))*timeout) / float64(most)
		},
	}
}

func halving(name string, l float64, most int) profile {
	const n, high, low = 2000, 16, 8
	return profile{
		name: name, items: n, most: most, latency: seconds(l), build: changing(high, low, seconds(30*l)),
		formula: "calls N; time N·L/12, 12 the mean number of slots; it changes every 30·L", calls: n,
		time: func(l float64) float64 { return n * l / ((high + low) / 2) },
	}
}
