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

// Workers, coordinators and the NATS server are killed in turn, as a seed says: at the end
// every item has one outcome, and no more was paid twice than was in hand at the kills.
// EXPERIMENT_TEST_KILLS_SEED repeats a seed.
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
	f.lease = 3 * time.Second       // a busy machine extends it in time
	var calls, allowed atomic.Int64 // later calls wait: the run must not end before the kills
	pace := task(func(ctx context.Context, _ experiment.Item) error {
		for n := calls.Add(1); ctx.Err() == nil; {
			sleep(ctx, 5*time.Millisecond)
			if n <= allowed.Load() {
				break
			}
		}
		return ctx.Err()
	})
	const workers, concurrency = 3, 4 // concurrency as fixture.work has it
	var kill [workers]func()
	for i := range kill {
		_, kill[i], _ = f.work(fmt.Sprint("worker-", i), pace)
	}
	ended := make(chan error, 1)
	var killRun func()
	begin := func(resume bool) {
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
	begin(false)
	inHand := 0
	for n := range kills {
		some := calls.Load() + 5 + random.Int64N(30)
		allowed.Store(some)
		waitFor(t, "calls", func() bool { return calls.Load() >= some || len(ended) > 0 })
		if len(ended) > 0 {
			t.Fatalf("the run ended before kill %d: %v", n, <-ended)
		}
		switch n % 3 {
		case 0:
			i := random.IntN(workers)
			kill[i]()
			inHand += concurrency
			_, kill[i], _ = f.work(fmt.Sprint("worker-", i, "-after-", n), pace)
		case 1:
			killRun()
			if err := <-ended; !errors.Is(err, experiment.ErrInterrupted) {
				t.Fatalf("kill %d: %v", n, err)
			}
			begin(true)
		case 2:
			f.server.Restart(false)
			inHand += workers * concurrency
		}
	}
	allowed.Store(math.MaxInt64)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	f.outcomes(items)
	f.empty()
	beyond := calls.Load() - int64(items)
	t.Logf("%d items, %d paid twice, at most %d in hand at the kills", items, beyond, inHand)
	// Beside other tests a lease can run out because nobody got to extend it.
	if suite.Full() && beyond > int64(inHand) {
		t.Errorf("%d calls beyond the number of items, more than %d", beyond, inHand)
	}
}
