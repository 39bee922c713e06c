package runstore

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	sqlite3 "modernc.org/sqlite/lib"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/outcome"
)

// A page has at most maxPageRows rows and about maxPageBytes bytes. Each page is read in a
// transaction of its own, because a long one would prevent a writer from writing its log back.
const (
	maxPageRows  = 512
	maxPageBytes = 4 << 20
)

// Reader reads a run, even while another process writes it. It returns only committed data. It
// is safe for concurrent use.
type Reader struct {
	view
	pool       *sql.DB
	tempDir    string // a folder that Close removes, or ""
	logMissing bool   // checkLog failed
}

// view reads a run file through one querier.
type view struct {
	path  string
	db    querier
	codec *codec
}

// querier is a database, one of its connections or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// newView returns a view of a run file, and an error if the format is not known.
func newView(ctx context.Context, path string, db querier) (view, error) {
	c, err := newCodec()
	v := view{path, db, c}
	if err == nil {
		err = v.check(ctx)
	}
	if err != nil {
		return v, err
	}
	if level, _ := v.level(ctx); level == withPacked {
		_ = v.readDictionaries(ctx) // rows that need a missing dictionary report it
	}
	return v, err
}

// queryValue returns the only value of the only row of a query.
func queryValue[T any](ctx context.Context, v view, query string, args ...any) (value T, err error) {
	err = v.db.QueryRowContext(ctx, query, args...).Scan(&value)
	return value, faultOf(v.path, ErrRead, err)
}

// Load opens a run for reading. It takes no lock, and changes nothing except if a process was
// killed while it changed the file without a log: then SQLite requires that this change is
// rolled back before it reads. Load does not check the content completely, so that the
// readable parts of a damaged run can be exported.
//
// Errors: ErrMissing, ErrNotRun, ErrNewer, ErrDamaged, ErrRead.
func Load(path string) (*Reader, error) {
	if err := checkIsFile(path); err != nil {
		return nil, err
	}
	r, err := load(path)
	switch sqliteCode(err) {
	default:
		return r, err
	case sqlite3.SQLITE_CANTOPEN:
		return nil, cannotOpen(path, err)
	case sqlite3.SQLITE_READONLY:
	}
	if rollbackErr := rollBack(path); rollbackErr != nil {
		return nil, errors.Join(err, rollbackErr)
	}
	return load(path)
}

