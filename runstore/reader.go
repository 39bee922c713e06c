package runstore

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	sqlite3 "modernc.org/sqlite/lib"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/outcome"
)

// Reading goes in pages of at most so many rows and about so many bytes, each
// read in a transaction of its own: a long one would keep the log of a run that
// is being written from ever being written back.
const (
	maxPageRows  = 512
	maxPageBytes = 4 << 20
)

// Reader reads a run, also while another process writes it. What it returns is
// committed. Safe for concurrent use.
type Reader struct {
	view
	pool      *sql.DB
	temporary string // a folder to remove at Close, if any
	unlogged  bool   // the log is missing, see checkLog
}

// view is a run file as one querier sees it.
type view struct {
	path  string
	db    querier
	packs *packs
}

// querier is a database, one of its connections or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// newView returns the view of a run file of a known format.
func newView(ctx context.Context, path string, db querier) (view, error) {
	packs, err := newPacks()
	v := view{path, db, packs}
	if err == nil {
		err = v.check(ctx)
	}
	if err == nil {
		_ = v.known(ctx) // what cannot be unpacked without says so
	}
	return v, err
}

// one returns the only value of the only row of a query.
func one[T any](ctx context.Context, v view, query string, args ...any) (value T, err error) {
	err = v.db.QueryRowContext(ctx, query, args...).Scan(&value)
	return value, faultOf(v.path, ErrRead, err)
}

// Load opens a run for reading only. It takes no lock and changes nothing, but
// for one thing: where a process was killed while it changed the form of the
// file, the change is taken back first, as SQLite wants it before it reads. The
// content is not checked as a whole, so that what can be read of a damaged run
// can be exported.
//
// Errors: ErrMissing, ErrNotRun, ErrNewer, ErrDamaged, ErrRead.
func Load(path string) (*Reader, error) {
	if err := isFile(path); err != nil {
		return nil, err
	}
	r, err := load(path)
	if sqliteCode(err) != sqlite3.SQLITE_READONLY {
		return r, err
	}
	if rolled := rollBack(path); rolled != nil {
		return nil, errors.Join(err, rolled)
	}
	return load(path)
}

// rollBack lets SQLite take back what a killed process left half done.
func rollBack(path string) error {
	db, err := connect(path, "rw")
	if err != nil {
		return fault(path, ErrRead, err)
	}
	return errors.Join(view{path: path, db: db}.check(context.Background()), db.Close())
}

