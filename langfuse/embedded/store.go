package embedded

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite" // registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"extraction-experiment/internal/files"
)

// store is the SQLite file. One connection writes, behind a mutex, so that no request meets a
// locked database; a small pool reads. In memory both are the same single connection.
//
// Statements have no context: each is limited by a page or by a request body, and if a
// disconnecting client cancelled a write, nobody would know whether it happened.
type store struct {
	queueMu  sync.Mutex // guards waiting
	waiting  []*pendingWrite
	writeMu  sync.Mutex // held while writing
	w, r     *sql.DB
	modeLock *os.File // excludes servers of other modes; nil in memory
	path     string
	file     os.FileInfo // of path when it was opened; nil in memory
}

// querier runs queries: a pool or a transaction.
type querier interface {
	Query(query string, args ...any) (*sql.Rows, error)
}

func openStore(path string, mode Mode) (*store, error) {
	s := new(store)
	err := s.open(path, mode)
	if err == nil {
		err = s.migrate()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *store) open(path string, mode Mode) (err error) {
	if path == ":memory:" {
		s.w, err = openPool("file::memory:", 1)
		s.r = s.w
		return err
	}
	if s.modeLock, err = claimMode(path, mode); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	full, pathErr := filepath.Abs(path)
	s.path = full
	s.file, err = f.Stat()
	if err = errors.Join(pathErr, err, f.Chmod(0o600), f.Close()); err != nil {
		return err
	}
	slashed := filepath.ToSlash(full)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a Windows drive
	}
	dsn := (&url.URL{Scheme: "file", Path: slashed}).String()
	if s.w, err = openPool(dsn, 1); err != nil {
		return err
	}
	s.r, err = openPool(dsn, 4, "cache_size(-1000)", "query_only(1)")
	return err
}

