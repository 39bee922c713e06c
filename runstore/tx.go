package runstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// tx is the writing connection with its prepared statements. Only the writer's
// goroutine uses it, and only between BEGIN and COMMIT.
type tx struct {
	path  string
	conn  *sql.Conn
	words *words

	addItem, addOutcome, addDetail, supersede, acknowledge *sql.Stmt
}

// openTx checks the file and prepares the connection. WAL with synchronous FULL: a
// commit returns when it would survive a power cut, and readers never wait.
func openTx(ctx context.Context, path string, db *sql.DB) (t *tx, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, faultOf(path, ErrWrite, err)
	}
	t = &tx{path: path, conn: conn}
	defer func() {
		if err != nil {
			t, err = nil, faultOf(path, ErrWrite, errors.Join(err, t.close()))
		}
	}()
	if err := t.keepLog(true); err != nil {
		return t, err
	}
	for _, check := range []func(context.Context, string, querier) error{check, checkLog, quickCheck} {
		if err := check(ctx, path, conn); err != nil {
			return t, err
		}
	}
	for _, pragma := range []string{"journal_mode=WAL", "synchronous=FULL", "cache_size=-16000"} {
		if err := t.exec("PRAGMA " + pragma); err != nil {
			return t, err
		}
	}
	if err := t.addSums(ctx); err != nil {
		return t, err
	}
	for query, stmt := range map[string]**sql.Stmt{
		sqlAddItem: &t.addItem, sqlAddOutcome: &t.addOutcome, sqlAddDetail: &t.addDetail,
		sqlSupersede: &t.supersede, sqlAcknowledge: &t.acknowledge,
	} {
		if *stmt, err = conn.PrepareContext(ctx, query); err != nil {
			return t, err
		}
	}
	t.words, err = readWords(ctx, path, conn)
	return t, err
}

func (t *tx) close() error {
	var err error
	for _, stmt := range []*sql.Stmt{t.addItem, t.addOutcome, t.addDetail, t.supersede, t.acknowledge} {
		if stmt != nil {
			err = errors.Join(err, stmt.Close())
		}
	}
	return errors.Join(err, t.conn.Close())
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.conn.ExecContext(context.Background(), query, args...)
	return err
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

func (t *tx) meta(key string, into any) error {
	return readMeta(context.Background(), t.path, t.conn, key, into)
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

// reopen takes the footer away: it no longer speaks of everything in the run.
func (t *tx) reopen() error {
	return t.exec("DELETE FROM meta WHERE key = ?", keyFooter)
}

func (t *tx) saveWords() error {
	if !t.words.grown {
		return nil
	}
	t.words.grown = false
	return t.setMeta(keyWords, t.words.list)
}

// keepLog says whether SQLite leaves the log where it is when the last connection ends:
// only settle may remove it, who takes the mark of it away first.
func (t *tx) keepLog(keep bool) error {
	return t.conn.Raw(func(driver any) error {
		mode := 0
		if keep {
			mode = 1
		}
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
	if err := t.keepLog(false); err != nil {
		return err
	}
	if err := t.exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil && !isBusy(err) {
		return err
	}
	if err := t.exec("PRAGMA journal_mode=DELETE"); err != nil && !isBusy(err) {
		return err
	}
	return nil
}

func isBusy(err error) bool {
	code := sqliteCode(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}
