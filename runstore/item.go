package runstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// maxValue bounds an item or the detail of an outcome, in bytes.
const maxValue = 256 << 20

// Item is an item of a run.
type Item struct {
	dataset.Item
	Seq   int64  // order of arrival, from 1
	Hash  string // hash of input and expected output
	Tried int    // the newest attempt; set by Failed only
}

// AddItems writes a page of items with their hashes, in their order, in one transaction, all or
// none. It removes white space between JSON tokens. A missing input becomes null; a missing
// expected output or metadata stays missing.
//
// Errors: ErrDuplicate with the id, an id that is empty or not UTF-8, a value that is not JSON,
// an item larger than 256 MiB. Other errors are those of Commit.
func (r *Run) AddItems(ctx context.Context, items []dataset.Item) error {
	if len(items) == 0 {
		return nil
	}
	rows := make([]itemRow, 0, len(items))
	var sample []byte
	for _, item := range items[:min(len(items), 4)] {
		if sample = append(sample, item.Input...); len(sample) > maxDictionary/2 {
			break
		}
	}
	encoder, err := r.codec.encoderFor(ctx, r.writer, dictItems, sample)
	if err != nil {
		return err
	}
	size := 0
	for row, err := range stats.Parallel(0, stats.Values(items), func(item dataset.Item) (itemRow, error) {
		sum, err := r.hasher.Hash(item)
		if err != nil {
			return itemRow{}, err
		}
		return newItemRow(Item{Item: item, Hash: sum}, encoder)
	}) {
		if err != nil {
			return err
		}
		rows, size = append(rows, row), size+row.size
	}
	return r.writer.submitAll(ctx, size, func(t *tx) error {
		for _, row := range rows {
			if err := row.insert(t); err != nil {
				return err
			}
		}
		return t.removeFooter()
	})
}

// Item returns the item with an id. The error for a missing item matches ErrUnknown.
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

// Items yields all items ordered by seq, possibly including those added meanwhile. An error ends
// the sequence.
func (r *Reader) Items(ctx context.Context) iter.Seq2[Item, error] {
	return Paged(func(last Item) ([]Item, error) {
		return r.items(ctx, "WHERE seq > ? ORDER BY seq LIMIT ?", last.Seq, maxPageRows)
	})
}

// WithoutOutcome returns a page of items without an outcome in the trial, ordered by seq, starting after
// the seq after. A page has at most limit items and about 4 MiB, but at least one item; an empty
// page means that there are no more. It takes about 0.25 s if 200,000 other items have outcomes.
func (r *Reader) WithoutOutcome(ctx context.Context, trial int, after int64, limit int) ([]Item, error) {
	return r.items(ctx, `WHERE seq IN (
			SELECT s.seq FROM item s INDEXED BY item_order
			WHERE s.seq > ? AND NOT EXISTS (SELECT 1 FROM outcome o WHERE o.seq = s.seq AND o.trial = ?)
			ORDER BY s.seq LIMIT ?)
		ORDER BY seq`, after, trial, limit)
}

// ItemHash is the part of an item that the fingerprint of a dataset includes.
type ItemHash struct{ ID, Hash string }

// Hashes yields the id and hash of every item, sorted by the bytes of the id, as
// dataset.Fingerprint requires. An error ends the sequence.
func (r *Reader) Hashes(ctx context.Context) iter.Seq2[ItemHash, error] {
	const rowsPerPage = 4096
	return Paged(func(last ItemHash) ([]ItemHash, error) {
		return queryPage(ctx, r.view, func(rows *sql.Rows) (h ItemHash, _ int, err error) {
			return h, 0, rows.Scan(&h.ID, &h.Hash)
		}, "SELECT id, hash FROM item WHERE id > ? ORDER BY id LIMIT ?", last.ID, rowsPerPage)
	})
}

const itemColumns = "item.seq, item.id, item.hash, item.input, item.expected, item.metadata, item.source"

// items reads a page of items.
func (v view) items(ctx context.Context, where string, args ...any) ([]Item, error) {
	return v.itemsWithAttempt(ctx, "0", "item "+where, args...)
}

// itemsWithAttempt is like items, and sets Tried from the SQL expression attempt.
func (v view) itemsWithAttempt(ctx context.Context, attempt, from string, args ...any) ([]Item, error) {
	level, err := v.level(ctx)
	if err != nil {
		return nil, err
	}
	return queryPage(ctx, v, func(rows *sql.Rows) (Item, int, error) {
		item, err := v.scanItem(ctx, rows)
		if err != nil {
			err = faultOf(v.path, ErrDamaged, badItem(item.ID, err))
		}
		return item, len(item.ID) + len(item.Input) + len(item.Expected) + len(item.Metadata), err
	}, "SELECT "+itemColumns+optionalColumns(level >= withSums, "item.sum")+", "+attempt+" FROM "+from, args...)
}

