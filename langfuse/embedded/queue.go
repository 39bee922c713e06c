package embedded

import (
	"errors"
	"math"
	"sort"
	"sync"
	"time"
)

// queue holds writes that were acknowledged and are not done yet. It is empty
// unless a delay is configured.
type queue struct {
	mu   sync.Mutex
	jobs []job
}

// job is one write and the instant at which it is done, in milliseconds.
type job struct {
	due  int64
	work func(*transaction) error
}

// later does a write after a delay, at once where there is none. What waits is
// done, in order, before the first request that comes when it is due; it is in
// memory, so that a process that is killed meanwhile loses it, as Close does not.
func (s *Server) later(delay time.Duration, work func(*transaction) error) error {
	if delay <= 0 {
		return s.store.update(work)
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	due := s.now() + delay.Milliseconds()
	at := sort.Search(len(s.queue.jobs), func(i int) bool { return s.queue.jobs[i].due > due })
	s.queue.jobs = append(s.queue.jobs, job{})
	copy(s.queue.jobs[at+1:], s.queue.jobs[at:])
	s.queue.jobs[at] = job{due, work}
	return nil
}

// settle does what is due. Requests that come meanwhile wait for it.
func (s *Server) settle(now int64) error {
	if s.cfg.IngestionDelay <= 0 && s.cfg.DeleteDelay <= 0 {
		return nil
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	var errs []error
	for len(s.queue.jobs) > 0 && s.queue.jobs[0].due <= now {
		errs = append(errs, s.store.update(s.queue.jobs[0].work))
		s.queue.jobs = s.queue.jobs[1:]
	}
	return errors.Join(errs...)
}

// settleAll does everything that waits.
func (s *Server) settleAll() error {
	return s.settle(math.MaxInt64)
}
