package embedded

import (
	"maps"
	"sync"
)

// meter counts requests.
type meter struct {
	mu     sync.Mutex
	counts map[string]int64
}

// count adds a request for a route; one that fits none is counted as "unknown".
func (m *meter) count(rt route) {
	name := "unknown"
	if rt.pattern != "" {
		name = rt.method + " " + rt.pattern
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts = map[string]int64{}
	}
	m.counts[name]++
}

// Requests returns how many requests came for each route since the server was
// opened or ResetRequests was called, those that were refused or made to fail
// included. A route is named by its method and pattern, such as
// "GET /api/public/traces/{id}"; requests that fit no route are "unknown".
func (s *Server) Requests() map[string]int64 {
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	return maps.Clone(s.meter.counts)
}

// ResetRequests sets all counts of Requests to zero.
func (s *Server) ResetRequests() {
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	s.meter.counts = nil
}
