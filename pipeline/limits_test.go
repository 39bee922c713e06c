package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider/openai"
)

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

// measured is what a run over a profile came to, at full scale.
type measured struct {
	calls    int
	time     time.Duration
	failed   []error
	statuses map[int]int
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
	model, err := openai.New(openai.Config{Model: "m", BaseURL: "http://" + listener.Addr().String(), HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	shrink := func(d time.Duration) time.Duration { return d / time.Duration(scale) }
	jitter := func() float64 { return 0.5 }
	limiter, err := limit.New(limit.Config{Most: p.most, Jitter: jitter, Backoff: shrink(500 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	limited, err := pipeline.Limited(pipeline.LimitedConfig{Model: model, Limiter: limiter, Timeout: shrink(p.timeout), Pause: shrink(500 * time.Millisecond), Jitter: jitter})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	failed := work(p, limited)
	took := time.Since(began) * time.Duration(scale)
	transport.CloseIdleConnections()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	serving.Wait()
	if os.Getenv("LOOK") != "" {
		fmt.Println(limiter.State())
	}
	return measured{provider.calls, took, failed, provider.statuses}
}

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

func TestTune(t *testing.T) {
	for _, p := range tuneProfiles() {
		for seed := range uint64(3) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				m := runProfile(t, p, seed, 1, l, &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 64})
				flag := ""
				if float64(m.calls) > 1.25*p.calls || m.time > p.time*13/10 || len(m.failed) > 0 {
					flag = "  <<<<"
				}
				fmt.Printf("%-34s seed %d calls %5d %.2f  time %7.0f of %7.0f %.2f failed %d %v%s\n", p.name, seed, m.calls, float64(m.calls)/p.calls, m.time.Seconds(), p.time.Seconds(), m.time.Seconds()/p.time.Seconds(), len(m.failed), m.statuses, flag)
				if len(m.failed) > 0 {
					fmt.Println(m.failed[0])
				}
			})
		}
	}
}

func tuneProfiles() []profile {
	var all []profile
	add := func(p profile) { all = append(all, p) }
	for _, l := range []float64{0.5, 2, 10} {
		for _, most := range []int{8, 32, 64} {
			n := 600
			for _, ra := range []float64{0, 1, 5} {
				add(profile{name: fmt.Sprintf("slots8 ra%v L%v c%d", ra, l, most), items: n, most: most, latency: seconds(l), build: slots(8, seconds(ra)), calls: float64(n), time: seconds(float64(n) * l / 8)})
			}
			for _, h := range []bool{true, false} {
				for _, b := range []float64{1, 10, 60} {
					tm := max(float64(n)-b, float64(n)*l/float64(most))
					add(profile{name: fmt.Sprintf("rpm60 burst%v hdr%v L%v c%d", b, h, l, most), items: n, most: most, latency: seconds(l), build: steady(time.Second, b, h), calls: float64(n), time: seconds(tm + l)})
				}
				tm := 540 + max(l, 60*l/float64(most))
				if float64(most)/l < 1 {
					tm = float64(n) * l / float64(most)
				}
				add(profile{name: fmt.Sprintf("window60 hdr%v L%v c%d", h, l, most), items: n, most: most, latency: seconds(l), build: windows(60, time.Minute, h), calls: float64(n), time: seconds(tm)})
			}
			add(profile{name: fmt.Sprintf("closes200/600 L%v c%d", l, most), items: 1000, most: most, latency: seconds(l), build: closes(200, 600*time.Second), calls: 1000, time: seconds(1000*l/float64(most) + 4*600)})
			add(profile{name: fmt.Sprintf("500 L%v c%d", l, most), items: 125*most, most: most, latency: seconds(l), build: share(0.05, verdict{status: 500}), calls: 125*float64(most) / 0.95, time: seconds(125*float64(most) / .95 * l / float64(most))})
			add(profile{name: fmt.Sprintf("hang L%v c%d", l, most), items: 125*most, most: most, latency: seconds(l), timeout: seconds(30 * l), build: share(0.01, verdict{status: 200, hang: true}), calls: 125*float64(most) / 0.99, time: seconds((125*float64(most)*l + 1.25*float64(most)*30*l) / float64(most))})
			if most > 8 {
				add(profile{name: fmt.Sprintf("16/8 L%v c%d", l, most), items: 2000, most: most, latency: seconds(l), build: changing(16, 8, seconds(30*l)), calls: 2000, time: seconds(2000 * l / 12)})
			}
		}
	}
	return all
}
