package runstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// A transaction takes what is waiting, up to these bounds: one sync then serves
// all of it. A single larger write is a transaction of its own.
//
// Where more outcomes are expected (Run.Expect), a transaction waits gather for those that
// come soon, until it has gatheredWrites: fewer transactions cost fewer syncs and fewer pages
// written. Nothing else is made to wait: workers may wait for what was published to be
// acknowledged.
const (
	maxBatchWrites = 512
	maxBatchBytes  = 4 << 20
	gather         = 15 * time.Millisecond
	gatheredWrites = 16 // fewer than the engine delivers at once, so that workers do not stand still
)

// write is one change that somebody waits for.
type write struct {
	apply  func(*tx) error
	bytes  int
	shares bool       // others like it come soon
	done   chan error // holds one
}

// writer owns the only connection that writes. One goroutine takes what is
// queued, makes it one transaction with one sync, and then tells everybody. The
// first error of the disk ends it: everyone waiting gets that error, and so
// does everyone who comes later.
type writer struct {
	path string
	db   *sql.DB
	tx   *tx

	marked   bool         // the file itself says that there is a log
	expected atomic.Int64 // see Run.Expect
	queue    chan *write
	finished chan struct{} // closed when the goroutine has ended
	failed   error         // owned by the goroutine until finished is closed

	stopping sync.Once
	mu       sync.Mutex
	stopped  bool
	senders  sync.WaitGroup
	changed  chan struct{} // closed, and made again, at every commit
}

func startWriter(path string) (*writer, error) {
	ctx := context.Background()
	db, err := connect(path, "rw")
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
	return w.wait(ctx, &write{apply: apply, bytes: bytes})
}

// wait is submit for a write without its channel.
func (w *writer) wait(ctx context.Context, wr *write) error {
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
	wr.done = make(chan error, 1)
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

// take returns the first write and what else waits, or comes soon, within the bounds.
func (w *writer) take(first *write) []*write {
	batch, bytes, gathers := []*write{first}, first.bytes, first.shares
	var over <-chan time.Time
	for len(batch) < maxBatchWrites && bytes < maxBatchBytes {
		var wr *write
		select {
		case wr = <-w.queue:
		default:
			if !gathers || len(batch) >= min(gatheredWrites, int(w.expected.Load())) {
				return batch
			}
			if over == nil {
				over = time.After(gather)
			}
			select {
			case wr = <-w.queue:
			case <-over:
			}
		}
		if wr == nil { // it is over, or no more will come
			return batch
		}
		batch, bytes, gathers = append(batch, wr), bytes+wr.bytes, gathers && wr.shares
	}
	return batch
}

// commit makes the batch one durable transaction. The result of a write that
// was refused (an unknown item, say) is in results and hinders no other; an
// error of the database is returned, and nothing of the batch is there.
func (w *writer) commit(batch []*write, results []error) error {
	if err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		return faultOf(w.path, ErrWrite, err)
	}
	err := w.apply(batch, results)
	if err == nil {
		failpoint("before")
		err = w.tx.exec("COMMIT")
	}
	if err != nil {
		return w.abandon(err)
	}
	failpoint("after")
	w.marked = w.marked || w.tx.markLog()
	return nil
}

