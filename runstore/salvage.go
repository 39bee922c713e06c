package runstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

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
		if db, failed = connect(copied, 1, "mode=rw"); failed == nil {
			if failed = check(ctx, copied, db); failed == nil {
				unlogged := checkLog(ctx, copied, db) != nil
				return &Reader{path: path, db: db, temporary: folder, unlogged: unlogged}, nil
			}
			failed = errors.Join(failed, db.Close())
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
	page := int64(binary.BigEndian.Uint16(first[16:]))
	if page == 1 {
		page = 64 << 10
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	whole := page * int64(binary.BigEndian.Uint32(first[28:]))
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
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), in.Close())
}

// outcomeKey finds an outcome without its item.
type outcomeKey struct {
	oid, seq       int64
	trial, attempt int
	id             string
}

// salvager finds the rows of a damaged file by every way that leads to them:
// table and index, from the front, from the back, and one by one between.
// Memory: the keys of all rows.
type salvager struct {
	ctx context.Context
	tx  *sql.Tx
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

// numbers walks a table by its integer key from both ends and through the gap.
func (s salvager) numbers(query, key string, scan func(*sql.Rows) (int64, error)) {
	front, back := int64(0), int64(0)
	walk := func(at *int64) func(*sql.Rows) error {
		return func(rows *sql.Rows) error {
			n, err := scan(rows)
			if err == nil {
				*at = n
			}
			return err
		}
	}
	s.rows(query+" ORDER BY "+key, walk(&front))
	s.rows(query+" ORDER BY "+key+" DESC", walk(&back))
	if back <= front {
		return
	}
	for n := front + 1; n < back && n-front <= maxGap && s.ctx.Err() == nil; n++ {
		var none int64
		s.rows(query+" WHERE "+key+" = ?", walk(&none), n)
	}
}

// items returns the ids of all items that can be found, by seq.
func (s salvager) items() map[int64]string {
	ids := map[int64]string{}
	scan := func(rows *sql.Rows) (seq int64, err error) {
		var id string
		if err = rows.Scan(&seq, &id); err == nil {
			ids[seq] = id
		}
		return seq, err
	}
	indexed := func(rows *sql.Rows) error { _, err := scan(rows); return err }
	s.numbers("SELECT seq, id FROM item NOT INDEXED", "seq", scan)
	const index = "SELECT seq, id FROM item INDEXED BY sqlite_autoindex_item_1 ORDER BY id"
	s.rows(index, indexed)
	s.rows(index+" DESC", indexed)
	return ids
}

// outcomes returns the keys of all outcomes that can be found, by item id,
// trial and attempt. Those of items that cannot be found have no id.
func (s salvager) outcomes(ids map[int64]string) []outcomeKey {
	found := map[int64]outcomeKey{}
	scan := func(rows *sql.Rows) (int64, error) {
		var k outcomeKey
		err := rows.Scan(&k.oid, &k.seq, &k.trial, &k.attempt)
		if err == nil {
			k.id = ids[k.seq]
			found[k.oid] = k
		}
		return k.oid, err
	}
	indexed := func(rows *sql.Rows) error { _, err := scan(rows); return err }
	const columns = "SELECT oid, seq, trial, attempt FROM outcome"
	s.numbers(columns+" NOT INDEXED", "oid", scan)
	s.rows(columns+" INDEXED BY sqlite_autoindex_outcome_1 ORDER BY seq, trial, attempt", indexed)
	s.rows(columns+" INDEXED BY sqlite_autoindex_outcome_1 ORDER BY seq DESC, trial DESC, attempt DESC", indexed)
	keys := make([]outcomeKey, 0, len(found))
	for _, k := range found {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, outcomeKey.compare)
	return keys
}

func (k outcomeKey) compare(l outcomeKey) int {
	return cmp.Or(cmp.Compare(k.id, l.id), cmp.Compare(k.trial, l.trial), cmp.Compare(k.attempt, l.attempt), cmp.Compare(k.oid, l.oid))
}
