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

// envProfiles asks for what takes minutes, with so many seeds: the grid, and the
// profiles over loopback.
const envProfiles = "EXPERIMENT_PROFILES"

// TestLimited_profiles takes items through every profile in fake time, over
// connections in memory, and compares with a scheduler that knows the profile.
func TestLimited_profiles(t *testing.T) {
	doc, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range profiles() {
		if row := "| " + p.name + " | " + p.formula + " |"; !strings.Contains(string(doc), row) {
			t.Errorf("docs/limits.md has no row %q", row)
		}
		if i%3 != 0 && !suite.Full() && moreSeeds() == 0 {
			continue
		}
		for seed := range max(1, moreSeeds()) {
			compare(t, p, seed, inMemory(t, p, seed))
		}
	}
}

// moreSeeds is the number of seeds that envProfiles asks for, or 0.
func moreSeeds() uint64 {
	n, err := strconv.ParseUint(os.Getenv(envProfiles), 10, 16)
	if err != nil {
		return 0
	}
	return n
}

// TestLimited_grid does the same for other latencies, concurrencies and headers.
func TestLimited_grid(t *testing.T) {
	if moreSeeds() == 0 {
		t.Skip("takes a minute for every three seeds: set " + envProfiles + "=3")
	}
	for _, p := range grid() {
		for seed := range moreSeeds() {
			compare(t, p, seed, inMemory(t, p, seed))
		}
	}
}

// TestLimited_loopback takes real time and real connections, at a hundredth of
// the durations. What this machine adds to a call counts as part of the
// provider's latency.
func TestLimited_loopback(t *testing.T) {
	if moreSeeds() == 0 {
		t.Skip("takes two minutes: set " + envProfiles + "=1")
	}
	for _, p := range slower() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m := runProfile(t, p, 1, 100, listener, &http.Transport{MaxIdleConnsPerHost: 64})
		p.latency = m.latency
		compare(t, p, 1, m)
	}
}

// compare holds what was measured against the bounds.
func compare(t *testing.T, p profile, seed uint64, m measured) {
	t.Helper()
	calls, took := float64(m.calls)/p.calls, m.time.Seconds()/p.time(p.latency.Seconds())
	t.Logf("| %s | seed %d | %d calls: %.2f × | %.0f s: %.2f × |", p.name, seed, m.calls, calls, m.time.Seconds(), took)
	allowed := 1.3
	if p.misses {
		allowed = 1.8
	}
	if calls > 1.25 || took > allowed {
		t.Errorf("%s, seed %d: %d calls are %.2f times those of a scheduler that knows (1.25 allowed), %s %.2f times its time (%v)",
			p.name, seed, m.calls, calls, m.time, took, allowed)
	}
	if len(m.failed) > 0 {
		t.Errorf("%s, seed %d: %d items failed, the first with: %v", p.name, seed, len(m.failed), m.failed[0])
	}
}

// measured is what a run over a profile came to, at full scale.
type measured struct {
	calls   int
	time    time.Duration
	latency time.Duration // mean of the calls that were answered
	failed  []error
}

func inMemory(t *testing.T, p profile, seed uint64) (m measured) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener := newPipes()
		m = runProfile(t, p, seed, 1, listener, &http.Transport{DialContext: listener.dial, MaxIdleConnsPerHost: 64})
	})
	return m
}

// runProfile takes the items of a profile through the limiter.
func runProfile(t *testing.T, p profile, seed uint64, scale int, listener net.Listener, transport *http.Transport) measured {
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
	began := time.Now()
	failed := work(p, limited)
	took := time.Since(began) * time.Duration(scale)
	transport.CloseIdleConnections()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	serving.Wait()
	return measured{provider.calls, took, watch.mean() * time.Duration(scale), failed}
}

// limitedModel is the model of a profile's server, with times shrunk by scale.
func limitedModel(t *testing.T, p profile, scale int, address string, transport *http.Transport) (pipeline.Model, *stopwatch) {
	t.Helper()
	model := openModel(t, address, &http.Client{Transport: transport})
	shrink := func(d time.Duration) time.Duration { return d / time.Duration(scale) }
	jitter := func() float64 { return 0.5 }
	pause := shrink(500 * time.Millisecond)
	limiter := limit.New(limit.Config{Most: p.most, Jitter: jitter, Backoff: pause})
	watch := &stopwatch{model: model}
	return pipeline.Limited(pipeline.LimitedConfig{Model: watch, Admission: pipeline.NewAdmission(limiter, nil), Timeout: shrink(p.timeout), Pause: pause, Jitter: jitter}), watch
}

// stopwatch is a model that measures how long another takes to answer.
type stopwatch struct {
	model pipeline.Model
	mu    sync.Mutex
	sum   time.Duration
	n     time.Duration
}

func (s *stopwatch) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	began := time.Now()
	response, err := s.model.Generate(ctx, req)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sum, s.n = s.sum+time.Since(began), s.n+1
	}
	return response, err
}

func (s *stopwatch) mean() time.Duration { return s.sum / max(s.n, 1) }

// work takes items through as many workers as may call at once.
func work(p profile, model pipeline.Model) (failed []error) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	items := make(chan int)
	for range p.most {
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

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