// openPool opens a pool of size connections whose transactions take the write lock at once.
func openPool(dsn string, size int, pragmas ...string) (*sql.DB, error) {
	common := []string{"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		"temp_store(MEMORY)", "wal_autocheckpoint(4000)"}
	options := url.Values{"_txlock": {"immediate"}, "_pragma": append(common, pragmas...)}
	db, err := sql.Open("sqlite", dsn+"?"+options.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

// migrate creates the tables of a new file, upgrades an older file, and returns an error for a
// file of a later version. It runs in one transaction.
func (s *store) migrate() error {
	return s.update(func(tx *transaction) error {
		version, err := queryInt(tx, "PRAGMA user_version")
		if err != nil {
			return fmt.Errorf("reading the version of the file: %w", err)
		}
		steps := migrations()
		if version < 0 || version > len(steps) {
			return fmt.Errorf("%w %d, this program reads up to version %d", errVersion, version, len(steps))
		}
		for i, step := range steps[version:] {
			if _, err := tx.Tx.Exec(step); err != nil {
				return fmt.Errorf("bringing the tables from version %d to %d: %w", version+i, version+i+1, err)
			}
		}
		tx.exec(fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
		return nil
	})
}

// pendingWrite is a write that a caller waits for. work may run again after a rollback.
type pendingWrite struct {
	work func(*transaction) error
	done chan error // has room for the result
}

// update runs fn in a write transaction and commits before it returns. An error of fn undoes its
// changes. Concurrent calls share one transaction, and so one sync of the disk; the first caller
// runs it for all. fn may run twice.
func (s *store) update(fn func(*transaction) error) error {
	own := &pendingWrite{fn, make(chan error, 1)}
	s.queueMu.Lock()
	s.waiting = append(s.waiting, own)
	s.queueMu.Unlock()
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if len(own.done) == 0 {
		s.queueMu.Lock()
		batch := s.waiting
		s.waiting = nil
		s.queueMu.Unlock()
		s.commitWrites(batch)
	}
	return <-own.done
}

// exec runs one statement in a transaction, as update does.
func (s *store) exec(query string, args ...any) error {
	return s.update(func(tx *transaction) error {
		tx.exec(query, args...)
		return nil
	})
}

// commitWrites runs writes in one transaction and sends each its result. If one of several fails,
// which is rare, the transaction is rolled back and each write runs in its own: savepoints would
// make SQLite copy every changed page.
func (s *store) commitWrites(batch []*pendingWrite) {
	err := s.runWrites(batch)
	for _, w := range batch {
		if err != nil && len(batch) > 1 {
			w.done <- s.runWrites([]*pendingWrite{w})
		} else {
			w.done <- err
		}
	}
}

// runWrites runs writes in one transaction: all or none.
func (s *store) runWrites(batch []*pendingWrite) (err error) {
	tx, err := s.w.Begin()
	if err != nil {
		return err
	}
	defer func() { // others may wait for the same transaction
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		_ = tx.Rollback() // returns ErrTxDone after a commit
	}()
	shared := newTransaction(tx)
	for _, w := range batch {
		err := w.work(shared)
		if err = cmp.Or(shared.err, err); err != nil {
			return err
		}
	}
	if err := s.checkPlace(); err != nil {
		return err
	}
	return tx.Commit()
}

// checkPlace returns an error if the file was removed or replaced since it was opened. SQLite
// would go on writing to the removed file, which is gone when it is closed.
func (s *store) checkPlace() error {
	if s.file == nil {
		return nil
	}
	current, err := os.Stat(s.path)
	if err == nil && os.SameFile(s.file, current) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%s was removed or replaced while it was open: what it stored is gone, and run files are not", s.path)
}

// transaction is a write transaction. It prepares each statement once, because parsing one takes
// about as long as running it. A query must be one statement; scripts use Tx directly.
type transaction struct {
	*sql.Tx
	prepared  map[string]*sql.Stmt // by their text
	described map[string]bool      // see describeExperiment
	// err is the first error of exec or insert. After it, no statement runs, and nothing is
	// committed, so that writers need not check for errors. Query returns its own errors.
	err error
}

func newTransaction(tx *sql.Tx) *transaction {
	return &transaction{Tx: tx, prepared: map[string]*sql.Stmt{}, described: map[string]bool{}}
}

// exec runs a statement and reports whether it changed rows. Arguments may be pointers to values,
// as those of columns are.
func (t *transaction) exec(query string, args ...any) (changed bool) {
	var result sql.Result
	var n int64
	stmt, err := t.statement(query)
	if err == nil {
		result, err = stmt.Exec(args...)
	}
	if err == nil {
		n, err = result.RowsAffected()
	}
	t.err = err
	return n > 0
}

// insert adds a row to a table, and reports whether it did; it does nothing if a row with that
// key exists. INSERT OR REPLACE would make SQLite copy every changed page.
func (t *transaction) insert(table, columns string, values ...any) bool {
	return t.exec("INSERT INTO "+table+"("+columns+") VALUES(?"+strings.Repeat(",?", len(values)-1)+
		") ON CONFLICT DO NOTHING", values...)
}

// Query is Tx.Query.
func (t *transaction) Query(query string, args ...any) (*sql.Rows, error) {
	stmt, err := t.statement(query)
	if err != nil {
		return nil, err
	}
	return stmt.Query(args...)
}

func (t *transaction) statement(query string) (stmt *sql.Stmt, err error) {
	if stmt = t.prepared[query]; stmt == nil && t.err == nil {
		stmt, err = t.Prepare(query)
		t.prepared[query] = stmt
	}
	return stmt, cmp.Or(t.err, err)
}

func (s *store) close() error {
	var errs []error
	for _, pool := range []*sql.DB{s.r, s.w} {
		if pool != nil { // in memory both are the same, which may be closed twice
			errs = append(errs, pool.Close())
		}
	}
	if s.modeLock != nil {
		errs = append(errs, s.modeLock.Close())
	}
	return errors.Join(errs...)
}

// queryRows reads all rows of a query. It closes the rows before it returns, so that the next
// query gets a connection even if there is only one.
func queryRows[T any](q querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []T{}
	for rows.Next() {
		value, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, rows.Err()
}

func queryInt(q querier, query string, args ...any) (int, error) {
	n, _, err := queryRow(q, scanValue[int], query, args...)
	return n, err
}

// queryRow returns the first row of a query and whether there is one. It reads all rows.
func queryRow[T any](q querier, scan func(*sql.Rows) (T, error), query string, args ...any) (T, bool, error) {
	rows, err := queryRows(q, scan, query, args...)
	if err != nil || len(rows) == 0 {
		return *new(T), false, err
	}
	return rows[0], true, nil
}

// requireRow returns the first row of a query, or errMissing if there is none.
func requireRow[T any](q querier, errMissing error, scan func(*sql.Rows) (T, error), query string,
	args ...any) (T, error) {
	row, exists, err := queryRow(q, scan, query, args...)
	if err == nil && !exists {
		err = errMissing
	}
	return row, err
}

// rowType is a pointer to a type whose fields are columns. columns returns pointers to them, in
// order, for reading and writing.
type rowType[T any] interface {
	*T
	columns() []any
}

// scanRow reads a row with all columns of a type.
func scanRow[T any, P rowType[T]](rows *sql.Rows) (T, error) {
	var v T
	err := rows.Scan(P(&v).columns()...)
	return v, err
}

// scanObject returns a function that reads a row and converts it into an object of the API.
func scanObject[T any, P rowType[T]](show func(T) object) func(*sql.Rows) (object, error) {
	return func(rows *sql.Rows) (object, error) {
		v, err := scanRow[T, P](rows)
		return show(v), err
	}
}

// scanValue reads a row with one column.
func scanValue[T any](rows *sql.Rows) (T, error) {
	var v T
	err := rows.Scan(&v)
	return v, err
}

// The SQL expressions that format the time of a column as the API does.
const (
	isoCreated   = "strftime('%Y-%m-%dT%H:%M:%fZ', created / 1000.0, 'unixepoch')"
	isoUpdated   = "strftime('%Y-%m-%dT%H:%M:%fZ', updated / 1000.0, 'unixepoch')"
	isoCompleted = "strftime('%Y-%m-%dT%H:%M:%fZ', completed / 1000.0, 'unixepoch')"
)

// scanJSON reads a row with one column that holds an object of the API as JSON.
func scanJSON(rows *sql.Rows) (any, error) {
	text, err := scanValue[string](rows)
	return jsonOrNull(text), err
}

// IsBusy reports whether an error means that another process locks the store, and did so for the
// half minute that was waited.
func IsBusy(err error) bool { return hasCode(err, sqlite3.SQLITE_BUSY) }

// hasCode reports whether an error of SQLite has one of the primary codes.
func hasCode(err error, codes ...int) bool {
	sqliteErr, ok := errors.AsType[*sqlite.Error](err)
	return ok && slices.Contains(codes, sqliteErr.Code()&0xff)
}

// errVersion begins the message about a store of another version.
var errVersion = errors.New("the file has version")

// IsUnreadable reports whether an error means that the store is damaged, no database, or that of a
// newer program, so that it is of no use to make room or to allow writing.
func IsUnreadable(err error) bool {
	return errors.Is(err, errVersion) || hasCode(err, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
}

// ModeError means that the store is open in another mode. Servers of different modes store their
// data in different places.
type ModeError struct{ Wanted, Current Mode }

// Error names both modes.
func (e *ModeError) Error() string {
	return fmt.Sprintf("another process has it open in mode %s, and it cannot be open in mode %s at the same time: wait until that process has ended, or stop it",
		e.Current, e.Wanted)
}

// ExitCode returns 69, because a later attempt can succeed.
func (e *ModeError) ExitCode() int { return 69 }

// claimMode excludes servers of other modes from the store at path until the returned file is
// closed. Servers of the same mode share the lock file beside the store, which holds the mode. A
// server that finds another mode in it must lock it exclusively to write its own.
func claimMode(path string, mode Mode) (*os.File, error) {
	const pause, maxTries, maxConflicts = 5 * time.Millisecond, 4000, 40
	conflict, conflicts := &ModeError{Wanted: mode}, 0
	for range maxTries { // exclusive locks, and locks to read the file, last only an instant
		f, err := lockStore(path, false)
		if err == nil && f != nil {
			if _, err = fmt.Fscan(f, &conflict.Current); err == nil && conflict.Current == mode {
				return f, nil
			}
			if err = f.Close(); err == nil {
				conflicts++
				f, err = lockStore(path, true)
			}
			if err == nil && f != nil {
				// Earlier programs expect a number after the mode.
				_, err = f.WriteAt(fmt.Appendf(nil, "%-8s %-12d\n", mode, os.Getpid()), 0)
				err = errors.Join(err, f.Close())
				conflicts = 0
			}
		}
		switch {
		case err != nil:
			return nil, err
		case conflicts == maxConflicts:
			return nil, conflict
		}
		time.Sleep(pause)
	}
	return nil, fmt.Errorf("its lock %s.lock is held", path)
}

// lockStore tries to lock the store at path. It returns nil if others hold the lock.
func lockStore(path string, exclusive bool) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	held, err := files.TryLock(f, exclusive)
	if err == nil && held {
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// InUse reports whether a server, in this process or another, has the store at path open.
func InUse(path string) bool {
	if _, err := os.Stat(path + ".lock"); err != nil {
		return false
	}
	f, err := lockStore(path, true)
	if f != nil {
		return f.Close() != nil
	}
	return err == nil
}