// rollBack lets SQLite roll back the unfinished transaction of a killed process.
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
	for _, check := range []func(context.Context) error{r.checkLength, r.checkMeta, r.checkLog} {
		if err == nil {
			err = check(ctx)
		}
	}
	if err == nil {
		_, err = r.Header(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return r, nil
}

// Path returns the path of the file that was opened.
func (r *Reader) Path() string { return r.path }

// Close closes the file. It is safe to repeat.
func (r *Reader) Close() error {
	err := r.pool.Close()
	if r.tempDir != "" {
		err = errors.Join(err, os.RemoveAll(r.tempDir))
	}
	return err
}

// Footer returns the footer. ok is false if there is none, because the run goes on or was
// killed.
func (r *Reader) Footer(ctx context.Context) (f outcome.Footer, ok bool, err error) {
	return readMeta[outcome.Footer](ctx, r.view, keyFooter)
}

// Check reads a file of up to 8 MiB completely, and returns ErrDamaged if it is damaged. It does
// not check larger files, whose damage shows when the rows are read.
func (r *Reader) Check(ctx context.Context) error {
	if small, err := r.quickCheck(ctx); err != nil || !small {
		return err
	}
	for _, err := range r.Items(ctx) {
		if err != nil {
			return err
		}
	}
	for _, err := range r.Outcomes(ctx, Query{Depth: Full}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Imported reports whether the run was read from an export, which does not say what was published.
func (r *Reader) Imported() bool { return r.tempDir != "" }

// Counts are the numbers of items and of newest attempts in a run.
type Counts struct {
	Items     int64 // listed so far
	Planned   int64 // Items × trials
	Done      int64 // items, in each trial, that have an outcome
	Published int64 // part of Done: link, spans and scores acknowledged
	// ToWithdraw is the number of superseded attempts that Reader.ToWithdraw returns.
	ToWithdraw int64
}

// Counts counts the items and the newest attempts. It reads all outcomes without their details,
// which takes about 0.1 s for 200,000.
func (r *Reader) Counts(ctx context.Context) (Counts, error) {
	h, err := r.Header(ctx)
	if err != nil {
		return Counts{}, err
	}
	var c Counts
	row := r.db.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM item), (SELECT count(*) FROM outcome WHERE `+sqlToWithdraw+`),
			count(*), coalesce(sum(published & 7 = 7), 0)
		FROM outcome WHERE `+sqlNewest)
	if err := row.Scan(&c.Items, &c.ToWithdraw, &c.Done, &c.Published); err != nil {
		return Counts{}, faultOf(r.path, ErrRead, err)
	}
	c.Planned = c.Items * int64(max(h.Trials, 1))
	return c, nil
}

// CountItems returns the number of items listed so far.
func (r *Reader) CountItems(ctx context.Context) (int64, error) {
	return queryValue[int64](ctx, r.view, "SELECT count(*) FROM item")
}

// Header returns the current header. Its fingerprint is set when the listing is complete.
func (v view) Header(ctx context.Context) (outcome.Header, error) {
	h, ok, err := readMeta[outcome.Header](ctx, v, keyHeader)
	if err == nil && !ok {
		err = fault(v.path, ErrDamaged, errors.New("it has no header"))
	}
	if trials := checkTrials(h); err == nil && trials != nil {
		err = fault(v.path, ErrDamaged, trials)
	}
	return h, err
}

// maxMeta bounds the header and the other values in the meta table, in bytes.
const maxMeta = 4 << 20

// checkMeta returns an error if the meta table has a value larger than maxMeta. It scans the
// table and reads only lengths, because a lookup by key would read the value.
func (v view) checkMeta(ctx context.Context) error {
	var key string
	var size int64
	const query = "SELECT substr(key, 1, 40), octet_length(value) FROM meta WHERE octet_length(value) > ?"
	err := v.db.QueryRowContext(ctx, query, maxMeta).Scan(&key, &size)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return faultOf(v.path, ErrRead, err)
	}
	return fault(v.path, ErrDamaged, fmt.Errorf("%s: it has %d bytes, more than %d", key, size, maxMeta))
}

// checkLog returns an error if the log next to the file is missing although it has the last
// commits, for example because the file was copied without it. The file has keyLog from the
// first commit of a writer to its end; see tx.checkpoint.
func (v view) checkLog(ctx context.Context) error {
	for range 3 { // a writer may end between the two checks
		marked, err := queryValue[bool](ctx, v, "SELECT count(*) FROM meta WHERE key = ?", keyLog)
		if err != nil || !marked {
			return err
		}
		valid, err := hasLogHeader(v.path + "-wal")
		if valid || ignoreMissing(err) != nil {
			return faultOf(v.path, ErrRead, err)
		}
	}
	return fault(v.path, ErrDamaged, fmt.Errorf("the log %s-wal is missing or damaged, and what was committed last with it", v.path))
}

// hasLogHeader reports whether a file begins with the header of a write-ahead log of SQLite with
// the right checksum. SQLite takes any other file for an empty log.
//
// Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
func hasLogHeader(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var header [32]byte
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return false, nil
	}
	magic, order := binary.BigEndian.Uint32(header[:]), binary.ByteOrder(binary.LittleEndian)
	if magic&1 == 1 {
		order = binary.BigEndian
	}
	var a, b uint32
	for i := 0; i < 24; i += 8 {
		a += order.Uint32(header[i:]) + b
		b += order.Uint32(header[i+4:]) + a
	}
	return magic&^1 == 0x377f0682 && a == binary.BigEndian.Uint32(header[24:]) && b == binary.BigEndian.Uint32(header[28:]), nil
}

// readMeta decodes the value of a key in the meta table. ok is false if the key does not exist.
// The error is ErrDamaged if the value cannot be decoded.
func readMeta[T any](ctx context.Context, v view, key string) (value T, ok bool, err error) {
	text, err := queryValue[string](ctx, v, "SELECT value FROM meta WHERE key = ?", key)
	if errors.Is(err, sql.ErrNoRows) {
		return value, false, nil
	}
	if err == nil {
		if err = json.Unmarshal([]byte(text), &value); err != nil {
			err = fault(v.path, ErrDamaged, fmt.Errorf("%s: %w", key, err))
		}
	}
	return value, err == nil, err
}

// queryPage reads rows until they end or have maxPageBytes. scan returns a row and its size in
// bytes.
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

// Paged yields the rows of consecutive pages, and reads the next page while the loop handles
// one. next reads the page after the row last, which is zero for the first page. An empty page
// or an error ends the sequence. No read is running when the loop has ended.
func Paged[T any](next func(last T) ([]T, error)) iter.Seq2[T, error] {
	type page struct {
		rows []T
		err  error
	}
	return func(yield func(T, error) bool) {
		pages := make(chan page, 1)
		read := func(last T) { rows, err := next(last); pages <- page{rows, err} }
		var last T
		read(last)
		for {
			current := <-pages
			if current.err != nil {
				var none T
				yield(none, current.err)
			}
			if current.err != nil || len(current.rows) == 0 {
				return
			}
			last = current.rows[len(current.rows)-1]
			go read(last)
			for _, row := range current.rows {
				if !yield(row, nil) {
					<-pages // wait for the last read
					return
				}
			}
		}
	}
}

// OpenAny opens a run file or an export for reading. An export may begin with a byte order mark; it
// is imported into a temporary folder, which Close removes. The errors are those of Load and Import.
func OpenAny(ctx context.Context, path string) (*Reader, error) {
	r, err := Load(path)
	if !errors.Is(err, ErrNotRun) {
		return r, err
	}
	f, openErr := files.Open(ctx, path)
	if openErr != nil {
		return nil, faultOf(path, ErrRead, openErr)
	}
	defer f.Close() // only read, so that nothing can be lost
	in := bufio.NewReader(files.Text(f))
	if first, _ := in.Peek(1); string(first) != "{" {
		return nil, cmp.Or(ctx.Err(), err)
	}
	const needsTemp = "reading the export %s takes room in a temporary folder (TMPDIR): %w"
	folder, err := os.MkdirTemp("", "run-*")
	if err != nil {
		return nil, cli.Errorf(cli.ExitIO, needsTemp, path, err)
	}
	imported := filepath.Join(folder, "imported")
	if err = Import(ctx, in, path, imported); err == nil {
		if r, err = Load(imported); err == nil {
			r.path, r.tempDir = path, folder
			return r, nil
		}
	}
	if f, ok := errors.AsType[*Fault](err); ok && f.Kind == ErrWrite { // nobody knows the imported file
		err = cli.Errorf(cli.ExitIO, needsTemp, path, f.Err)
	}
	return nil, errors.Join(err, os.RemoveAll(folder))
}

// Entry is a run in a list. If Err is set, the other fields hold what could be read.
type Entry struct {
	Path   string
	Header outcome.Header
	Footer outcome.Footer // zero while the run goes on, and if it was killed
	Err    error
}

// Placed reports whether e.Path is the path that Path returns for the name and dataset,
// whatever the file contains. An empty dataset matches any.
func (e Entry) Placed(dataset, name string) bool {
	if filepath.Base(e.Path) != safeName(name)+Extension {
		return false
	}
	return dataset == "" || filepath.Base(filepath.Dir(e.Path)) == safeName(dataset)
}

// List returns the runs in dir, which is the dir of Path, ordered by path. It reads the header
// and footer of each file. A file that cannot be read becomes an entry with Err. A missing
// folder has no runs.
func List(ctx context.Context, dir string) ([]Entry, error) {
	entries, err := Files(ctx, dir)
	for i, e := range entries {
		if e.Err == nil && ctx.Err() == nil {
			entries[i] = ReadEntry(ctx, e.Path)
		}
	}
	return entries, errors.Join(err, ctx.Err())
}

// ReadEntry reads the header and the footer of the run file at path.
func ReadEntry(ctx context.Context, path string) Entry {
	e := Entry{Path: path}
	r, err := Load(path)
	if err == nil {
		if e.Header, err = r.Header(ctx); err == nil {
			e.Footer, _, err = r.Footer(ctx)
		}
		err = errors.Join(err, r.Close())
	}
	e.Err = err
	return e
}

// Files is like List, but opens no files and sets only the paths.
func Files(ctx context.Context, dir string) ([]Entry, error) {
	var entries []Entry
	root := filepath.Join(dir, runsFolder) + string(filepath.Separator) // which may be a link to a folder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // no runs yet, or just removed
			return files.CheckLink(dir)
		case err != nil:
			entries = append(entries, Entry{Path: path, Err: err})
		case !d.IsDir() && filepath.Ext(path) == Extension:
			entries = append(entries, Entry{Path: path})
		}
		return ctx.Err()
	})
	return entries, err
}
