package runstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// The kinds of Fault, for use with errors.Is.
var (
	// ErrExists: the path of a new run exists.
	ErrExists = errors.New("exists already")
	// ErrMissing: the file does not exist. The Fault matches fs.ErrNotExist too.
	ErrMissing = errors.New("does not exist")
	// ErrLocked: another process, or this one, is writing the run.
	ErrLocked = errors.New("is being written")
	// ErrNotRun: the file is not a run.
	ErrNotRun = errors.New("is not a run file")
	// ErrNewer: a later version of this program wrote the run.
	ErrNewer = errors.New("has a newer format")
	// ErrDamaged: the file is a run with damaged content.
	ErrDamaged = errors.New("is damaged")
	// ErrRead: the operating system refused to read.
	ErrRead = errors.New("cannot be read")
	// ErrWrite: writing failed, for example because the disk is full or the folder read-only.
	ErrWrite = errors.New("cannot be written")
	// ErrMoved: the file was moved or removed while it was written.
	ErrMoved = errors.New("was moved or removed while it was written")
	// ErrClosed: the run was closed before the call.
	ErrClosed = errors.New("is closed")
)

// ErrDuplicate: the run already has the item id, an outcome of the same item, trial and
// attempt, or another experiment id of the trial.
var ErrDuplicate = errors.New("is in the run already")

// ErrUnknown: the run does not have the item or outcome.
var ErrUnknown = errors.New("is not in the run")

// Fault is an error of the run file at Path. Kind is one of the kinds above, and Err the
// cause, which may be nil.
type Fault struct {
	Path string
	Kind error
	Err  error
}

// Error describes the error and what the user can do.
func (f *Fault) Error() string {
	text := "run file " + f.Path + " " + f.Kind.Error()
	if f.Err != nil {
		text += ": " + f.Err.Error()
	}
	if hint := advice[f.Kind]; hint != "" {
		text += " (" + hint + ")"
	}
	return text
}

// Unwrap returns Kind, and Err unless it is nil.
func (f *Fault) Unwrap() []error {
	if f.Err == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Err}
}

// ExitCode returns 74 if writing failed or the file was moved, 70 for a call after Close, and
// otherwise 64, because the named file cannot be used.
func (f *Fault) ExitCode() int {
	switch f.Kind {
	case ErrWrite, ErrMoved:
		return cli.ExitIO
	case ErrClosed:
		return cli.ExitBug
	}
	return cli.ExitUsage
}

// advice is what the user can do, by kind.
var advice = map[error]string{
	ErrExists:  "choose another name, or resume the run",
	ErrLocked:  "wait until the other process has ended, or stop it",
	ErrNotRun:  "name a file that ends in " + Extension + ", or an export of one",
	ErrNewer:   "read it with the version that wrote it, or a later one",
	ErrDamaged: "export what can be read, replace the file and its log (-wal) by a copy, or run again under another name",
	ErrMoved:   "put it back with its log (-wal), then resume; what was removed is lost",
	ErrWrite:   "make room or allow writing there, then resume: what was committed is safe",
}

func fault(path string, kind, err error) *Fault { return &Fault{path, kind, err} }

// faultOf returns a Fault for an error of the database. Its kind is ErrDamaged if SQLite
// reports bad content, ErrMissing if the file does not exist, ErrWrite if opening it takes room on
// a full disk, and otherwise kind. faultOf returns nil, an existing Fault and errors of a context
// unchanged.
func faultOf(path string, kind, err error) error {
	switch _, isFault := errors.AsType[*Fault](err); {
	case err == nil:
		return nil
	case isFault, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault(path, ErrMissing, err)
	}
	switch e, _ := errors.AsType[*sqlite.Error](err); {
	case e == nil:
	case e.Code() == sqlite3.SQLITE_READONLY_DBMOVED:
		return fault(path, ErrMoved, nil)
	case e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ: // the file ends within a page
		kind = ErrDamaged
	case e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE: // no room on the disk for the index of the log
		kind = ErrWrite
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB,
		sqlite3.SQLITE_ERROR: // a table or column is missing
		kind = ErrDamaged
	}
	return fault(path, kind, err)
}

// cannotOpen says why SQLite cannot open a file, which its error err does not. Nothing has a lock
// there that closing the file would lose.
func cannotOpen(path string, err error) error {
	f, openErr := os.Open(path)
	if openErr != nil {
		return fault(path, ErrRead, openErr)
	}
	if _, logErr := os.Stat(path + "-wal"); logErr == nil {
		err = fault(path, ErrRead, errors.New("reading its log (-wal) takes a folder that can be written: copy both to one"))
	}
	return errors.Join(err, f.Close())
}

// sqliteCode returns the primary result code of SQLite, or 0 if err is another error.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// maxNamed is the number of lost rows that a Loss names at most.
const maxNamed = 10

// Loss lists the parts of a damaged run that an export could not read. All other parts were
// written. It matches ErrDamaged.
type Loss struct {
	Path string
	// Items and Outcomes are the numbers of lost rows. There may be more if an index is
	// damaged too.
	Items, Outcomes int64
	// Parts are the other lost parts, for example "the header".
	Parts []string
	// Named are the first lost rows, each with its error.
	Named []string
	// WrittenItems and WrittenOutcomes are the numbers of exported rows.
	WrittenItems, WrittenOutcomes int64
}

