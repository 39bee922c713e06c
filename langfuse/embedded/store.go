package embedded

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// store is the SQLite file. One connection writes, behind a mutex, so that no
// request ever meets a locked database; a small pool reads beside it. In memory
// both are the same single connection.
//
// Statements carry no context: each is bounded by a page or by a request body,
// and a write that was cut short by a client going away would leave nobody
// knowing whether it happened.
type store struct {
	mu   sync.Mutex
	w, r *sql.DB
	mode *os.File // keeps servers of other modes away; nil in memory
	// statements are those of w.
	statements statements
}

// querier reads: a pool, or a transaction.
type querier interface {
	Query(query string, args ...any) (*sql.Rows, error)
	QueryRow(query string, args ...any) *sql.Row
}

func openStore(path string, mode Mode) (*store, error) {
	st := &store{}
	var err error
	if path == ":memory:" {
		st.w, err = openPool("file::memory:", 1, false)
		st.r = st.w
	} else {
		if st.mode, err = claimMode(path, mode); err == nil {
			err = st.openFile(path)
		}
	}
	if err == nil {
		err = st.migrate()
	}
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

func (s *store) openFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return err
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	slashed := filepath.ToSlash(full)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a Windows drive
	}
	dsn := (&url.URL{Scheme: "file", Path: slashed}).String()
	if s.w, err = openPool(dsn, 1, false); err != nil {
		return err
	}
	s.r, err = openPool(dsn, 4, true)
	return err
}

func openPool(dsn string, size int, readOnly bool) (*sql.DB, error) {
	options := url.Values{"_pragma": {"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(FULL)",
		"foreign_keys(1)", "temp_store(MEMORY)", "cache_size(-16000)"}}
	if readOnly {
		options.Add("_pragma", "query_only(1)")
	} else {
		options.Set("_txlock", "immediate")
	}
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
		var version int
		if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
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
		_, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
		return err
	})
}

// project fixes the project id of a new file and checks it for an old one.
func (s *store) project(wanted string) (string, error) {
	stored := orElse(wanted, DefaultProjectID)
	err := s.update(func(tx *transaction) error {
		if _, err := tx.Exec("INSERT INTO meta(key, value) VALUES('project_id', ?) ON CONFLICT DO NOTHING", stored); err != nil {
			return err
		}
		return tx.QueryRow("SELECT value FROM meta WHERE key = 'project_id'").Scan(&stored)
	})
	if err != nil {
		return "", err
	}
	if wanted != "" && wanted != stored {
		return "", fmt.Errorf("the file belongs to project %q, not %q: experiment ids are computed from it", stored, wanted)
	}
	return stored, nil
}

// update runs fn in one write transaction and commits before it returns. An
// error of fn undoes everything.
func (s *store) update(fn func(*transaction) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx, err := s.w.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // says ErrTxDone after a commit
	if err := fn(&transaction{tx, &s.statements}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.statements.prepare(s.w)
	return nil
}

func (s *store) close() error {
	var errs []error
	if s.r != nil && s.r != s.w {
		errs = append(errs, s.r.Close())
	}
	if s.w != nil {
		errs = append(errs, s.statements.close(), s.w.Close())
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
	return gather(rows, err, scan)
}

// gather is collect for a query that was made already.
func gather[T any](rows *sql.Rows, err error, scan func(*sql.Rows) (T, error)) ([]T, error) {
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
	var n int
	err := q.QueryRow(query, args...).Scan(&n)
	return n, err
}

// keepTexts fills each text that is empty with its counterpart: what a later
// event leaves out is kept from an earlier one.
func keepTexts(texts ...[2]*string) {
	for _, pair := range texts {
		*pair[0] = orElse(*pair[0], *pair[1])
	}
}

// nullable is how an absent text is written: as null.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}