// scanItem scans an item. It returns the id even with an error.
func (v view) scanItem(ctx context.Context, rows *sql.Rows) (item Item, err error) {
	var input, expected, metadata, origin []byte
	var storedSum sql.NullInt64
	err = rows.Scan(&item.Seq, &item.ID, &item.Hash, &input, &expected, &metadata, &origin, &storedSum, &item.Tried)
	if err != nil {
		return item, err
	}
	for _, value := range []*[]byte{&input, &expected, &metadata} {
		if *value, err = v.unpack(ctx, *value); err != nil {
			return item, err
		}
	}
	item.Input, item.Expected, item.Metadata = input, expected, metadata
	if storedSum.Valid {
		err = sumOfItem(item.ID, item.Hash, input, expected, metadata, origin).check(storedSum, "it")
	} else {
		err = checkHash(item)
	}
	if err != nil || origin == nil {
		return item, err
	}
	var s source
	err = json.Unmarshal(origin, &s)
	item.SourceTraceID, item.SourceObservationID = s.Trace, s.Observation
	return item, err
}

const sqlAddItem = "INSERT INTO item(seq, id, hash, input, expected, metadata, source, sum) VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"

// itemRow is an item to be written.
type itemRow struct {
	id     string
	values []any // arguments of sqlAddItem
	size   int   // size of the item in bytes
}

// source is the JSON of the column source.
type source struct {
	Trace       string `json:"sourceTraceId,omitempty"`
	Observation string `json:"sourceObservationId,omitempty"`
}

// newItemRow checks an item and packs its values, unless encoder is nil.
func newItemRow(item Item, encoder *zstd.Encoder) (itemRow, error) {
	row := itemRow{id: item.ID}
	if item.ID == "" || !utf8.ValidString(item.ID) {
		return row, badItem(item.ID, errors.New("its id is empty or not UTF-8"))
	}
	if len(item.Input) == 0 {
		item.Input = json.RawMessage("null")
	}
	var origin json.RawMessage
	if item.SourceTraceID != "" || item.SourceObservationID != "" {
		var err error
		if origin, err = json.Marshal(source{item.SourceTraceID, item.SourceObservationID}); err != nil {
			return row, badItem(item.ID, err)
		}
	}
	row.size = len(item.ID)
	row.values = []any{sql.NullInt64{Int64: item.Seq, Valid: item.Seq != 0}, item.ID, item.Hash}
	for _, field := range []struct {
		what string
		raw  *json.RawMessage
	}{{"input", &item.Input}, {"expected output", &item.Expected}, {"metadata", &item.Metadata}} {
		compacted, err := compact(field.what, *field.raw)
		if err != nil {
			return row, badItem(item.ID, err)
		}
		*field.raw, row.size = compacted, row.size+len(compacted)
		row.values = append(row.values, columnValue(compacted, encoder))
	}
	if row.size > maxValue {
		return row, badItem(item.ID, fmt.Errorf("it has %d bytes, more than %d", row.size, maxValue))
	}
	sum := sumOfItem(item.ID, item.Hash, item.Input, item.Expected, item.Metadata, origin)
	row.values = append(row.values, columnValue(origin, nil), sum.stored())
	return row, nil
}

// columnValue returns a value as an SQL argument: packed, as text if it is short or encoder is
// nil, or nil if it is missing.
func columnValue(value json.RawMessage, encoder *zstd.Encoder) any {
	switch {
	case value == nil:
		return nil
	case encoder == nil || len(value) < minPacked:
		return string(value)
	}
	return pack(encoder, value)
}

func badItem(id string, err error) error { return cli.Usage("item %q: %w", id, err) }

// compact returns the value without white space between tokens, which may be raw itself, or nil
// if it is missing.
func compact(what string, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	compacted, err := textutil.CompactJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("its %s is not JSON: %w", what, err)
	}
	return compacted, nil
}

func (row itemRow) insert(t *tx) error {
	added, err := rowsChanged(t.prepared[sqlAddItem].Exec(row.values...))
	if err == nil && added == 0 {
		err = badItem(row.id, ErrDuplicate)
	}
	return err
}