// Error states what was exported and what is lost, and names the first lost rows.
func (l *Loss) Error() string {
	lost := slices.Clone(l.Parts)
	if l.Items > 0 {
		lost = append(lost, textutil.Counted(l.Items, "item"))
	}
	if l.Outcomes > 0 {
		lost = append(lost, textutil.Counted(l.Outcomes, "outcome"))
	}
	lines := append([]string{fmt.Sprintf("run file %s is damaged: exported %s and %s; lost: %s", l.Path,
		textutil.Counted(l.WrittenItems, "item"), textutil.Counted(l.WrittenOutcomes, "outcome"), strings.Join(lost, ", "))},
		l.Named...)
	if more := l.Items + l.Outcomes - int64(len(l.Named)); more > 0 && len(l.Named) > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n  ")
}

// Unwrap returns ErrDamaged.
func (l *Loss) Unwrap() error { return ErrDamaged }

// ExitCode returns 74, because not everything could be written.
func (l *Loss) ExitCode() int { return cli.ExitIO }

func (l *Loss) hasLoss() bool { return l.Items+l.Outcomes > 0 || len(l.Parts) > 0 }

// addNamed adds a lost row and its error, without the advice of a Fault.
func (l *Loss) addNamed(row string, err error) {
	if len(l.Named) == maxNamed {
		return
	}
	if f, ok := errors.AsType[*Fault](err); ok && f.Err != nil {
		err = f.Err
	}
	if text := err.Error(); strings.HasPrefix(text, row) {
		row = text
	} else {
		row += ": " + text
	}
	l.Named = append(l.Named, row)
}

// Salvage is like OpenAny, but also opens a run that was truncated or whose header or log is
// lost. The Reader is only for Export; other methods may return ErrDamaged. The errors are those
// of OpenAny.
func Salvage(ctx context.Context, path string) (*Reader, error) {
	r, err := OpenAny(ctx, path)
	if !errors.Is(err, ErrDamaged) {
		return r, err
	}
	db, openErr := connect(path, "ro", "writable_schema(1)") // makes SQLite read truncated files
	if openErr != nil {
		return nil, err
	}
	v, openErr := newView(ctx, path, db)
	if openErr != nil {
		return nil, errors.Join(err, db.Close()) // the first error is the more useful one
	}
	return &Reader{view: v, pool: db, logMissing: v.checkLog(ctx) != nil}, nil
}

// rowKey is the key of an item or an outcome.
type rowKey struct {
	row, seq       int64 // the integer key of the row, and the seq of the item
	trial, attempt int   // 0 for an item
	id             string
}

// String returns the name of the row for messages.
func (k rowKey) String() string {
	if k.attempt == 0 {
		return fmt.Sprintf("item %q", k.id)
	}
	return fmt.Sprintf("outcome of item %q, trial %d, attempt %d", k.id, k.trial, k.attempt)
}

func (k rowKey) compare(l rowKey) int {
	return cmp.Or(cmp.Compare(k.id, l.id), cmp.Compare(k.trial, l.trial), cmp.Compare(k.attempt, l.attempt), cmp.Compare(k.row, l.row))
}

// salvager finds the rows of a damaged file. It keeps the keys of all rows in memory.
type salvager struct {
	ctx context.Context
	tx  *sql.Tx
}

// items returns the keys of all items that it can find, sorted by id.
func (s salvager) items() []rowKey {
	return s.keys("item", "seq, seq, 0, 0, id", "seq", "id", nil)
}

// outcomes returns the keys of all outcomes that it can find, sorted by item id, trial and
// attempt. The id is empty if the item cannot be found.
func (s salvager) outcomes() []rowKey {
	ids := map[int64]string{}
	for _, item := range s.items() {
		ids[item.seq] = item.id
	}
	return s.keys("outcome", "oid, seq, trial, attempt, ''", "oid", "seq", ids)
}

// keys finds the rows of a table in every way: forwards and backwards, by its integer key and by
// its index. A row is missed only if the table is damaged on both sides of it, and the index too.
func (s salvager) keys(table, columns, key, indexed string, ids map[int64]string) []rowKey {
	found := map[int64]rowKey{}
	for _, way := range []string{" NOT INDEXED ORDER BY " + key, " INDEXED BY sqlite_autoindex_" + table + "_1 ORDER BY " + indexed} {
		for _, direction := range []string{"", " DESC"} {
			rows, err := s.tx.QueryContext(s.ctx, "SELECT "+columns+" FROM "+table+way+direction)
			if err != nil {
				continue
			}
			for rows.Next() {
				var k rowKey
				if rows.Scan(&k.row, &k.seq, &k.trial, &k.attempt, &k.id) != nil {
					break
				}
				k.id = cmp.Or(k.id, ids[k.seq])
				found[k.row] = k
			}
			_ = rows.Close() // the file is known to be damaged
		}
	}
	return slices.SortedFunc(maps.Values(found), rowKey.compare)
}
