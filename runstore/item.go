package runstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/textutil"
)

// maxValue bounds one item, or the detail of one outcome.
const maxValue = 256 << 20

// Item is an item as it lies in a run.
type Item struct {
	dataset.Item
	Seq   int64  // order of arrival, from 1
	Hash  string // of input and expected output
	Tried int    // the newest attempt, where Failed returns it
}

// AddItems writes a page of items in one transaction, in their order: all or
// none. hash gives what is in the hash column (dataset.Hash); it is called by several
// goroutines at once. White space between JSON tokens is dropped, an absent input becomes
// null, an absent expected output or metadata stays absent.
//
// Errors: ErrDuplicate, naming the id; an id that is empty or not UTF-8, a value
// that is not JSON or larger than 256 MiB, what hash returns; otherwise as
// Commit.
func (r *Run) AddItems(ctx context.Context, items []dataset.Item, hash func(dataset.Item) (string, error)) error {
	rows := make([]itemRow, len(items))
	var sample []byte
	for _, item := range items[:min(len(items), 4)] {
		if sample = append(sample, item.Input...); len(sample) > maxDictionary/2 {
			break
		}
	}
	with, err := r.packs.of(ctx, r.writer, kindOfItems, sample)
	if err != nil {
		return err
	}
	errs := make([]error, len(items))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, item := range items {
		group.Go(func() error {
			var sum string
			if sum, errs[i] = hash(item); errs[i] == nil {
				rows[i], errs[i] = newItemRow(Item{Item: item, Hash: sum}, with)
			}
			return errs[i]
		})
	}
	if group.Wait() != nil {
		return cmp.Or(errs...) // the first in the order of the items
	}
	size := 0
	for _, row := range rows {
		size += row.size
	}
	return writeAll(ctx, r, size, rows, func(t *tx, row itemRow) error {
		if row.id == rows[0].id { // once
			if err := t.reopen(); err != nil {
				return err
			}
		}
		return row.insert(t)
	})
}

// Item returns the item of that id, or an error that is ErrUnknown.
func (r *Reader) Item(ctx context.Context, id string) (Item, error) {
	page, err := r.items(ctx, "WHERE id = ?", id)
	if err == nil && len(page) == 0 {
		err = badItem(id, ErrUnknown)
	}
	if err != nil {
		return Item{}, err
	}
	return page[0], nil
}

// Items returns all items in order of arrival. Those that are added meanwhile may be
// met too. After an error nothing follows.
func (r *Reader) Items(ctx context.Context) iter.Seq2[Item, error] {
	return Ahead(func(last Item) ([]Item, error) {
		return r.items(ctx, "WHERE seq > ? ORDER BY seq LIMIT ?", last.Seq, maxPageRows)
	})
}

// Unrun returns items that have no outcome in the trial, in order of arrival,
// beginning after the one with that seq. A page holds at most limit items and
// about 4 MiB, but at least one; an empty one says that there are no more.
// Measured: 0.25 s when 200,000 others have been run.
func (r *Reader) Unrun(ctx context.Context, trial int, after int64, limit int) ([]Item, error) {
	return r.items(ctx, `WHERE seq IN (
			SELECT s.seq FROM item s INDEXED BY item_order
			WHERE s.seq > ? AND NOT EXISTS (SELECT 1 FROM outcome o WHERE o.seq = s.seq AND o.trial = ?)
			ORDER BY s.seq LIMIT ?)
		ORDER BY seq`, after, trial, limit)
}

// ItemHash is what the fingerprint of a dataset is made of.
type ItemHash struct{ ID, Hash string }

// Hashes returns id and hash of every item, sorted by the bytes of the id: what
// dataset.Fingerprint takes. After an error nothing follows.
func (r *Reader) Hashes(ctx context.Context) iter.Seq2[ItemHash, error] {
	const rowsPerPage = 4096
	return Ahead(func(last ItemHash) ([]ItemHash, error) {
		return queryPage(ctx, r.view, func(rows *sql.Rows) (h ItemHash, _ int, err error) {
			return h, 0, rows.Scan(&h.ID, &h.Hash)
		}, "SELECT id, hash FROM item WHERE id > ? ORDER BY id LIMIT ?", last.ID, rowsPerPage)
	})
}

const itemColumns = "item.seq, item.id, item.hash, item.input, item.expected, item.metadata, item.source"

// items reads items until the rows end or the page is full.
func (v view) items(ctx context.Context, where string, args ...any) ([]Item, error) {
	return v.tried(ctx, "0", "item "+where, args...)
}

