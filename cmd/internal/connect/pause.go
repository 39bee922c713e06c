package connect

import (
	"sync"
	"time"
)

// pause is the last one that a client made. Safe for concurrent use.
type pause struct {
	mu     sync.Mutex
	reason error
	until  time.Time
}

func (p *pause) note(reason error, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason, p.until = reason, until
}

// Paused returns why a request failed last that was to be sent again, and when it was
// to be; nil, if none has. Safe for concurrent use.
func (l *Langfuse) Paused() (reason error, until time.Time) {
	l.paused.mu.Lock()
	defer l.paused.mu.Unlock()
	return l.paused.reason, l.paused.until
}