func load(path string) (*Reader, error) {
	db, err := connect(path, "ro", "cache_size(-1000)")
	if err != nil {
		return nil, fault(path, ErrRead, err)
	}
	ctx, r := context.Background(), &Reader{pool: db}
	r.view, err = newView(ctx, path, db)
	if err == nil {
		err = r.checkMeta(ctx)
	}
	if err == nil {
		err = r.checkLog(ctx)
	}
	if err == nil {
		_, err = r.Header(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return r, nil
}

// Path returns the file that is read.
func (r *Reader) Path() string { return r.path }

// Close closes the file. Safe to repeat.
func (r *Reader) Close() error {
	err := r.pool.Close()
	if r.temporary != "" {
		err = errors.Join(err, os.RemoveAll(r.temporary))
	}
	return err
}

// Footer returns the footer; ok is false while there is none, because the run
// is going on or was killed.
func (r *Reader) Footer(ctx context.Context) (f outcome.Footer, ok bool, err error) {
	return optionalMeta[outcome.Footer](ctx, r.view, keyFooter)
}

// Check reads all of a file of up to 8 MiB: ErrDamaged says what it found. Of a
// larger one damage shows when the rows are read.
func (r *Reader) Check(ctx context.Context) error {
	if small, err := r.quickCheck(ctx); err != nil || !small {
		return err
	}
	for _, err := range r.Items(ctx) {
		if err != nil {
			return err
		}
	}
	for _, err := range r.Outcomes(ctx, Query{Detail: true}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Counts is what is in a run, newest attempts only.
type Counts struct {
	Items     int64 // listed so far
	Planned   int64 // Items × trials
	Done      int64 // items, in each trial, that have an outcome
	Failed    int64 // part of Done
	Published int64 // part of Done: link, spans and scores acknowledged
}

// Counts counts. One pass over the outcomes, without their details: about 0.1 s
// for 200,000.
func (r *Reader) Counts(ctx context.Context) (Counts, error) {
	h, err := r.Header(ctx)
	if err != nil {
		return Counts{}, err
	}
	var c Counts
	row := r.db.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM item), count(*), coalesce(sum(class <> ''), 0), coalesce(sum(published & 7 = 7), 0)
		FROM outcome WHERE published & 8 = 0`)
	if err := row.Scan(&c.Items, &c.Done, &c.Failed, &c.Published); err != nil {
		return Counts{}, faultOf(r.path, ErrRead, err)
	}
	c.Planned = c.Items * int64(max(h.Trials, 1))
	return c, nil
}

// CountItems returns how many items were listed so far.
func (r *Reader) CountItems(ctx context.Context) (int64, error) {
	return one[int64](ctx, r.view, "SELECT count(*) FROM item")
}

// Header returns the header as it stands now; its fingerprint is set only when
// the listing is complete.
func (v view) Header(ctx context.Context) (outcome.Header, error) {
	h, there, err := optionalMeta[outcome.Header](ctx, v, keyHeader)
	if err == nil && !there {
		err = fault(v.path, ErrDamaged, errors.New("it has no header"))
	}
	return h, err
}

// maxMeta bounds the header, and everything else of which a run has one.
const maxMeta = 4 << 20

// checkMeta refuses a file with a larger value without reading it. Looking for a key
// would read it; this goes through the table.
func (v view) checkMeta(ctx context.Context) error {
	var key string
	var size int64
	const larger = "SELECT substr(key, 1, 40), octet_length(value) FROM meta WHERE octet_length(value) > ?"
	err := v.db.QueryRowContext(ctx, larger, maxMeta).Scan(&key, &size)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return faultOf(v.path, ErrRead, err)
	}
	return fault(v.path, ErrDamaged, fmt.Errorf("%s: it has %d bytes, more than %d", key, size, maxMeta))
}

// checkLog notices that the log beside the file is gone with what was committed last:
// a copy without it, or a cleaner. The file says so from the first commit of a writer
// to its end, in itself; see tx.markLog.
func (v view) checkLog(ctx context.Context) error {
	for range 3 { // a writer may end between one look and the other
		marked, err := one[bool](ctx, v, "SELECT count(*) FROM meta WHERE key = ?", keyLog)
		if err != nil || !marked {
			return err
		}
		info, err := os.Stat(v.path + "-wal")
		if err == nil && info.Size() > 0 || ignoreMissing(err) != nil {
			return faultOf(v.path, ErrRead, err)
		}
	}
	return fault(v.path, ErrDamaged, fmt.Errorf("the log %s-wal is missing, and what was committed last with it", v.path))
}

// meta returns sql.ErrNoRows if there is no such key, and an ErrDamaged if
// its value is not JSON of the right form.
func (v view) meta(ctx context.Context, key string, into any) error {
	var text string
	if err := v.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = ?", key).Scan(&text); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fault(v.path, ErrDamaged, fmt.Errorf("%s: %w", key, err))
	}
	return nil
}

// optionalMeta is view.meta of a key that may not be there.
func optionalMeta[T any](ctx context.Context, v view, key string) (value T, ok bool, err error) {
	err = v.meta(ctx, key, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return value, false, nil
	}
	return value, err == nil, faultOf(v.path, ErrRead, err)
}

// queryPage reads rows until they end or have maxPageBytes; scan also returns the size of a row.
func queryPage[T any](
	ctx context.Context, v view, scan func(*sql.Rows) (T, int, error), query string, args ...any,
) (page []T, err error) {
	rows, err := v.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, faultOf(v.path, ErrRead, err)
	}
	defer func() { err = faultOf(v.path, ErrRead, errors.Join(err, rows.Close())) }()
	for size := 0; size < maxPageBytes && rows.Next(); {
		row, bytes, err := scan(rows)
		if err != nil {
			return nil, err
		}
		page, size = append(page, row), size+bytes
	}
	return page, rows.Err()
}

// Ahead returns the rows of one page after another, and reads the next page while the
// rows of one are looked at; next is given the last row of the page before. An empty
// page is the end, and so is an error. No read is left behind.
func Ahead[T any](next func(last T) ([]T, error)) iter.Seq2[T, error] {
	type page struct {
		rows []T
		err  error
	}
	return func(yield func(T, error) bool) {
		coming := make(chan page, 1)
		read := func(last T) { rows, err := next(last); coming <- page{rows, err} }
		var last T
		read(last)
		for {
			now := <-coming
			if now.err != nil {
				var none T
				yield(none, now.err)
			}
			if now.err != nil || len(now.rows) == 0 {
				return
			}
			last = now.rows[len(now.rows)-1]
			go read(last)
			for _, row := range now.rows {
				if !yield(row, nil) {
					<-coming // nobody reads any more
					return
				}
			}
		}
	}
}

// OpenAny opens a run for reading in either form: a run file, or what Export
// wrote. An export is imported into a temporary folder, which Close removes.
// Errors: those of Load and Import.
func OpenAny(ctx context.Context, path string) (*Reader, error) {
	r, err := Load(path)
	if !errors.Is(err, ErrNotRun) {
		return r, err
	}
	f, open := files.Open(ctx, path)
	if open != nil {
		return nil, faultOf(path, ErrRead, open)
	}
	r, err = openExport(ctx, f, err)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return r, nil
}

// openExport imports the file if it looks like an export, else it returns what
// was said about it.
func openExport(ctx context.Context, f *files.File, otherwise error) (*Reader, error) {
	in := bufio.NewReader(f)
	first, err := in.Peek(1)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil || first[0] != '{':
		return nil, otherwise
	}
	folder, err := os.MkdirTemp("", "run-*")
	if err != nil {
		return nil, cli.Errorf(cli.ExitIO, "reading the export %s takes a temporary folder (TMPDIR): %w", f.Name(), err)
	}
	imported := filepath.Join(folder, "imported")
	if err = Import(ctx, in, f.Name(), imported); err == nil {
		var r *Reader
		if r, err = Load(imported); err == nil {
			r.path, r.temporary = f.Name(), folder
			return r, nil
		}
	}
	return nil, errors.Join(err, os.RemoveAll(folder))
}

// Entry is a run in a list. If Err is set, the rest says what could be read.
type Entry struct {
	Path   string
	Header outcome.Header
	Footer outcome.Footer // zero while the run goes on, and after it was killed
	Err    error
}

// Placed reports whether the file is where Path puts the run of that name
// and dataset, whatever lies in it; "" is any dataset.
func (e Entry) Placed(dataset, name string) bool {
	if filepath.Base(e.Path) != safeName(name)+Extension {
		return false
	}
	return dataset == "" || filepath.Base(filepath.Dir(e.Path)) == safeName(dataset)
}

// List returns the runs below dir, as Path places them, ordered by path. A file
// that cannot be read is an entry with its error; a folder that is not there has
// no runs. Of each file header and footer are read.
func List(ctx context.Context, dir string) ([]Entry, error) {
	entries, err := Files(ctx, dir)
	for i := range entries {
		e := &entries[i]
		if e.Err != nil || ctx.Err() != nil {
			continue
		}
		r, failed := Load(e.Path)
		if failed == nil {
			if e.Header, failed = r.Header(ctx); failed == nil {
				e.Footer, _, failed = r.Footer(ctx)
			}
			failed = errors.Join(failed, r.Close())
		}
		e.Err = failed
	}
	return entries, errors.Join(err, ctx.Err())
}

// Files returns the entries of List with nothing but their paths: no file is opened.
func Files(ctx context.Context, dir string) ([]Entry, error) {
	var entries []Entry
	root := filepath.Join(dir, runsFolder)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // no runs yet, or removed just now
			return nil
		case err != nil:
			entries = append(entries, Entry{Path: path, Err: err})
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.IsDir() && filepath.Ext(path) == Extension:
			entries = append(entries, Entry{Path: path})
		}
		return ctx.Err()
	})
	return entries, err
}
