package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// BenchmarkResume resumes a run of 200,000 outcomes with one item left. It measures the time
// from the start of the program to its first model call, and the peak memory including the final
// summary.
func BenchmarkResume(b *testing.B) {
	const n = 200_000
	model := newPaidModel(b)
	var first atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first.CompareAndSwap(0, time.Now().UnixNano())
		model.ServeHTTP(w, r)
	}))
	defer front.Close()
	_, env := sharedLangfuse(b, nil, direct)
	f := newFolder(b, append(env, usualGOGC, "OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL="+front.URL+"/r")...)
	file := f.writeItems(b, paidItems(3)[:1])
	args := []string{"--dataset", file, "--name", "r", "--model", "openai/gpt-test", "--prompt", "plain", "--quiet", "--max-failures", "1"}
	f.run(b, 0, args...)
	path := f.runFile(file, "r")
	grow(b, path, n)
	var calls, memory float64
	for left := 0; b.Loop(); left++ {
		b.StopTimer()
		addItem(b, path, fmt.Sprintf("left-%d", left))
		first.Store(0)
		b.StartTimer()
		began := time.Now()
		c := f.start(b, append(args, "--resume")...)
		peak := c.memory()
		c.exits(b, 0)
		calls += float64(first.Load()-began.UnixNano()) / 1e9
		memory = max(memory, float64(peak>>20))
	}
	b.ReportMetric(calls/float64(b.N), "s/first-call")
	b.ReportMetric(memory, "MB-peak")
}

// grow adds items with published outcomes, copied from the outcome of the run.
func grow(b *testing.B, path string, n int) {
	b.Helper()
	run, err := runstore.Open(path)
	must(b, err)
	var model outcome.Outcome
	for o, err := range run.Outcomes(b.Context(), runstore.Query{Depth: runstore.Full}) {
		must(b, err)
		model = o
	}
	model.Seq = 0
	for done := 0; done < n; {
		var page []dataset.Item
		for range 500 {
			page = append(page, dataset.Item{ID: fmt.Sprintf("item-%06d", done+len(page)), Input: json.RawMessage(`{"document_text":"` + strings.Repeat("x", 300) + `"}`)})
		}
		must(b, run.AddItems(b.Context(), page))
		errs := make(chan error)
		for _, item := range page {
			go func() {
				o := model
				o.Item = item.ID
				errs <- run.Commit(b.Context(), o)
			}()
		}
		for range page {
			must(b, <-errs)
		}
		done += len(page)
	}
	pending, err := run.Unpublished(b.Context(), 0, 500)
	for len(pending) > 0 && err == nil {
		var oids []int64
		for _, p := range pending {
			oids = append(oids, p.OID)
		}
		must(b, run.Ack(b.Context(), runstore.All, oids...))
		pending, err = run.Unpublished(b.Context(), 0, 500)
	}
	must(b, err)
	must(b, run.Finish(b.Context(), outcome.Footer{Status: outcome.Interrupted, Planned: n + 1}))
	must(b, run.Close())
	info, err := os.Stat(path)
	must(b, err)
	b.Logf("%d outcomes in %d MB", n+1, info.Size()>>20)
}

func addItem(b *testing.B, path, id string) {
	b.Helper()
	run, err := runstore.Open(path)
	must(b, err)
	must(b, run.AddItems(b.Context(), []dataset.Item{{ID: id, Input: json.RawMessage(`{"document_text":"Anna Keller was here."}`)}}))
	must(b, run.Close())
}
