package workers

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/pipeline"
)

// BenchmarkWork distributes b.N units over four workers that work on 50 units each. Server, workers
// and coordinator are in this process. It reports the units per second and the largest heap, and
// checks that nothing is left on the server.
//
//	go test ./internal/workers -run '^$' -bench Work -benchtime 200000x
func BenchmarkWork(b *testing.B) {
	f := newServerFixture(b, DefaultLease)
	for _, name := range []string{"a", "b", "c", "d"} {
		conn := f.connect("1")
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = conn.Work(ctx, WorkerConfig{Name: name, Concurrency: 50, Open: func(context.Context, Run, func(string) pipeline.Admission) (Opened, error) {
				return Opened{Task: lengthTask(nil)}, nil
			}})
		}()
		defer func() { cancel(); <-ended }()
	}
	o := f.coordinate()
	var peakHeap, delivered atomic.Uint64
	b.ResetTimer()
	err := o.Work(b.Context(), &fakeQueue{left: b.N, deliver: func(*experiment.Unit, experiment.Done) {
		if n := delivered.Add(1); b.N >= 10 && n%uint64(b.N/10) == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peakHeap.Store(max(peakHeap.Load(), m.HeapInuse))
			b.Logf("%7d units, %4d MB in use, %s", n, m.HeapInuse>>20, b.Elapsed().Round(100*time.Millisecond))
		}
	}})
	b.StopTimer()
	if err != nil || delivered.Load() != uint64(b.N) {
		b.Fatalf("%d of %d, %v", delivered.Load(), b.N, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "units/s")
	b.ReportMetric(float64(peakHeap.Load())/(1<<20), "most-MB")
	if err := o.Close(); err != nil {
		b.Fatal(err)
	}
	f.checkEmpty()
}

// TestWork_many carries out a run of 200,000 items with four workers, with a run file and scores,
// but without Langfuse. It logs the memory of this process after each tenth of the items, and
// checks that every item has one outcome and that nothing is left on the server.
func TestWork_many(t *testing.T) {
	suite.Slow(t, "it takes minutes")
	const items = 200_000
	f := newFixture(t, items)
	f.lease = DefaultLease
	began := time.Now()
	var done atomic.Int64
	for _, name := range []string{"a", "b", "c", "d"} {
		f.startWorker(name, func(context.Context, experiment.Item) error {
			if n := done.Add(1); n%(items/10) == 0 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				t.Logf("%7d units, %4d MB in use, %s", n, m.HeapInuse>>20, time.Since(began).Round(100*time.Millisecond))
			}
			return nil
		})
	}
	if _, err := f.run(t.Context(), false, nil, nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %d calls", time.Since(began).Round(100*time.Millisecond), done.Load())
	f.checkOutcomes(items)
	f.checkEmpty()
}
