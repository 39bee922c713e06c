package runstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// A transaction takes all waiting writes up to the bounds maxBatchWrites and maxBatchBytes,
// which then share one sync. A larger write has a transaction of its own.
//
// If more outcomes are expected (Run.Expect), a transaction of outcomes waits up to gatherWait
// until it has gatherWrites: fewer transactions cost fewer syncs and write fewer pages. Other
// writes never wait, because workers may wait for acknowledgements.
const (
	maxBatchWrites = 512
	maxBatchBytes  = 4 << 20
	gatherWait     = 15 * time.Millisecond
	gatherWrites   = 16 // fewer than the engine delivers at once, so that workers are not idle
)

// write is one change, for which a caller waits.
type write struct {
	apply       func(*tx) error
	bytes       int
	expectsMore bool       // similar writes follow soon
	err         error      // of apply
	done        chan error // has a buffer of one
}

// writer owns the only writing connection. Its goroutine commits all queued writes in one
// transaction with one sync, and then reports the results. The first error of the database
// is permanent: all waiting and all later writes get it.
type writer struct {
	path string
	file string // path, absolute
	db   *sql.DB
	tx   *tx

	logMarked bool         // the file, and not only its log, has keyLog
	expected  atomic.Int64 // see Run.Expect
	queue     chan *write
	finished  chan struct{} // closed when the goroutine has ended
	failure   error         // owned by the goroutine until finished is closed

	closing sync.RWMutex // held for reading by whoever waits for a write
	stopped bool
	mu      sync.Mutex
	changed chan struct{} // closed, and made again, at every commit; guarded by mu
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
	file, err := filepath.Abs(path)
	if err != nil {
		return nil, errors.Join(faultOf(path, ErrWrite, err), t.close(), db.Close())
	}
	w := &writer{
		path: path, file: file, db: db, tx: t,
		queue: make(chan *write), finished: make(chan struct{}), changed: make(chan struct{}),
	}
	go w.loop()
	return w, nil
}

// submit queues a change and waits until it is durable or refused. Once the change is queued,
// submit ignores ctx, so that the caller always learns the result.
func (w *writer) submit(ctx context.Context, bytes int, apply func(*tx) error) error {
	return w.enqueue(ctx, &write{apply: apply, bytes: bytes})
}

// enqueue is like submit for a write; it sets wr.done.
func (w *writer) enqueue(ctx context.Context, wr *write) error {
	w.closing.RLock()
	defer w.closing.RUnlock()
	if w.stopped {
		return fault(w.path, ErrClosed, nil)
	}
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
		batch := w.takeBatch(first)
		if w.failure == nil {
			w.failure = w.commit(batch)
		}
		for _, wr := range batch {
			wr.done <- cmp.Or(w.failure, wr.err)
		}
		w.mu.Lock()
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
	}
}

// takeBatch returns the first write and the others that wait or arrive soon, within the
// bounds of a transaction.
func (w *writer) takeBatch(first *write) []*write {
	batch, bytes, gathers := []*write{first}, first.bytes, first.expectsMore
	var timeout <-chan time.Time
	for len(batch) < maxBatchWrites && bytes < maxBatchBytes {
		var wr *write
		select {
		case wr = <-w.queue:
		default:
			if !gathers || len(batch) >= min(gatherWrites, int(w.expected.Load())) {
				return batch
			}
			if timeout == nil {
				timeout = time.After(gatherWait)
			}
			select {
			case wr = <-w.queue:
			case <-timeout:
			}
		}
		if wr == nil { // the wait is over, or the queue is closed
			return batch
		}
		batch, bytes, gathers = append(batch, wr), bytes+wr.bytes, gathers && wr.expectsMore
	}
	return batch
}

// commit applies a batch in one durable transaction. Errors of single writes, for example an
// unknown item, do not affect other writes. After an error of the database commit rolls back the
// whole batch and returns the error.
func (w *writer) commit(batch []*write) error {
	if err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		return faultOf(w.path, ErrWrite, err)
	}
	err := w.apply(batch)
	if err == nil {
		failpoint("before")
		err = w.tx.exec("COMMIT")
	}
	if err != nil {
		return w.rollBack(err)
	}
	failpoint("after")
	if _, err := os.Lstat(w.file); errors.Is(err, fs.ErrNotExist) { // SQLite would say so at the end of the run only
		return fault(w.path, ErrMoved, nil)
	}
	w.logMarked = w.logMarked || w.tx.checkpoint()
	return nil
}

// apply applies the writes of a batch, and saves new score names and the mark of the log.
func (w *writer) apply(batch []*write) error {
	for _, wr := range batch {
		if wr.err = wr.apply(w.tx); sqliteCode(wr.err) != 0 {
			return wr.err
		}
	}
	if err := w.tx.saveScoreNames(); err != nil || w.logMarked {
		return err
	}
	return w.tx.setMeta(keyLog, true)
}

// rollBack rolls the transaction back. After some errors, for example a full disk, SQLite has
// already done so and reports that there is no transaction.
func (w *writer) rollBack(cause error) error {
	err := w.tx.exec("ROLLBACK")
	if sqliteCode(err) == sqlite3.SQLITE_ERROR {
		err = nil
	}
	return faultOf(w.path, ErrWrite, errors.Join(cause, err))
}

// Expect adds more, which may be negative, to the number of outcomes that will be committed
// soon, and returns that number. A transaction waits briefly for them; by default it waits for none.
func (r *Run) Expect(more int) int64 { return r.writer.expected.Add(int64(more)) }

