package runstore

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// fill commits outcomes of n items from 512 goroutines, the number that shares a transaction.
func fill(b *testing.B, run *Run, n, size int) {
	b.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 512 {
		wg.Go(func() {
			for i := range next {
				if err := run.Commit(context.Background(), testOutcome(i, size)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{3000, 20000} {
		b.Run(fmt.Sprintf("20000x%d", size), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				run := newRun(b, 20000)
				b.StartTimer()
				fill(b, run, 20000, size)
				b.StopTimer()
				noError(b, run.Close())
				info, err := os.Stat(run.Path())
				noError(b, err)
				b.ReportMetric(float64(info.Size())/20000, "file-bytes/outcome")
				b.StartTimer()
			}
		})
	}
}

// BenchmarkLarge measures reading and resuming a run of 200,000 outcomes.
func BenchmarkLarge(b *testing.B) {
	const n = 200_000
	run := newRun(b, n)
	fill(b, run, n-10, 500)
	path := run.Path()
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			got := 0
			for _, err := range run.Outcomes(b.Context(), Query{Newest: true}) {
				noError(b, err)
				got++
			}
			if got != n-10 {
				b.Fatal(got)
			}
		}
	})
	b.Run("counts", func(b *testing.B) {
		for b.Loop() {
			_, err := run.Counts(b.Context())
			noError(b, err)
		}
	})
	b.Run("unrun", func(b *testing.B) {
		for b.Loop() {
			page, err := run.WithoutOutcome(b.Context(), 1, 0, 100)
			noError(b, err)
			if len(page) != 10 {
				b.Fatal(len(page))
			}
		}
	})
	b.Run("hashes", func(b *testing.B) {
		for b.Loop() {
			for _, err := range run.Hashes(b.Context()) {
				noError(b, err)
			}
		}
	})
	noError(b, run.Close())
	b.Run("resume", func(b *testing.B) {
		for b.Loop() {
			reopened, err := Open(path)
			noError(b, err)
			_, err = reopened.WithoutOutcome(b.Context(), 1, 0, 100)
			noError(b, err)
			noError(b, reopened.Close())
		}
	})
}
