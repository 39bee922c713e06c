package runstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// applicationID marks a SQLite file as a run ("XRUN").
const applicationID = 0x5852554e

// fileVersion is the version of the file format. Version 1 has no packed values; see codec.
const fileVersion = 2

// quickCheckLimit is the size in bytes up to which Open lets SQLite check the whole file.
// Opening a larger run must not wait for that.
const quickCheckLimit = 8 << 20

// pageSize is the default page size of SQLite in bytes, which run files have.
const pageSize = 4096

// Keys of the meta table.
const (
	keyHeader     = "header"
	keyFooter     = "footer"
	keyScoreNames = "words"
	keyLog        = "log" // exists while the log next to the file has changes that the file does not have
)

// schema is the schema of version 1. A new file also has schemaV2, which is in pack.go with
// upgrade.
//
// The index item_order repeats the primary key. It is small, while the rows of item hold
// whole documents, and the search for items without an outcome reads only the index.
// Published explains the bounds of the partial indices. The oldest files of version 1 do not
// have the columns sum; see sum.
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
CREATE INDEX outcome_unpublished ON outcome(oid) WHERE ` + sqlUnpublished + `;
CREATE INDEX outcome_superseded ON outcome(oid) WHERE ` + sqlToWithdraw + `;
CREATE TABLE detail(oid INTEGER PRIMARY KEY, body TEXT NOT NULL, sum INTEGER);
CREATE TABLE experiment(trial INTEGER PRIMARY KEY, langfuse_id TEXT NOT NULL, url TEXT NOT NULL);
`

// connect opens the SQLite file at path. mode is "ro" for reading, or "rw" for writing with one
// connection. The schema of a file is not trusted: it cannot make SQLite run functions or, where
// anything is written, write to internal tables.
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
		"mode": {mode}, "_error_rc": {"1"},
		"_pragma": append([]string{"busy_timeout(10000)", "trusted_schema(0)"}, pragmas...),
	}
	if mode != "ro" {
		options.Set("_defensive", "1")
	}
	connector, err := sqlite.NewConnector("file://" + (&url.URL{Path: slashed}).EscapedPath() + "?" + options.Encode())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	if mode != "ro" { // a reader needs a second connection while it reads a page from the first
		db.SetMaxOpenConns(1)
	}
	db.SetMaxIdleConns(8)
	return db, nil
}

// CheckHeader returns an error with exit code 64 if a run file cannot hold the header: if it has
// more than 4 MiB or too many trials.
func CheckHeader(h outcome.Header) error {
	_, err := encodeHeader(h)
	return err
}

// encodeHeader returns the JSON of the header of a new run.
func encodeHeader(h outcome.Header) (string, error) {
	limit := maxMeta
	if h.Dataset.Fingerprint == "" {
		limit -= 1 << 10 // room for it
	}
	h.Format = cmp.Or(h.Format, outcome.FormatVersion)
	header, err := json.Marshal(h)
	switch trials := checkTrials(h); {
	case err != nil:
		return "", cli.Usage("the header of the run: %w", err)
	case trials != nil:
		return "", cli.WithCode(cli.ExitUsage, trials)
	case len(header) > limit:
		return "", cli.Usage("the header of the run has %d bytes, more than %d: "+
			"shorten the prompt, the description or the metadata", len(header), limit)
	}
	return string(header), nil
}

// MaxTrials bounds the trials of a run, since some work is done for each.
const MaxTrials = 10_000

func checkTrials(h outcome.Header) error {
	if h.Trials < 0 || h.Trials > MaxTrials {
		return fmt.Errorf("the header has %d trials: a run has from 1 to %d", h.Trials, MaxTrials)
	}
	return nil
}

// build writes a complete run file with a header at path, which must be an empty file.
func build(path, header string) error {
	db, err := connect(path, "rw", "synchronous(FULL)", "journal_mode(DELETE)")
	if err != nil {
		return err
	}
	_, err = db.Exec(fmt.Sprintf(`BEGIN; %s %s PRAGMA application_id=%d; PRAGMA user_version=%d;
		INSERT INTO meta(key, value) VALUES(?, ?); COMMIT`, schema, schemaV2, applicationID, fileVersion), keyHeader, header)
	return errors.Join(err, db.Close())
}

// check returns an error unless the file is a run of a known format. It reads the file only
// through SQLite, because closing another descriptor would drop the locks that SQLite holds for
// other connections of this process.
func (v view) check(ctx context.Context) error {
	var id, format, foreign int
	const query = `SELECT application_id, user_version,
		(SELECT count(*) FROM sqlite_schema WHERE type IN ('view', 'trigger'))
		FROM pragma_application_id, pragma_user_version`
	err := v.db.QueryRowContext(ctx, query).Scan(&id, &format, &foreign)
	switch {
	case sqliteCode(err) == sqlite3.SQLITE_NOTADB:
		return fault(v.path, ErrNotRun, nil)
	case err != nil:
		return faultOf(v.path, ErrRead, err)
	case id != applicationID:
		return fault(v.path, ErrNotRun, errors.New("it is empty, or the SQLite database of another program"))
	case format > fileVersion:
		return fault(v.path, ErrNewer, fmt.Errorf("format %d, and this program knows %d", format, fileVersion))
	case foreign > 0: // a view can have rows without end
		return fault(v.path, ErrNotRun, errors.New("it has views or triggers, as no run has"))
	}
	return nil
}

// checkLength detects a file that was truncated within a page, unless there is a write-ahead log,
// which may hold that page. SQLite itself detects missing pages.
func (v view) checkLength(context.Context) error {
	info, err := os.Stat(v.path)
	if err != nil || info.Size()%pageSize == 0 {
		return faultOf(v.path, ErrRead, err)
	}
	if _, err := os.Stat(v.path + "-wal"); err == nil {
		return nil
	}
	return fault(v.path, ErrDamaged, fmt.Errorf("it has %d bytes and ends within a page", info.Size()))
}

// quickCheck lets SQLite check every page of the file, and reports whether the file is small
// enough for that.
func (v view) quickCheck(ctx context.Context) (small bool, err error) {
	info, err := os.Stat(v.path)
	if err != nil || info.Size() > quickCheckLimit {
		return false, faultOf(v.path, ErrRead, err)
	}
	found, err := queryValue[string](ctx, v, "PRAGMA quick_check(1)")
	if err == nil && found != "ok" {
		err = fault(v.path, ErrDamaged, errors.New(strings.ReplaceAll(found, "\n", " ")))
	}
	return true, err
}

// Names and reasons of scores repeat in every row, so rows refer to a list of them in the meta
// table. A row holds the words that do not fit into the list itself.
const (
	maxScoreNames      = 512
	maxScoreNameLength = 200
)

// scoreNames is the list of names and reasons of scores. It only grows.
type scoreNames struct {
	list  []string
	dirty bool // has words that are not saved
}

// intern returns the position of a word, from 1. It adds a missing word, or returns 0 if the
// list is full or the word too long.
func (w *scoreNames) intern(word string) int {
	if i := slices.Index(w.list, word); i >= 0 {
		return i + 1
	}
	if len(w.list) >= maxScoreNames || len(word) > maxScoreNameLength {
		return 0
	}
	w.list = append(w.list, word)
	w.dirty = true
	return len(w.list)
}

func (v view) scoreNames(ctx context.Context) (*scoreNames, error) {
	list, _, err := readMeta[[]string](ctx, v, keyScoreNames)
	return &scoreNames{list: list}, err
}
