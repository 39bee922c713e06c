package pipeline_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/pipeline"
)

// envProfiles is the variable of the environment for the number of seeds. It turns on the slow
// tests: the grid, and the profiles over loopback.
const envProfiles = "EXPERIMENT_PROFILES"

// TestLimited_profiles runs items through the profiles in fake time, over connections in memory,
// and compares with a scheduler that knows the profile.
func TestLimited_profiles(t *testing.T) {
	doc, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range profiles() {
		if row := "| " + p.name + " | " + p.formula + " |"; !strings.Contains(string(doc), row) {
			t.Errorf("docs/limits.md has no row %q", row)
		}
		if i%3 != 0 && !suite.Full() && extraSeeds() == 0 {
			continue
		}
		for seed := range max(1, extraSeeds()) {
			checkProfile(t, p, seed, inMemory(t, p, seed))
		}
	}
}

// extraSeeds returns the number of seeds in envProfiles, or 0.
func extraSeeds() uint64 {
	n, err := strconv.ParseUint(os.Getenv(envProfiles), 10, 16)
	if err != nil {
		return 0
	}
	return n
}

// TestLimited_grid does what TestLimited_profiles does for the profiles of gridProfiles.
func TestLimited_grid(t *testing.T) {
	if extraSeeds() == 0 {
		t.Skip("takes a minute for every three seeds: set " + envProfiles + "=3")
	}
	for _, p := range gridProfiles() {
		for seed := range extraSeeds() {
			checkProfile(t, p, seed, inMemory(t, p, seed))
		}
	}
}

// TestLimited_loopback uses real time and real connections, at a hundredth of the durations. The
// time that this machine adds to a call counts as latency of the provider.
func TestLimited_loopback(t *testing.T) {
	if extraSeeds() == 0 {
		t.Skip("takes two minutes: set " + envProfiles + "=1")
	}
	for _, p := range loopbackProfiles() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m := runProfile(t, p, 1, 100, listener, &http.Transport{MaxIdleConnsPerHost: 64})
		p.latency = m.latency
		checkProfile(t, p, 1, m)
	}
}

// checkProfile checks that m has at most 1.25 times the calls and 1.3 times the duration (1.8 times
// in slow profiles) of the ideal scheduler, and that no item failed.
func checkProfile(t *testing.T, p profile, seed uint64, m measurement) {
	t.Helper()
	calls, duration := float64(m.calls)/p.calls, m.time.Seconds()/p.time(p.latency.Seconds())
	t.Logf("| %s | seed %d | %d calls: %.2f × | %.0f s: %.2f × |", p.name, seed, m.calls, calls, m.time.Seconds(), duration)
	maxDuration := 1.3
	if p.slow {
		maxDuration = 1.8
	}
	if calls > 1.25 || duration > maxDuration {
		t.Errorf("%s, seed %d: %d calls are %.2f times those of a scheduler that knows (1.25 allowed), %s %.2f times its time (%v)",
			p.name, seed, m.calls, calls, m.time, duration, maxDuration)
	}
	if len(m.failed) > 0 {
		t.Errorf("%s, seed %d: %d items failed, the first with: %v", p.name, seed, len(m.failed), m.failed[0])
	}
}

// measurement is the result of a run over a profile, at full scale.
type measurement struct {
	calls   int
	time    time.Duration
	latency time.Duration // mean of the answered calls
	failed  []error
}

// inMemory runs a profile in fake time over connections in memory.
func inMemory(t *testing.T, p profile, seed uint64) (m measurement) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		m = runProfile(t, p, seed, 1, listener, &http.Transport{DialContext: listener.dial, MaxIdleConnsPerHost: 64})
	})
	return m
}

// runProfile runs the items of a profile through the limiter.
func runProfile(t *testing.T, p profile, seed uint64, scale int, listener net.Listener, transport *http.Transport) measurement {
	t.Helper()
	provider := newFakeProvider(p, seed, scale)
	server := &http.Server{Handler: provider}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	limited, watch := limitedModel(t, p, scale, "http://"+listener.Addr().String(), transport)
	start := time.Now()
	failed := runItems(p, limited)
	elapsed := time.Since(start) * time.Duration(scale)
	transport.CloseIdleConnections()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	serving.Wait()
	return measurement{provider.calls, elapsed, watch.mean() * time.Duration(scale), failed}
}

// limitedModel opens the model of a server, with times divided by scale.
func limitedModel(t *testing.T, p profile, scale int, address string, transport *http.Transport) (pipeline.Model, *stopwatch) {
	t.Helper()
	model := openModel(t, address, &http.Client{Transport: transport})
	shrink := func(d time.Duration) time.Duration { return d / time.Duration(scale) }
	jitter := func() float64 { return 0.5 }
	pause := shrink(500 * time.Millisecond)
	limiter := limit.New(limit.Config{MaxConcurrent: p.concurrency, Jitter: jitter, Backoff: pause})
	watch := &stopwatch{model: model}
	return pipeline.Limited(pipeline.LimitedConfig{Model: watch, Admission: pipeline.NewAdmission(limiter, nil), Timeout: shrink(p.timeout), Pause: pause, Jitter: jitter}), watch
}

// stopwatch measures how long a model takes to answer.
type stopwatch struct {
	model pipeline.Model
	mu    sync.Mutex
	sum   time.Duration
	n     time.Duration
}

func (s *stopwatch) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	start := time.Now()
	response, err := s.model.Generate(ctx, req)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sum, s.n = s.sum+time.Since(start), s.n+1
	}
	return response, err
}

func (s *stopwatch) mean() time.Duration { return s.sum / max(s.n, 1) }

// runItems runs items through as many workers as the profile allows.
func runItems(p profile, model pipeline.Model) (failed []error) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	items := make(chan int)
	for range p.concurrency {
		workers.Go(func() {
			for range items {
				_, err := model.Generate(context.Background(), pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: "document"}}})
				if err != nil {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range p.items {
		items <- i
	}
	close(items)
	workers.Wait()
	return failed
}

// pipeListener is a listener in memory.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipeListener() *pipeListener { return &pipeListener{make(chan net.Conn), make(chan struct{})} }

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error   { close(p.done); return nil }
func (p *pipeListener) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
