package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"extraction-experiment/langfuse/embedded"
)

// heldLangfuse is a Langfuse that answers no write until it is released.
type heldLangfuse struct {
	behind   http.Handler
	released chan struct{}
	held     atomic.Int32
}

func (h *heldLangfuse) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		h.held.Add(1)
		<-h.released
	}
	h.behind.ServeHTTP(w, r)
}

// TestRun_workersNeverWaitForLangfuse: the model receives the requests for all items before
// Langfuse has answered a single write, so no worker waits for a write.
func TestRun_workersNeverWaitForLangfuse(t *testing.T) {
	t.Parallel()
	const n = 60
	items, model := paidItems(n), newPaidModel(t)
	var asked atomic.Int32
	hold := &heldLangfuse{released: make(chan struct{})}
	var release sync.Once
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		model.ServeHTTP(w, r)
		if asked.Add(1) == n-1 { // one item fails without a call
			release.Do(func() { close(hold.released) })
		}
	}))
	defer front.Close()
	defer release.Do(func() { close(hold.released) })
	var armed atomic.Bool
	var early atomic.Int32 // writes answered before the last call
	_, env := sharedLangfuse(t, items, func(h http.Handler) http.Handler {
		hold.behind = h
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !armed.Load() {
				h.ServeHTTP(w, r)
				return
			}
			hold.ServeHTTP(w, r)
			if r.Method != http.MethodGet && asked.Load() < n-1 {
				early.Add(1)
			}
		})
	})
	armed.Store(true)
	f := newFolder(t, append(env, "OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL="+front.URL+"/r")...)
	c := f.start(t, "--dataset", "made", "--name", "r", "--model", "openai/gpt-test", "--prompt", "plain", "--max-failures", "1", "--quiet")
	select {
	case <-c.ended:
	case <-time.After(time.Minute):
		t.Fatalf("the model was asked about %d of %d items while Langfuse did not answer", asked.Load(), n-1)
	}
	c.exits(t, 0)
	if hold.held.Load() == 0 || early.Load() != 0 {
		t.Errorf("%d writes were held, %d answered before the last call", hold.held.Load(), early.Load())
	}
}

// TestRun_asksAtOnce: the run requests the dataset before the probe is answered.
func TestRun_asksAtOnce(t *testing.T) {
	t.Parallel()
	items, model := paidItems(3), newPaidModel(t)
	front := httptest.NewServer(model)
	defer front.Close()
	dataset := make(chan struct{})
	asked := sync.OnceFunc(func() { close(dataset) })
	var armed atomic.Bool
	_, env := sharedLangfuse(t, items, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if armed.Load() {
				switch path := strings.TrimPrefix(r.URL.Path, "/api/public/"); {
				case path == "projects":
					select {
					case <-dataset:
					case <-time.After(30 * time.Second):
						t.Error("the dataset was not asked meanwhile")
					}
				case path == "v2/datasets/made":
					asked()
				}
			}
			h.ServeHTTP(w, r)
		})
	})
	armed.Store(true)
	f := newFolder(t, append(env, "OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL="+front.URL+"/r")...)
	f.run(t, 0, "--dataset", "made", "--name", "r", "--model", "openai/gpt-test", "--prompt", "plain", "--max-failures", "1", "--quiet")
	select {
	case <-dataset:
	default:
		t.Error("the dataset was never asked for")
	}
}

// BenchmarkLatency runs 2,000 items of 200 ms, 50 at once, against a Langfuse that answers at
// once and one that takes 100 ms. The minimum is 8 s. A v3 server gets one request for each
// item.
func BenchmarkLatency(b *testing.B) {
	const n = 2000
	items, model := paidItems(n), newPaidModel(b)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(200 * time.Millisecond)
		model.ServeHTTP(w, r)
	}))
	defer front.Close()
	for _, mode := range []embedded.Mode{embedded.ModeV4, embedded.ModeV3} {
		var latency, requests atomic.Int64
		_, env := sharedLangfuseIn(b, mode, items, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				time.Sleep(time.Duration(latency.Load()))
				h.ServeHTTP(w, r)
			})
		})
		f := newFolder(b, append(env, usualGOGC, "OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL="+front.URL+"/r")...)
		for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
			b.Run(fmt.Sprintf("%s/%s", mode, wait), func(b *testing.B) {
				latency.Store(int64(wait))
				requests.Store(0)
				for i := 0; b.Loop(); i++ {
					name := strings.ReplaceAll(fmt.Sprintf("r-%s-%d-%d", wait, b.N, i), ".", "-")
					f.run(b, 0, "--dataset", "made", "--name", name, "--model", "openai/gpt-test", "--prompt", "plain",
						"--concurrency", "50", "--max-failures", "1", "--quiet")
				}
				b.ReportMetric(float64(requests.Load())/float64(b.N), "requests/run")
			})
		}
	}
}