// apply makes the changes of a batch, and what is to be saved with them.
func (w *writer) apply(batch []*write, results []error) error {
	for i, wr := range batch {
		results[i] = wr.apply(w.tx)
		if sqliteCode(results[i]) != 0 {
			return results[i]
		}
	}
	if err := w.tx.saveScoreNames(); err != nil || w.marked {
		return err
	}
	return w.tx.setMeta(keyLog, true)
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

// Expect changes how many outcomes are on their way, for which a transaction waits a moment.
// Where nobody says so, it waits for none.
func (r *Run) Expect(more int) { r.writer.expected.Add(int64(more)) }

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
func (w *writer) stop() (first bool) {
	w.stopping.Do(func() {
		first = true
		w.mu.Lock()
		w.stopped = true
		w.mu.Unlock()
		w.senders.Wait()
		close(w.queue)
		<-w.finished
		close(w.changed)
	})
	return first
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

// tx is the writing connection with its prepared statements. Only the writer's
// goroutine uses it, and only between BEGIN and COMMIT.
type tx struct {
	view
	conn  *sql.Conn
	names *scoreNames

	recent *recent
	newest atomic.Int64 // the OID of the last outcome that was written

	prepared map[string]*sql.Stmt // by query
}

// openTx checks the file and prepares the connection. WAL with synchronous FULL: a
// commit returns when it would survive a power cut, and readers never wait.
func openTx(ctx context.Context, path string, db *sql.DB) (t *tx, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, faultOf(path, ErrWrite, err)
	}
	t = &tx{view: view{path, conn, new(packs)}, conn: conn, prepared: map[string]*sql.Stmt{}}
	t.recent = &recent{rows: map[int64]*outcomeRow{}}
	defer func() {
		if err != nil {
			t, err = nil, faultOf(path, ErrWrite, errors.Join(err, t.close()))
		}
	}()
	if err := t.keepLog(1); err != nil {
		return t, err
	}
	quick := func(ctx context.Context) error { _, err := t.quickCheck(ctx); return err }
	for _, check := range []func(context.Context) error{t.check, t.checkLog, quick} {
		if err := check(ctx); err != nil {
			return t, err
		}
	}
	for _, pragma := range []string{"journal_mode=WAL", "synchronous=FULL", "cache_size=-2000"} {
		if err := t.exec("PRAGMA " + pragma); err != nil {
			return t, err
		}
	}
	if err := t.upgrade(ctx); err != nil {
		return t, err
	}
	for _, query := range []string{sqlAddItem, sqlAddOutcome, sqlAddDetail, sqlSupersede, sqlAcknowledge, sqlReset, sqlRemoveFooter} {
		stmt, err := conn.PrepareContext(ctx, query)
		if err != nil {
			return t, err
		}
		t.prepared[query] = stmt
	}
	t.names, err = t.scoreNames(ctx)
	return t, err
}

func (t *tx) close() error {
	var err error
	for _, stmt := range t.prepared {
		err = errors.Join(err, stmt.Close())
	}
	return errors.Join(err, t.conn.Close())
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.conn.ExecContext(context.Background(), query, args...)
	return err
}

// changed returns how many rows a statement changed.
func changed(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// atomically undoes what f did if f refuses, so that a refusal leaves nothing
// behind in a transaction that goes on.
func (t *tx) atomically(f func() error) error {
	if err := t.exec("SAVEPOINT write"); err != nil {
		return err
	}
	refused := f()
	if sqliteCode(refused) != 0 {
		return refused
	}
	if refused != nil {
		if err := t.exec("ROLLBACK TO write"); err != nil {
			return err
		}
	}
	if err := t.exec("RELEASE write"); err != nil {
		return err
	}
	return refused
}

// writeAll applies a change for each of the list in one transaction: all or none.
func writeAll[T any](ctx context.Context, r *Run, bytes int, list []T, apply func(*tx, T) error) error {
	if len(list) == 0 {
		return nil
	}
	return r.writer.submit(ctx, bytes, func(t *tx) error {
		return t.atomically(func() error {
			for _, one := range list {
				if err := apply(t, one); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (t *tx) setMeta(key string, value any) error {
	text, err := encodeMeta(key, value)
	if err != nil {
		return err
	}
	return t.exec("INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value", key, text)
}

// encodeMeta writes what checkMeta lets pass.
func encodeMeta(key string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err == nil && len(text) > maxMeta {
		err = fmt.Errorf("it has %d bytes, more than %d", len(text), maxMeta)
	}
	if err != nil {
		return "", fmt.Errorf("writing the %s of the run: %w", key, err)
	}
	return string(text), nil
}

const sqlRemoveFooter = "DELETE FROM meta WHERE key = '" + keyFooter + "'"

// reopen takes the footer away: it no longer speaks of everything in the run.
func (t *tx) reopen() error {
	_, err := t.prepared[sqlRemoveFooter].Exec()
	return err
}

func (t *tx) saveScoreNames() error {
	if !t.names.grown {
		return nil
	}
	t.names.grown = false
	return t.setMeta(keyScoreNames, t.names.list)
}

// keepLog says whether SQLite leaves the log where it is when the last connection ends (1)
// or not (0): only settle may remove it, who takes the mark of it away first.
func (t *tx) keepLog(mode int) error {
	return t.conn.Raw(func(driver any) error {
		_, err := driver.(sqlite.FileControl).FileControlPersistWAL("main", mode)
		return err
	})
}

// markLog writes what is in the log into the file, the mark of the log among it, and
// reports whether that is done. A reader or a full disk may hinder it for now: it is
// tried again with the next commit, who needs nothing of it.
func (t *tx) markLog() bool {
	var busy, pages, written int
	row := t.conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)")
	return row.Scan(&busy, &pages, &written) == nil && busy == 0 && pages == written
}

// settle writes the log back and leaves a single file. A reader in another
// process can hinder that for the moment: the log is then left to the next
// writer, and nothing is wrong.
func (t *tx) settle() error {
	if err := t.exec("PRAGMA busy_timeout=1000"); err != nil {
		return err
	}
	if err := t.exec("DELETE FROM meta WHERE key = ?", keyLog); err != nil {
		return err
	}
	if err := t.keepLog(0); err != nil {
		return err
	}
	for _, pragma := range []string{"wal_checkpoint(TRUNCATE)", "journal_mode=DELETE"} {
		err := t.exec("PRAGMA " + pragma)
		if code := sqliteCode(err); err != nil && code != sqlite3.SQLITE_BUSY && code != sqlite3.SQLITE_LOCKED {
			return err
		}
	}
	return nil
}
