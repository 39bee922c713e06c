package embedded

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite" // with the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"extraction-experiment/internal/files"
)

// store is the SQLite file. One connection writes, behind a mutex, so that no
// request ever meets a locked database; a small pool reads beside it. In memory
// both are the same single connection.
//
// Statements carry no context: each is bounded by a page or by a request body,
// and a write that was cut short by a client going away would leave nobody
// knowing whether it happened.
type store struct {
	queue   sync.Mutex // of waiting
	waiting []*write
	mu      sync.Mutex // held by who writes
	w, r    *sql.DB
	mode    *os.File // keeps servers of other modes away; nil in memory
	// prepared are the statements of w that were used, by their text: to parse one
	// takes about as long as to carry it out. wanted were not ready when they were
	// used.
	prepared map[string]*sql.Stmt
	wanted   map[string]bool
}

// querier reads: a pool, or a transaction.
type querier interface {
	Query(query string, args ...any) (*sql.Rows, error)
}

func openStore(path string, mode Mode) (*store, error) {
	s := &store{prepared: map[string]*sql.Stmt{}, wanted: map[string]bool{}}
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
	if s.mode, err = claimMode(path, mode); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	full, err := filepath.Abs(path)
	if err = errors.Join(err, f.Chmod(0o600), f.Close()); err != nil {
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

// openPool opens so many connections, whose transactions write.
func openPool(dsn string, size int, pragmas ...string) (*sql.DB, error) {
	usual := []string{"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		"temp_store(MEMORY)", "wal_autocheckpoint(4000)"}
	options := url.Values{"_txlock": {"immediate"}, "_pragma": append(usual, pragmas...)}
	db, err := sql.Open("sqlite", dsn+"?"+options.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

// migrate creates the tables of a new file, brings those of an older file up to
// date, and refuses a file of a later version. It happens whole or not at all.
func (s *store) migrate() error {
	return s.update(func(tx *transaction) error {
		version, err := count(tx, "PRAGMA user_version")
		if err != nil {
			return fmt.Errorf("reading the version of the file: %w", err)
		}
		steps := migrations()
		if version < 0 || version > len(steps) {
			return fmt.Errorf("the file has version %d, this program reads up to version %d: use a newer program or another file",
				version, len(steps))
		}
		for i, step := range steps[version:] {
			if _, err := tx.Tx.Exec(step); err != nil {
				return fmt.Errorf("bringing the tables from version %d to %d: %w", version+i, version+i+1, err)
			}
		}
		_, err = tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
		return err
	})
}

// write is what somebody waits for to be done. Its work may be done again where what it
// did was undone.
type write struct {
	work func(*transaction) error
	done chan error // holds one
}

// update does fn in a write transaction and commits before it returns. An error of fn
// undoes what it did. What is asked for at the same time shares one transaction, and so
// one sync of the disk: the first to come does it for all.
func (s *store) update(fn func(*transaction) error) error {
	mine := &write{fn, make(chan error, 1)}
	s.queue.Lock()
	s.waiting = append(s.waiting, mine)
	s.queue.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(mine.done) == 0 {
		s.queue.Lock()
		all := s.waiting
		s.waiting = nil
		s.queue.Unlock()
		s.commit(all)
	}
	return <-mine.done
}

// commit does writes in one transaction and tells each how it ended. Where one fails,
// which is rare, nothing of the transaction is there, and each is done in one of its
// own: a savepoint for each would have SQLite copy every page that it changes.
func (s *store) commit(all []*write) {
	err := s.together(all)
	for _, one := range all {
		if err != nil && len(all) > 1 {
			one.done <- s.together([]*write{one})
		} else {
			one.done <- err
		}
	}
	for query := range s.wanted { // now that the connection is free
		if stmt, err := s.w.Prepare(query); err == nil { // a script cannot be, and goes on without
			s.prepared[query] = stmt
		}
	}
	clear(s.wanted)
}

// together does writes in one transaction: all or none.
func (s *store) together(all []*write) (err error) {
	tx, err := s.w.Begin()
	if err != nil {
		return err
	}
	defer func() { // others may wait for the same transaction
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		_ = tx.Rollback() // says ErrTxDone after a commit
	}()
	for _, one := range all {
		if err := one.work(&transaction{tx, s}); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// transaction is a write transaction that uses prepared statements where they are
// ready. Each is one statement, whose text is the program's; scripts go through
// the Tx itself.
type transaction struct {
	*sql.Tx
	store *store
}

// Exec is Tx.Exec. Arguments may point to what is meant, as columns do.
func (t *transaction) Exec(query string, args ...any) (sql.Result, error) {
	args = slices.Clone(args)
	for i, arg := range args { // database/sql does the same by reflection
		switch arg := arg.(type) {
		case *string:
			args[i] = *arg
		case *int64:
			args[i] = *arg
		case *bool:
			args[i] = *arg
		}
	}
	if stmt := t.prepared(query); stmt != nil {
		return stmt.Exec(args...)
	}
	return t.Tx.Exec(query, args...)
}

// insert adds a row to a table, and reports whether there was none of that identity.
// INSERT OR REPLACE would have SQLite copy every page that it changes.
func (t *transaction) insert(table, columns string, values ...any) (bool, error) {
	result, err := t.Exec("INSERT INTO "+table+"("+columns+") VALUES(?"+strings.Repeat(",?", len(values)-1)+
		") ON CONFLICT DO NOTHING", values...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// Query is Tx.Query.
func (t *transaction) Query(query string, args ...any) (*sql.Rows, error) {
	if stmt := t.prepared(query); stmt != nil {
		return stmt.Query(args...)
	}
	return t.Tx.Query(query, args...)
}

// prepared returns the statement; nil where it is not ready yet.
func (t *transaction) prepared(query string) *sql.Stmt {
	if stmt := t.store.prepared[query]; stmt != nil {
		return t.Stmt(stmt)
	}
	t.store.wanted[query] = true
	return nil
}

func (s *store) close() error {
	var errs []error
	if s.r != nil && s.r != s.w {
		errs = append(errs, s.r.Close())
	}
	if s.w != nil {
		errs = append(errs, s.w.Close()) // with what is prepared
	}
	if s.mode != nil {
		errs = append(errs, s.mode.Close())
	}
	return errors.Join(errs...)
}

// collect reads all rows of a query. It closes the rows before it returns, so
// the next query finds a connection even where there is only one.
func collect[T any](q querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []T{}
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

func count(q querier, query string, args ...any) (int, error) {
	n, _, err := one(q, scanValue[int], query, args...)
	return n, err
}

// one is the first row that collect reads; the bool says whether there is one.
func one[T any](q querier, scan func(*sql.Rows) (T, error), query string, args ...any) (T, bool, error) {
	found, err := collect(q, scan, query, args...)
	if err != nil || len(found) == 0 {
		return *new(T), false, err
	}
	return found[0], true, nil
}

// mustOne is one for a row that has to be there; missing is the error where it is not.
func mustOne[T any](q querier, missing error, scan func(*sql.Rows) (T, error), query string, args ...any) (T, error) {
	found, exists, err := one(q, scan, query, args...)
	if err == nil && !exists {
		err = missing
	}
	return found, err
}

// columned is a type whose fields are columns, in their order, to be read into or
// written from.
type columned[T any] interface {
	*T
	columns() []any
}

// scanned reads a row of all the columns of a type.
func scanned[T any, P columned[T]](rows *sql.Rows) (T, error) {
	var v T
	err := rows.Scan(P(&v).columns()...)
	return v, err
}

// shown reads a row as an object of the API.
func shown[T any, P columned[T]](show func(T) object) func(*sql.Rows) (object, error) {
	return func(rows *sql.Rows) (object, error) {
		v, err := scanned[T, P](rows)
		return show(v), err
	}
}

// scanValue reads a row of one column.
func scanValue[T any](rows *sql.Rows) (T, error) {
	var v T
	err := rows.Scan(&v)
	return v, err
}

// How SQLite writes the instant of a column as the API does.
const (
	isoCreated   = "strftime('%Y-%m-%dT%H:%M:%fZ', created / 1000.0, 'unixepoch')"
	isoUpdated   = "strftime('%Y-%m-%dT%H:%M:%fZ', updated / 1000.0, 'unixepoch')"
	isoCompleted = "strftime('%Y-%m-%dT%H:%M:%fZ', completed / 1000.0, 'unixepoch')"
)

// scanJSON reads a row of one column, the text of an object of the API.
func scanJSON(rows *sql.Rows) (any, error) {
	text, err := scanValue[string](rows)
	return jsonText(text), err
}

// IsBusy reports whether another process holds the store and does not let go of it: half a
// minute was waited for that.
func IsBusy(err error) bool {
	var of *sqlite.Error
	return errors.As(err, &of) && of.Code()&0xff == sqlite3.SQLITE_BUSY
}

// ModeError says that a store is open in another mode: what a server of one mode
// writes is not where that of another looks for it.
type ModeError struct {
	Asked, Open Mode
	PID         string // of the process that opened it first
}

// Error names both modes and the process.
func (e *ModeError) Error() string {
	return fmt.Sprintf("it is open in mode %s (process %s) and cannot be open in mode %s at the same time: wait until that process has ended, or stop it",
		e.Open, e.PID, e.Asked)
}

// ExitCode returns 69: later it can be opened.
func (e *ModeError) ExitCode() int { return 69 }

// claimMode keeps servers of other modes from the store at path until the file that
// it returns is closed. Servers of one mode hold the lock beside the store together;
// who finds another mode noted there must be alone with it to note its own.
func claimMode(path string, mode Mode) (*os.File, error) {
	const pause, tries, conflicts = 5 * time.Millisecond, 4000, 40
	other, met := &ModeError{Asked: mode}, 0
	for range tries { // who is alone with it is so for an instant, and who looks at it
		f, err := lockStore(path, false)
		if err == nil && f != nil {
			if _, err = fmt.Fscan(f, &other.Open, &other.PID); err == nil && other.Open == mode {
				return f, nil
			}
			if err = f.Close(); err == nil {
				met++
				f, err = lockStore(path, true)
			}
			if err == nil && f != nil {
				_, err = f.WriteAt(fmt.Appendf(nil, "%-8s %-12d\n", mode, os.Getpid()), 0)
				err = errors.Join(err, f.Close())
				met = 0
			}
		}
		switch {
		case err != nil:
			return nil, err
		case met == conflicts:
			return nil, other
		}
		time.Sleep(pause)
	}
	return nil, fmt.Errorf("its lock %s.lock is held", path)
}

// lockStore tries the lock of the store at path; nil where others are in the way.
func lockStore(path string, alone bool) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	held, err := files.TryLock(f, alone)
	if err == nil && held {
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// InUse reports whether a server, of this process or another, has the store at path
// open.
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