// Changed returns a channel that is closed after the next transaction, or when the run is
// closed. Call it before Unpublished to miss no change:
//
//	changed := run.Changed()
//	pending, err := run.Unpublished(ctx, 0, 100)
//	… if pending is empty: <-changed
func (r *Run) Changed() <-chan struct{} {
	r.writer.mu.Lock()
	defer r.writer.mu.Unlock()
	return r.writer.changed
}

// stop refuses new writes and waits until the queued ones are done. It returns false if it
// was called before.
func (w *writer) stop() (first bool) {
	w.closing.Lock()
	defer w.closing.Unlock()
	if w.stopped {
		return false
	}
	w.stopped = true
	close(w.queue)
	<-w.finished
	close(w.changed)
	return true
}

// close stops the writer if necessary, writes the log back and closes the connection.
func (w *writer) close() error {
	w.stop()
	var err error
	if w.failure == nil {
		err = w.tx.removeLog()
	}
	return errors.Join(faultOf(w.path, ErrWrite, errors.Join(err, w.tx.close())), w.db.Close())
}

// tx is the writing connection with its prepared statements. Only the writer's
// goroutine uses it, and only between BEGIN and COMMIT.
type tx struct {
	view
	conn  *sql.Conn
	names *scoreNames

	recent  *recent
	lastOID atomic.Int64 // OID of the last outcome that was written

	prepared map[string]*sql.Stmt // by query
}

// openTx checks the file and prepares the connection. With a WAL and synchronous=FULL a
// commit is durable when it returns, and readers never wait.
func openTx(ctx context.Context, path string, db *sql.DB) (t *tx, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, faultOf(path, ErrWrite, err)
	}
	t = &tx{view: view{path, conn, new(codec)}, conn: conn, prepared: map[string]*sql.Stmt{}}
	t.recent = &recent{rows: map[int64]*outcomeRow{}}
	defer func() {
		if err != nil {
			t, err = nil, faultOf(path, ErrWrite, errors.Join(err, t.close()))
		}
	}()
	for _, step := range []func() error{
		func() error { return t.setPersistLog(1) },
		func() error { return t.check(ctx) },
		func() error { return t.checkLength(ctx) },
		func() error { return t.checkLog(ctx) },
		func() error { _, err := t.quickCheck(ctx); return err },
		func() error {
			return t.exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-2000")
		},
		func() error { return t.upgrade(ctx) },
	} {
		if err := step(); err != nil {
			return t, err
		}
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

// rowsChanged returns the number of rows that a statement changed.
func rowsChanged(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// submitAll is like submit, but undoes the changes of apply if apply returns an error, so that the
// transaction can go on without them. After an error of the database the transaction is lost anyway.
func (w *writer) submitAll(ctx context.Context, bytes int, apply func(*tx) error) error {
	return w.submit(ctx, bytes, func(t *tx) error {
		if err := t.exec("SAVEPOINT write"); err != nil {
			return err
		}
		failure := apply(t)
		if sqliteCode(failure) != 0 {
			return failure
		}
		if failure != nil {
			if err := t.exec("ROLLBACK TO write"); err != nil {
				return err
			}
		}
		return cmp.Or(t.exec("RELEASE write"), failure)
	})
}

// setMeta stores the JSON of a value under a key.
func (t *tx) setMeta(key string, value any) error {
	text, err := json.Marshal(value)
	if err == nil && len(text) > maxMeta { // checkMeta would refuse the file
		err = fmt.Errorf("it has %d bytes, more than %d", len(text), maxMeta)
	}
	if err != nil {
		return fmt.Errorf("writing the %s of the run: %w", key, err)
	}
	const query = "INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value"
	return t.exec(query, key, string(text))
}

const sqlRemoveFooter = "DELETE FROM meta WHERE key = '" + keyFooter + "'"

// removeFooter removes the footer, which does not describe a row that is being added.
func (t *tx) removeFooter() error {
	_, err := t.prepared[sqlRemoveFooter].Exec()
	return err
}

func (t *tx) saveScoreNames() error {
	if !t.names.dirty {
		return nil
	}
	t.names.dirty = false
	return t.setMeta(keyScoreNames, t.names.list)
}

// setPersistLog sets whether SQLite keeps the log when the last connection closes (1) or
// removes it (0). Only removeLog, which first removes the mark of the log, may let it go.
func (t *tx) setPersistLog(mode int) error {
	return t.conn.Raw(func(driver any) error {
		_, err := driver.(sqlite.FileControl).FileControlPersistWAL("main", mode)
		return err
	})
}

// checkpoint writes the log, including the mark of the log, into the file and reports whether
// it succeeded. A reader or a full disk can prevent that. The commit is durable all the same,
// and the next commit tries again.
func (t *tx) checkpoint() bool {
	var busy, pages, written int
	row := t.conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)")
	return row.Scan(&busy, &pages, &written) == nil && busy == 0 && pages == written
}

// removeLog writes the log back and leaves a single file. If a reader in another process
// prevents that, removeLog leaves the log to the next writer and returns nil.
func (t *tx) removeLog() error {
	if err := t.exec("PRAGMA busy_timeout=1000"); err != nil {
		return err
	}
	if err := t.exec("DELETE FROM meta WHERE key = ?", keyLog); err != nil {
		return err
	}
	if err := t.setPersistLog(0); err != nil {
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
