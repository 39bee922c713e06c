package experiment

import (
	"sync"

	"extraction-experiment/outcome"
)

// serialObserver calls an Observer from many workers, one call at a time.
type serialObserver struct {
	mu sync.Mutex
	to Observer
}

func (s *serialObserver) listed(items int) {
	s.tell(func(o Observer) { o.Listed(items) })
}

func (s *serialObserver) planned(total, done int) {
	s.tell(func(o Observer) { o.Planned(total, done) })
}

func (s *serialObserver) started(item string) { s.tell(func(o Observer) { o.Started(item) }) }

func (s *serialObserver) done(out outcome.Outcome) { s.tell(func(o Observer) { o.Done(out) }) }

func (s *serialObserver) tell(f func(Observer)) {
	if s.to == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.to)
}
