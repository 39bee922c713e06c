package runstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"extraction-experiment/outcome"
)

// applicationID marks a SQLite file as a run ("XRUN").
const applicationID = 0x5852554e

// fileVersion is the form of the file. Version 1 packs nothing, see packs.
const fileVersion = 2

// quickCheckLimit is the size up to which Open lets SQLite check the whole
// file; resuming a large run must not wait for that.
const quickCheckLimit = 8 << 20

// Keys of the meta table.
const (
	keyHeader     = "header"
	keyFooter     = "footer"
	keyScoreNames = "words"
	keyLog        = "log" // there while a log beside the file holds what the file does not
)

// schema is the form of a run file but for what schemaPacks adds.
//
// The index item_order repeats the primary key: it is small where the rows of
// item hold whole documents, and looking for what was not run reads only it.
// The bounds of the partial indices are explained at Published. The columns sum
// are not in every file of the version; see sum.
const schema = `
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE item(
	seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, hash TEXT NOT NULL,
	input TEXT NOT NULL, expected TEXT, metadata TEXT, source TEXT, sum INTEGER);
CREATE INDEX item_order ON item(seq);
CREATE TABLE outcome(
	oid INTEGER PRIMARY KEY, seq INTEGER NOT NULL, trial INTEGER NOT NULL, attempt INTEGER NOT NULL,
	class TEXT NOT NULL, started INTEGER, ended INTEGER, latency INTEGER NOT NULL,
	tokens TEXT, cost REAL, scores BLOB, published INTEGER NOT NULL, sum INTEGER,
	UNIQUE(seq, trial, attempt));
CREATE INDEX outcome_unpublished ON outcome(oid) WHERE published < 7;
CREATE INDEX outcome_superseded ON outcome(oid) WHERE published BETWEEN 10 AND 15;
CREATE TABLE detail(oid INTEGER PRIMARY KEY, body TEXT NOT NULL, sum INTEGER);
CREATE TABLE experiment(trial INTEGER PRIMARY KEY, langfuse_id TEXT NOT NULL, url TEXT NOT NULL);
`

// connect opens the SQLite file at path: "ro" for reading, "rw" for writing by one
// connection, "rwc" also where there is none. The schema of a file that somebody
// sent is not trusted: it cannot make SQLite run functions or write elsewhere.
func connect(path, mode string, pragmas ...string) (*sql.DB, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	slashed := filepath.ToSlash(absolute)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	options := url.Values{
		"mode": {mode}, "_defensive": {"1"}, "_error_rc": {"1"},
		"_pragma": append([]string{"busy_timeout(10000)", "trusted_schema(0)"}, pragmas...),
	}
	u := url.URL{Scheme: "file", Path: slashed, RawQuery: options.Encode()}
	connector, err := sqlite.NewConnector(strings.Replace(u.String(), "file://", "file:", 1))
	if err != nil {
		return nil, err
	}
	db, connections := sql.OpenDB(connector), 1
	if mode == "ro" {
		connections = 8
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// build writes a new, complete run file of one header at path, which must be
// the name of an empty file.
func build(path string, h outcome.Header) error {
	header, err := encodeMeta(keyHeader, h)
	if err != nil {
		return err
	}
	db, err := connect(path, "rw", "synchronous(FULL)", "journal_mode(DELETE)")
	if err != nil {
		return err
	}
	_, err = db.Exec(fmt.Sprintf("BEGIN; %s %s PRAGMA application_id=%d; PRAGMA user_version=%d;",
		schema, schemaPacks, applicationID, fileVersion))
	if err == nil {
		_, err = db.Exec("INSERT INTO meta(key, value) VALUES(?, ?)", keyHeader, header)
	}
	if err == nil {
		_, err = db.Exec("COMMIT")
	}
	return errors.Join(err, db.Close())
}

// check refuses what is not a run of a known format. The file is never opened
// past SQLite: closing such a descriptor would drop the locks that SQLite holds
// for other connections of this process.
func (v view) check(ctx context.Context) error {
	var id, format int
	const query = "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version"
	err := v.db.QueryRowContext(ctx, query).Scan(&id, &format)
	switch {
	case sqliteCode(err) == sqlite3.SQLITE_NOTADB:
		return fault(v.path, ErrNotRun, nil)
	case err != nil:
		return faultOf(v.path, ErrRead, err)
	case id != applicationID:
		return fault(v.path, ErrNotRun, errors.New("it is the SQLite database of another program"))
	case format > fileVersion:
		return fault(v.path, ErrNewer, fmt.Errorf("format %d, and this program knows %d", format, fileVersion))
	}
	return v.checkLength(ctx)
}

// checkLength recognises a file that was cut off. It says nothing while a
// write-ahead log is beside the file, which may hold the missing pages. A writer may
// begin or end meanwhile: so the log is looked for last, and the length after the pages.
func (v view) checkLength(ctx context.Context) error {
	whole, err := one[int64](ctx, v, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
	if err != nil {
		return err
	}
	var info os.FileInfo
	for range 2 { // the log may just have been written back
		if info, err = os.Stat(v.path); err != nil {
			return faultOf(v.path, ErrRead, err)
		}
		if info.Size() >= whole {
			return nil
		}
		if _, err := os.Stat(v.path + "-wal"); err == nil {
			return nil
		}
	}
	return fault(v.path, ErrDamaged, fmt.Errorf("it has %d of %d bytes", info.Size(), whole))
}

// quickCheck lets SQLite look at every page of a small file.
func (v view) quickCheck(ctx context.Context) (small bool, err error) {
	info, err := os.Stat(v.path)
	if err != nil || info.Size() > quickCheckLimit {
		return false, faultOf(v.path, ErrRead, err)
	}
	found, err := one[string](ctx, v, "PRAGMA quick_check(1)")
	if err == nil && found != "ok" {
		err = fault(v.path, ErrDamaged, errors.New(strings.ReplaceAll(found, "\n", " ")))
	}
	return true, err
}

// Names and reasons of scores repeat in every row, so that the rows refer to a
// list in the meta table. What does not fit is in the row itself.
const (
	maxScoreNames      = 512
	maxScoreNameLength = 200
)

// scoreNames is that list. It only ever grows.
type scoreNames struct {
	list  []string
	index map[string]int // word to position, from 1
	grown bool           // since it was last saved
}

// refer returns the position of the word, from 1, or 0 if it has none.
func (w *scoreNames) refer(word string) int {
	if n, ok := w.index[word]; ok {
		return n
	}
	if len(w.list) >= maxScoreNames || len(word) > maxScoreNameLength {
		return 0
	}
	w.list = append(w.list, word)
	w.index[word] = len(w.list)
	w.grown = true
	return len(w.list)
}

func (v view) scoreNames(ctx context.Context) (*scoreNames, error) {
	list, _, err := optionalMeta[[]string](ctx, v, keyScoreNames)
	if err != nil {
		return nil, err
	}
	w := &scoreNames{list: list, index: map[string]int{}}
	for i, word := range w.list {
		w.index[word] = i + 1
	}
	return w, nil
}
