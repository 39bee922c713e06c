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

// BenchmarkWork carries b.N units of a task that does nothing over four workers of 50 each,
// server and all in this process: the units a second, and the most memory in use while
// they travel. No unit may be left.
//
//	go test ./internal/workers -run '^$' -bench Work -benchtime 200000x
func BenchmarkWork(b *testing.B) {
	f := newServer(b, DefaultLease)
	for _, name := range []string{"a", "b", "c", "d"} {
		conn := f.connect("1")
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = conn.Work(ctx, WorkerConfig{Name: name, Concurrency: 50, Open: func(context.Context, Run, func(string) pipeline.Admission) (Opened, error) {
				return Opened{Task: task(nil)}, nil
			}})
		}()
		defer func() { cancel(); <-ended }()
	}
	o := f.coordinate()
	var most, delivered atomic.Uint64
	b.ResetTimer()
	err := o.Work(b.Context(), &list{left: b.N, deliver: func(*experiment.Unit, experiment.Done) {
		if n := delivered.Add(1); b.N >= 10 && n%uint64(b.N/10) == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
			b.Logf("%7d units, %4d MB in use, %s", n, m.HeapInuse>>20, b.Elapsed().Round(100*time.Millisecond))
		}
	}})
	b.StopTimer()
	if err != nil || delivered.Load() != uint64(b.N) {
		b.Fatalf("%d of %d, %v", delivered.Load(), b.N, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "units/s")
	b.ReportMetric(float64(most.Load())/(1<<20), "most-MB")
	if err := o.Close(); err != nil {
		b.Fatal(err)
	}
	f.empty()
}

// A run of 200,000 items over four workers, run file and scores included, Langfuse off: the
// memory of it all in this process, a line for every tenth, and nothing left on the server.
func TestWork_many(t *testing.T) {
	suite.Slow(t, "it takes minutes")
	const items = 200_000
	f := newFixture(t, items)
	f.lease = DefaultLease
	began := time.Now()
	var done atomic.Int64
	for _, name := range []string{"a", "b", "c", "d"} {
		f.work(name, func(context.Context, experiment.Item) error {
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
	f.outcomes(items)
	f.empty()
}
