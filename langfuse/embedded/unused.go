package embedded

import (
	"net"
	"net/http"
	"sync"
)

// unused knows the connections that were opened and never used, as clients do
// that send several requests at once. A stopping http.Server would wait five
// seconds for a request on each.
type unused struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

// watch is the ConnState hook of an http.Server.
func (u *unused) watch(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state != http.StateNew {
		delete(u.conns, c)
		return
	}
	if u.conns == nil {
		u.conns = map[net.Conn]bool{}
	}
	u.conns[c] = true
}

func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close() // nobody speaks on it
	}
}
