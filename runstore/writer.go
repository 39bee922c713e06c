package runstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"
)

// A transaction takes what is waiting, up to these bounds: one sync then serves
// all of it. A single larger write is a transaction of its own.
const (
	maxBatchWrites = 512
	maxBatchBytes  = 4 << 20
)

// write is one change that somebody waits for.
type write struct {
	apply func(*tx) error
	bytes int
	done  chan error // holds one
}

// writer owns the only connection that writes. One goroutine takes what is
// queued, makes it one transaction with one sync, and then tells everybody. The
// first error of the disk ends it: everyone waiting gets that error, and so
// does everyone who comes later.
type writer struct {
	path string
	db   *sql.DB
	tx   *tx

	marked   bool // the file itself says that there is a log
	queue    chan *write
	finished chan struct{} // closed when the goroutine has ended
	failed   error         // owned by the goroutine until finished is closed

	mu      sync.Mutex
	stopped bool
	senders sync.WaitGroup
	changed chan struct{} // closed, and made anew, at every commit
}

func startWriter(path string) (*writer, error) {
	ctx := context.Background()
	db, err := connect(path, 1, "mode=rw")
	if err != nil {
		return nil, fault(path, ErrWrite, err)
	}
	t, err := openTx(ctx, path, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	w := &writer{
		path: path, db: db, tx: t,
		queue: make(chan *write), finished: make(chan struct{}), changed: make(chan struct{}),
	}
	go w.loop()
	return w, nil
}

// submit queues a change and waits until it is durable or refused. Once queued,
// it is waited for whatever becomes of ctx: nobody is left in doubt.
func (w *writer) submit(ctx context.Context, bytes int, apply func(*tx) error) error {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return fault(w.path, ErrClosed, nil)
	}
	w.senders.Add(1)
	w.mu.Unlock()
	defer w.senders.Done()

	if err := ctx.Err(); err != nil {
		return err
	}
	wr := &write{apply, bytes, make(chan error, 1)}
	select {
	case w.queue <- wr:
		return <-wr.done
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) loop() {
	defer close(w.finished)
	for first := range w.queue {
		batch := w.take(first)
		results := make([]error, len(batch))
		if w.failed == nil {
			w.failed = w.commit(batch, results)
		}
		for i, wr := range batch {
			if w.failed != nil {
				results[i] = w.failed
			}
			wr.done <- results[i]
		}
		w.announce()
	}
}

// take returns the first write and what else waits, within the bounds.
func (w *writer) take(first *write) []*write {
	batch, bytes := []*write{first}, first.bytes
	for len(batch) < maxBatchWrites && bytes < maxBatchBytes {
		select {
		case wr, open := <-w.queue:
			if !open {
				return batch
			}
			batch, bytes = append(batch, wr), bytes+wr.bytes
		default:
			return batch
		}
	}
	return batch
}

// commit makes the batch one durable transaction. The result of a write that
// was refused (an unknown item, say) stands in results and hinders no other; an
// error of the database is returned, and nothing of the batch is there.
func (w *writer) commit(batch []*write, results []error) error {
	if err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		return faultOf(w.path, ErrWrite, err)
	}
	for i, wr := range batch {
		results[i] = wr.apply(w.tx)
		if sqliteCode(results[i]) != 0 {
			return w.abandon(results[i])
		}
	}
	if err := w.tx.saveWords(); err != nil {
		return w.abandon(err)
	}
	if !w.marked {
		if err := w.tx.setMeta(keyLog, true); err != nil {
			return w.abandon(err)
		}
	}
	failpoint("before")
	if err := w.tx.exec("COMMIT"); err != nil {
		return w.abandon(err)
	}
	failpoint("after")
	if !w.marked {
		w.marked = w.tx.markLog()
	}
	return nil
}

// abandon rolls back. SQLite has done so already after some errors, a full disk
// among them, and then says that there is no transaction.
func (w *writer) abandon(cause error) error {
	err := w.tx.exec("ROLLBACK")
	if sqliteCode(err) == sqlite3.SQLITE_ERROR {
		err = nil
	}
	return faultOf(w.path, ErrWrite, errors.Join(cause, err))
}

func (w *writer) announce() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

// Changed returns a channel that is closed after the next transaction, or when
// the run is closed. Taken before a look at Unpublished it misses nothing:
//
//	changed := run.Changed()
//	pending, err := run.Unpublished(ctx, 0, 100)
//	… if there were none: <-changed
func (r *Run) Changed() <-chan struct{} {
	r.writer.mu.Lock()
	defer r.writer.mu.Unlock()
	return r.writer.changed
}

// stop refuses new writes and waits until those handed in are done. It reports
// false if that has happened before.
func (w *writer) stop() bool {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		<-w.finished
		return false
	}
	w.stopped = true
	w.mu.Unlock()
	w.senders.Wait()
	close(w.queue)
	<-w.finished
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	return true
}

// close ends the goroutine if it still runs, writes the log back and closes the
// connection.
func (w *writer) close() error {
	w.stop()
	var err error
	if w.failed == nil {
		err = w.tx.settle()
	}
	return errors.Join(faultOf(w.path, ErrWrite, errors.Join(err, w.tx.close())), w.db.Close())
}
