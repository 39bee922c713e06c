package runstore

import (
	"bytes"
	"sync"
)

// Bounds of what recent keeps, in bytes of JSON: at most maxRecent. From fullRecent on workers
// wait, and what they deliver meanwhile has room above it.
const (
	maxRecent  = 5 << 20
	fullRecent = 3 << 20
)

// recent are outcomes that were committed with their items, and whose spans were not acknowledged:
// the oldest ones, as far as they fit. Safe for concurrent use.
type recent struct {
	mu    sync.Mutex
	rows  map[int64]*outcomeRow
	bytes int
	room  chan struct{} // closed when there is room again; nil where there is
}

// kept is what the row has in memory, in bytes.
func (r *outcomeRow) kept() int {
	return r.size + len(r.source.Input) + len(r.source.Expected) + len(r.source.Metadata)
}

// put keeps a row that is as it would be read: the file has another text where one is
// not UTF-8, written as \ufffd. It is looked for without the backslash, of which there are many.
func (r *recent) put(oid int64, row *outcomeRow) {
	if row.source == nil || row.Seq == 0 || bytes.Contains(row.body, []byte("ufffd")) || bytes.Contains(row.large, []byte("ufffd")) {
		return
	}
	if row.brief != nil {
		row.size += len(row.brief) - len(row.Output)
		row.Output = row.brief
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+row.kept() <= maxRecent {
		row.body, row.large, row.packed = nil, nil, nil
		r.rows[oid] = row
		r.bytes += row.kept()
	}
	if r.room == nil && r.bytes > fullRecent {
		r.room = make(chan struct{})
	}
}

func (r *recent) get(oid int64) (*outcomeRow, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, there := r.rows[oid]
	return row, there
}

func (r *recent) state() (room <-chan struct{}, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room, r.bytes
}

func (r *recent) drop(oid int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if row, there := r.rows[oid]; there {
		r.bytes -= row.kept()
		delete(r.rows, oid)
	}
	if r.room != nil && r.bytes <= fullRecent*2/3 {
		close(r.room)
		r.room = nil
	}
}

// Room returns a channel that is closed when there is memory for what CommitItem keeps;
// nil where there is.
func (r *Run) Room() <-chan struct{} {
	room, _ := r.writer.tx.recent.state()
	return room
}

// Crowded reports whether half of the memory is taken that workers do not wait for: time to
// publish.
func (r *Run) Crowded() bool {
	_, bytes := r.writer.tx.recent.state()
	return bytes > fullRecent/2
}
