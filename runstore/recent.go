package runstore

import (
	"bytes"
	"sync"
)

// recent keeps at most maxRecent bytes of JSON. From fullRecent on workers wait; the outcomes
// that they still deliver fit between the two bounds.
const (
	maxRecent  = 5 << 20
	fullRecent = 3 << 20
)

// recent holds the oldest outcomes that were committed with their items and whose spans are not
// acknowledged, as far as they fit. It is safe for concurrent use.
type recent struct {
	mu    sync.Mutex
	rows  map[int64]*outcomeRow
	bytes int
	room  chan struct{} // closed when there is room again; nil if there is room
}

// memorySize returns the approximate memory of a row in bytes.
func (r *outcomeRow) memorySize() int {
	return r.size + len(r.source.Input) + len(r.source.Expected) + len(r.source.Metadata)
}

// put adds a row if there is room and if reading the file would give the same outcome. The file
// replaces invalid UTF-8 by \ufffd, so put skips rows that contain this text. It searches for it
// without the backslash, which is frequent and would slow down the search.
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
	if r.bytes+row.memorySize() <= maxRecent {
		row.body, row.large, row.packed = nil, nil, nil
		r.rows[oid] = row
		r.bytes += row.memorySize()
	}
	if r.room == nil && r.bytes > fullRecent {
		r.room = make(chan struct{})
	}
}

func (r *recent) get(oid int64) (*outcomeRow, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, ok := r.rows[oid]
	return row, ok
}

func (r *recent) state() (room <-chan struct{}, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room, r.bytes
}

func (r *recent) drop(oid int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if row, ok := r.rows[oid]; ok {
		r.bytes -= row.memorySize()
		delete(r.rows, oid)
	}
	if r.room != nil && r.bytes <= fullRecent*2/3 {
		close(r.room)
		r.room = nil
	}
}

// Forget frees the memory of an outcome that is not sent any more.
func (r *Run) Forget(oid int64) { r.writer.tx.recent.drop(oid) }

// Room returns nil if there is memory for further calls of CommitItem, or a channel that is
// closed when there is.
func (r *Run) Room() <-chan struct{} {
	room, _ := r.writer.tx.recent.state()
	return room
}

// MemoryHalfFull reports whether half of the memory is used at which workers have to wait, so that it
// is time to publish.
func (r *Run) MemoryHalfFull() bool {
	_, bytes := r.writer.tx.recent.state()
	return bytes > fullRecent/2
}
