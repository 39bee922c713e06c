package runstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"iter"
)

const itemColumns = "seq, id, hash, input, expected, metadata, source"

// itemPages goes from page to page; next is given the last item of the one
// before.
func itemPages(next func(last Item) ([]Item, error)) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		var last Item
		for {
			page, err := next(last)
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			last = page[len(page)-1]
		}
	}
}

// itemPage reads items until the rows end or the page is full.
func itemPage(ctx context.Context, path string, q querier, where string, args ...any) (page []Item, err error) {
	sums, err := hasSums(ctx, q)
	if err != nil {
		return nil, faultOf(path, ErrRead, err)
	}
	rows, err := q.QueryContext(ctx, "SELECT "+itemColumns+sumColumn(sums, "item")+" FROM item "+where, args...)
	if err != nil {
		return nil, faultOf(path, ErrRead, err)
	}
	defer func() { err = faultOf(path, ErrRead, errors.Join(err, rows.Close())) }()
	for size := 0; size < maxPageBytes && rows.Next(); {
		item, err := scanItem(path, rows)
		if err != nil {
			return nil, err
		}
		page = append(page, item)
		size += len(item.ID) + len(item.Input) + len(item.Expected) + len(item.Metadata)
	}
	return page, rows.Err()
}

func scanItem(path string, rows *sql.Rows) (Item, error) {
	var item Item
	var input, expected, metadata, from []byte
	var written sql.NullInt64
	if err := rows.Scan(&item.Seq, &item.ID, &item.Hash, &input, &expected, &metadata, &from, &written); err != nil {
		return Item{}, err
	}
	item.Input, item.Expected, item.Metadata = input, expected, metadata
	err := sumOfItem(item.ID, item.Hash, input, expected, metadata, from).is(written, "it")
	if !written.Valid {
		err = matchesHash(item)
	}
	if err != nil {
		return Item{}, fault(path, ErrDamaged, badItem(item.ID, err))
	}
	if from == nil {
		return item, nil
	}
	var s source
	if err := json.Unmarshal(from, &s); err != nil {
		return Item{}, fault(path, ErrDamaged, badItem(item.ID, err))
	}
	item.SourceTraceID, item.SourceObservationID = s.Trace, s.Observation
	return item, nil
}
