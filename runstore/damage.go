package runstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// The kinds of Fault, to be asked for with errors.Is.
var (
	// ErrExists: Create found a file under the name.
	ErrExists = errors.New("exists already")
	// ErrMissing: there is no such file. It is also fs.ErrNotExist.
	ErrMissing = errors.New("does not exist")
	// ErrLocked: another process, or this one, is writing the run.
	ErrLocked = errors.New("is being written")
	// ErrNotRun: the file is something else than a run.
	ErrNotRun = errors.New("is not a run file")
	// ErrNewer: the run was written by a later version of this program.
	ErrNewer = errors.New("has a newer format")
	// ErrDamaged: the file was a run, and cannot be trusted any more.
	ErrDamaged = errors.New("is damaged")
	// ErrRead: the operating system refused to read.
	ErrRead = errors.New("cannot be read")
	// ErrWrite: the disk is full, the folder read-only, or the like.
	ErrWrite = errors.New("cannot be written")
	// ErrClosed: the run was closed before the call.
	ErrClosed = errors.New("is closed")
)

// ErrDuplicate: an item id, or an outcome of the same item, trial and attempt,
// is in the run already.
var ErrDuplicate = errors.New("is in the run already")

// ErrUnknown: the run has no such item or outcome.
var ErrUnknown = errors.New("is not in the run")

// Fault says what is wrong with the run file at Path. Kind is one of the
// errors above; Err, where there is one, is what was found.
type Fault struct {
	Path string
	Kind error
	Err  error
}

// Error names the file, what is wrong with it, and what can be done.
func (f *Fault) Error() string {
	text := "run file " + f.Path + " " + f.Kind.Error()
	if f.Err != nil {
		text += ": " + f.Err.Error()
	}
	if can := advice[f.Kind]; can != "" {
		text += " (" + can + ")"
	}
	return text
}

// Unwrap returns Kind, and Err where there is one.
func (f *Fault) Unwrap() []error {
	if f.Err == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Err}
}

// ExitCode is 74 where writing failed, 70 for a call after Close, and 64
// otherwise: the file that was named cannot be used.
func (f *Fault) ExitCode() int {
	switch f.Kind {
	case ErrWrite:
		return 74
	case ErrClosed:
		return 70
	}
	return 64
}

// advice says of a kind what can be done.
var advice = map[error]string{
	ErrExists:  "choose another name, or resume the run",
	ErrLocked:  "wait until the other process has ended, or stop it",
	ErrNotRun:  "name a file that ends in " + Extension + ", or an export of one",
	ErrNewer:   "read it with the version that wrote it, or a later one",
	ErrDamaged: "export what can be read, replace the file and its log (-wal) by a copy, or run again under another name",
	ErrWrite:   "make room or allow writing there, then resume: what was committed is safe",
}

func fault(path string, kind, err error) *Fault { return &Fault{path, kind, err} }

// faultOf turns an error of the database into a Fault. What SQLite says about
// the content of the file decides; anything else is of the given kind.
func faultOf(path string, kind, err error) error {
	var known *Fault
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault(path, ErrMissing, err)
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB,
		sqlite3.SQLITE_ERROR: // a table or column is not there
		return fault(path, ErrDamaged, err)
	}
	return fault(path, kind, err)
}

// sqliteCode returns the primary result code, 0 if err is not of SQLite.
func sqliteCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// maxNamed bounds how many lost rows a Loss names.
const maxNamed = 10

// Loss says what of a damaged run an export could not read. Everything else was
// written. It is ErrDamaged.
type Loss struct {
	Path string
	// Items and Outcomes are the rows that are known to be missing: where an
	// index is damaged too there may be more.
	Items, Outcomes int64
	// Parts are the lost parts of which there is one: "header", "footer".
	Parts []string
	// Named are the first of the lost rows, each with what was found.
	Named []string
	// WrittenItems and WrittenOutcomes are what was read.
	WrittenItems, WrittenOutcomes int64
}

// Error says what was kept, what is lost, and names the first of it.
func (l *Loss) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run file %s is damaged: exported %s and %s; lost: %s",
		l.Path, textutil.Counted(l.WrittenItems, "item"), textutil.Counted(l.WrittenOutcomes, "outcome"), l.what())
	for _, name := range l.Named {
		b.WriteString("\n  " + name)
	}
	if more := l.Items + l.Outcomes - int64(len(l.Named)); more > 0 && len(l.Named) > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// Unwrap makes it an ErrDamaged.
func (l *Loss) Unwrap() error { return ErrDamaged }

// ExitCode is 74: what was asked for could not all be written.
func (l *Loss) ExitCode() int { return 74 }

func (l *Loss) what() string {
	parts := slices.Clone(l.Parts)
	if l.Items > 0 {
		parts = append(parts, textutil.Counted(l.Items, "item"))
	}
	if l.Outcomes > 0 {
		parts = append(parts, textutil.Counted(l.Outcomes, "outcome"))
	}
	return strings.Join(parts, ", ")
}

func (l *Loss) any() bool { return l.Items+l.Outcomes > 0 || len(l.Parts) > 0 }

// name keeps what was found about a lost row, without the advice of a Fault.
func (l *Loss) name(row string, err error) {
	if len(l.Named) == maxNamed {
		return
	}
	var f *Fault
	if errors.As(err, &f) && f.Err != nil {
		err = f.Err
	}
	if text := err.Error(); strings.HasPrefix(text, row) {
		row = text
	} else {
		row += ": " + text
	}
	l.Named = append(l.Named, row)
}