// tried is items with their newest attempt.
func (v view) tried(ctx context.Context, attempt, from string, args ...any) ([]Item, error) {
	have, err := v.form(ctx)
	if err != nil {
		return nil, err
	}
	return queryPage(ctx, v, func(rows *sql.Rows) (Item, int, error) {
		item, err := v.scanItem(ctx, rows)
		if err != nil {
			err = faultOf(v.path, ErrDamaged, badItem(item.ID, err))
		}
		return item, len(item.ID) + len(item.Input) + len(item.Expected) + len(item.Metadata), err
	}, "SELECT "+itemColumns+column(have.sums, "item.sum")+", "+attempt+" FROM "+from, args...)
}

// scanItem returns an item with its id, also where an error says what is wrong with it.
func (v view) scanItem(ctx context.Context, rows *sql.Rows) (item Item, err error) {
	var input, expected, metadata, from []byte
	var written sql.NullInt64
	err = rows.Scan(&item.Seq, &item.ID, &item.Hash, &input, &expected, &metadata, &from, &written, &item.Tried)
	if err != nil {
		return item, err
	}
	for _, value := range []*[]byte{&input, &expected, &metadata} {
		if *value, err = v.unpack(ctx, *value); err != nil {
			return item, err
		}
	}
	item.Input, item.Expected, item.Metadata = input, expected, metadata
	if written.Valid {
		err = sumOfItem(item.ID, item.Hash, input, expected, metadata, from).is(written, "it")
	} else {
		err = matchesHash(item)
	}
	if err != nil || from == nil {
		return item, err
	}
	var s source
	err = json.Unmarshal(from, &s)
	item.SourceTraceID, item.SourceObservationID = s.Trace, s.Observation
	return item, err
}

const sqlAddItem = "INSERT INTO item(seq, id, hash, input, expected, metadata, source, sum) VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"

// itemRow is an item as the table takes it.
type itemRow struct {
	id     string
	values []any // of sqlAddItem
	size   int   // of the item, in bytes
}

// source is the form of the column of that name.
type source struct {
	Trace       string `json:"sourceTraceId,omitempty"`
	Observation string `json:"sourceObservationId,omitempty"`
}

// newItemRow packs the values of an item; without a packer they are written as they are.
func newItemRow(item Item, with *packer) (itemRow, error) {
	row := itemRow{id: item.ID}
	if item.ID == "" || !utf8.ValidString(item.ID) {
		return row, badItem(item.ID, errors.New("its id is empty or not UTF-8"))
	}
	if len(item.Input) == 0 {
		item.Input = json.RawMessage("null")
	}
	var from json.RawMessage
	if item.SourceTraceID != "" || item.SourceObservationID != "" {
		var err error
		if from, err = json.Marshal(source{item.SourceTraceID, item.SourceObservationID}); err != nil {
			return row, badItem(item.ID, err)
		}
	}
	row.size = len(item.ID)
	row.values = []any{sql.NullInt64{Int64: item.Seq, Valid: item.Seq != 0}, item.ID, item.Hash}
	for _, one := range []struct {
		what string
		raw  *json.RawMessage
	}{{"input", &item.Input}, {"expected output", &item.Expected}, {"metadata", &item.Metadata}} {
		short, err := compact(one.what, *one.raw)
		if err != nil {
			return row, badItem(item.ID, err)
		}
		*one.raw, row.size = short, row.size+len(short)
		row.values = append(row.values, asColumn(short, with))
	}
	if row.size > maxValue {
		return row, badItem(item.ID, fmt.Errorf("it has %d bytes, more than %d", row.size, maxValue))
	}
	sum := sumOfItem(item.ID, item.Hash, item.Input, item.Expected, item.Metadata, from)
	row.values = append(row.values, asColumn(from, nil), sum.column())
	return row, nil
}

// asColumn returns a value as it is written: packed, or as a text where it is short or there
// is no packer; absent stays absent.
func asColumn(value json.RawMessage, with *packer) any {
	switch {
	case value == nil:
		return nil
	case with == nil || len(value) < minPacked:
		return string(value)
	}
	return with.pack(value)
}

func badItem(id string, err error) error { return fmt.Errorf("item %q: %w", id, err) }

// compact returns the value without white space, which may be raw itself; absent stays
// absent.
func compact(what string, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	short, err := textutil.CompactJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("its %s is not JSON: %w", what, err)
	}
	return short, nil
}

func (row itemRow) insert(t *tx) error {
	added, err := changed(t.prepared[sqlAddItem].Exec(row.values...))
	if err == nil && added == 0 {
		err = badItem(row.id, ErrDuplicate)
	}
	return err
}
