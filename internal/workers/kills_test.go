package workers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/testkit/suite"
)

// TestWork_kills kills a worker, kills the coordinator and restarts the NATS server in turn, at
// random times, and checks that in the end every item has one outcome. With EXPERIMENT_TEST_FULL it
// also checks that no more calls were repeated than units were in hand at these times.
// EXPERIMENT_TEST_KILLS_SEED sets the seed.
func TestWork_kills(t *testing.T) {
	t.Parallel()
	kills, seed := 3, uint64(1)
	if suite.Full() {
		kills, seed = 200, uint64(time.Now().UnixNano())
	}
	if given := os.Getenv("EXPERIMENT_TEST_KILLS_SEED"); given != "" {
		if _, err := fmt.Sscan(given, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, seed %d", kills, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	items := 60*kills + 100
	f := newFixture(t, items)
	f.lease = 3 * time.Second       // long enough to be extended in time on a busy machine
	var calls, allowed atomic.Int64 // later calls wait, so that the run does not end before the kills
	pace := lengthTask(func(ctx context.Context, _ experiment.Item) error {
		for n := calls.Add(1); ctx.Err() == nil; {
			sleep(ctx, 5*time.Millisecond)
			if n <= allowed.Load() {
				break
			}
		}
		return ctx.Err()
	})
	const workers, concurrency = 3, 4 // concurrency is that of startWorker
	var kill [workers]func()
	for i := range kill {
		_, kill[i], _ = f.startWorker(fmt.Sprint("worker-", i), pace)
	}
	ended := make(chan error, 1)
	var killRun func()
	startRun := func(resume bool) {
		ctx, cancel := context.WithCancel(context.Background())
		coordinated := make(chan *Coordinator, 1)
		go func() {
			_, err := f.run(ctx, resume, nil, func(c *Coordinator) { coordinated <- c })
			ended <- err
		}()
		select {
		case dead := <-coordinated:
			killRun = func() {
				cancel()
				dead.cancel()
				dead.conn.Close()
			}
		case err := <-ended:
			t.Fatalf("the coordinator did not begin: %v", err)
		}
	}
	startRun(false)
	inHand := 0
	for n := range kills {
		target := calls.Load() + 5 + random.Int64N(30)
		allowed.Store(target)
		waitFor(t, "calls", func() bool { return calls.Load() >= target || len(ended) > 0 })
		if len(ended) > 0 {
			t.Fatalf("the run ended before kill %d: %v", n, <-ended)
		}
		switch n % 3 {
		case 0:
			i := random.IntN(workers)
			kill[i]()
			inHand += concurrency
			_, kill[i], _ = f.startWorker(fmt.Sprint("worker-", i, "-after-", n), pace)
		case 1:
			killRun()
			if err := <-ended; !errors.Is(err, experiment.ErrInterrupted) {
				t.Fatalf("kill %d: %v", n, err)
			}
			startRun(true)
		case 2:
			f.server.Restart(false)
			inHand += workers * concurrency
		}
	}
	allowed.Store(math.MaxInt64)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	f.checkOutcomes(items)
	f.checkEmpty()
	repeated := calls.Load() - int64(items)
	t.Logf("%d items, %d paid twice, at most %d in hand at the kills", items, repeated, inHand)
	// On a busy machine, a lease may expire because it was not extended in time.
	if suite.Full() && repeated > int64(inHand) {
		t.Errorf("%d calls beyond the number of items, more than %d", repeated, inHand)
	}
}
