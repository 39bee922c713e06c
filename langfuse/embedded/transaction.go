package embedded

import (
	"database/sql"
	"errors"
)

// maxStatements bounds how many statements stay prepared. There are fewer texts
// of statements than that, but for lists of values, whose length is the request's.
const maxStatements = 100

// statements are the prepared ones of the connection that writes, by their text:
// to parse them takes about as long as to carry them out. The zero value is
// empty; the store's lock guards it.
type statements struct {
	ready  map[string]*sql.Stmt
	wanted map[string]bool // were not ready when they were used
}

// prepare makes ready what was wanted. It needs the connection, so that no
// transaction may be under way. What cannot be prepared, such as a script, goes on
// without.
func (s *statements) prepare(db *sql.DB) {
	for query := range s.wanted {
		if len(s.ready) >= maxStatements {
			break
		}
		if s.ready == nil {
			s.ready = map[string]*sql.Stmt{}
		}
		if stmt, err := db.Prepare(query); err == nil {
			s.ready[query] = stmt
		}
	}
	s.wanted = nil
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range s.ready {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}

// transaction is a write transaction that uses prepared statements where they are
// ready. Each is one statement; scripts go through the Tx itself.
type transaction struct {
	*sql.Tx
	statements *statements
}

// Exec is Tx.Exec.
func (t *transaction) Exec(query string, args ...any) (sql.Result, error) {
	if stmt := t.prepared(query); stmt != nil {
		return stmt.Exec(args...)
	}
	return t.Tx.Exec(query, args...)
}

// Query is Tx.Query.
func (t *transaction) Query(query string, args ...any) (*sql.Rows, error) {
	if stmt := t.prepared(query); stmt != nil {
		return stmt.Query(args...)
	}
	return t.Tx.Query(query, args...)
}

// QueryRow is Tx.QueryRow.
func (t *transaction) QueryRow(query string, args ...any) *sql.Row {
	if stmt := t.prepared(query); stmt != nil {
		return stmt.QueryRow(args...)
	}
	return t.Tx.QueryRow(query, args...)
}

// prepared returns the statement; nil where it is not ready yet.
func (t *transaction) prepared(query string) *sql.Stmt {
	if stmt := t.statements.ready[query]; stmt != nil {
		return t.Stmt(stmt)
	}
	if t.statements.wanted == nil {
		t.statements.wanted = map[string]bool{}
	}
	t.statements.wanted[query] = true
	return nil
}