// maxGap bounds how many rows are tried one by one between two readable parts
// of a table.
const maxGap = 1 << 20

// Salvage opens a run as OpenAny does, and beyond that one of which the end was
// cut off, or the header or the log is lost: a copy in a temporary folder, as long as the
// file once was, is read then, and removed by Close. It is for Export alone;
// other methods may say ErrDamaged. Errors: those of OpenAny.
func Salvage(ctx context.Context, path string) (*Reader, error) {
	r, err := OpenAny(ctx, path)
	if !errors.Is(err, ErrDamaged) {
		return r, err
	}
	folder, failed := os.MkdirTemp("", "run-*")
	if failed != nil {
		return nil, fault(path, ErrWrite, failed)
	}
	copied := filepath.Join(folder, "damaged"+Extension)
	failed = copyWhole(path, copied)
	if failed == nil {
		var db *sql.DB
		if db, failed = connect(copied, "rw"); failed == nil {
			var v view
			if v, failed = newView(ctx, copied, db); failed == nil {
				unlogged := v.checkLog(ctx) != nil
				v.path = path
				return &Reader{view: v, pool: db, temporary: folder, unlogged: unlogged}, nil
			}
			err = errors.Join(err, db.Close())
		}
	}
	// What was said of the file itself is what a person can use.
	return nil, errors.Join(err, os.RemoveAll(folder))
}

// copyWhole copies a run file with its log, and lengthens the copy to what the
// first page says.
func copyWhole(from, to string) error {
	if err := copyPlain(from, to); err != nil {
		return err
	}
	if err := copyPlain(from+"-wal", to+"-wal"); ignoreMissing(err) != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(lengthen(f), f.Close())
}

// lengthen reads the size and number of pages from bytes 16 and 28 of the file.
func lengthen(f *os.File) error {
	var first [32]byte
	if _, err := f.ReadAt(first[:], 0); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	whole := int64(binary.BigEndian.Uint16(first[16:])) * int64(binary.BigEndian.Uint32(first[28:]))
	if whole <= info.Size() || whole > 64*info.Size()+1<<20 { // the number itself may be damaged
		return nil
	}
	return f.Truncate(whole)
}

func copyPlain(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() // only read: nothing can be lost
	return files.Write(to, func(out io.Writer) error {
		_, err := io.Copy(out, in)
		return err
	})
}

// rowKey finds an item, or an outcome without its item.
type rowKey struct {
	row, seq       int64 // the number of the row, and of the item
	trial, attempt int   // of an outcome
	id             string
}

// String names the row in messages.
func (k rowKey) String() string {
	if k.attempt == 0 {
		return fmt.Sprintf("item %q", k.id)
	}
	return fmt.Sprintf("outcome of item %q, trial %d, attempt %d", k.id, k.trial, k.attempt)
}

func (k rowKey) compare(l rowKey) int {
	return cmp.Or(cmp.Compare(k.id, l.id), cmp.Compare(k.trial, l.trial), cmp.Compare(k.attempt, l.attempt), cmp.Compare(k.row, l.row))
}

// salvager finds the rows of a damaged file. Memory: the keys of all rows.
type salvager struct {
	ctx context.Context
	tx  *sql.Tx
}

// items returns the keys of all items that can be found, by id.
func (s salvager) items() []rowKey {
	return s.keys("item", "seq, seq, 0, 0, id", "seq", "id", nil)
}

// outcomes returns the keys of all outcomes that can be found, by item id,
// trial and attempt. Those of items that cannot be found have no id.
func (s salvager) outcomes() []rowKey {
	ids := map[int64]string{}
	for _, item := range s.items() {
		ids[item.seq] = item.id
	}
	return s.keys("outcome", "oid, seq, trial, attempt, ''", "oid", "seq", ids)
}

// keys goes every way that leads to the rows of a table: by its integer key and by its
// index, from the front and from the back, and one by one through the gap between.
func (s salvager) keys(table, columns, key, indexed string, ids map[int64]string) []rowKey {
	found := map[int64]rowKey{}
	var last int64
	scan := func(rows *sql.Rows) error {
		var k rowKey
		err := rows.Scan(&k.row, &k.seq, &k.trial, &k.attempt, &k.id)
		if err == nil {
			k.id = cmp.Or(k.id, ids[k.seq])
			found[k.row], last = k, k.row
		}
		return err
	}
	query := "SELECT " + columns + " FROM " + table
	s.rows(query+" NOT INDEXED ORDER BY "+key, scan)
	front := last
	s.rows(query+" NOT INDEXED ORDER BY "+key+" DESC", scan)
	back := last
	for n := front + 1; n < back && n-front <= maxGap && s.ctx.Err() == nil; n++ {
		s.rows(query+" NOT INDEXED WHERE "+key+" = ?", scan, n)
	}
	for _, direction := range []string{"", " DESC"} {
		s.rows(query+" INDEXED BY sqlite_autoindex_"+table+"_1 ORDER BY "+indexed+direction, scan)
	}
	return slices.SortedFunc(maps.Values(found), rowKey.compare)
}

// rows calls scan for each row until the end or the first that cannot be read.
func (s salvager) rows(query string, scan func(*sql.Rows) error, args ...any) {
	rows, err := s.tx.QueryContext(s.ctx, query, args...)
	if err != nil {
		return
	}
	for rows.Next() && scan(rows) == nil {
	}
	_ = rows.Close() // damaged, as is known
}
