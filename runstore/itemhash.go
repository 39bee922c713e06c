package runstore

import (
	"context"
	"errors"
	"iter"
)

// ItemHash is what the fingerprint of a dataset is made of.
type ItemHash struct{ ID, Hash string }

// Hashes returns id and hash of every item, sorted by the bytes of the id: what
// dataset.Fingerprint takes. After an error nothing follows.
func (r *Reader) Hashes(ctx context.Context) iter.Seq2[ItemHash, error] {
	return func(yield func(ItemHash, error) bool) {
		last := ""
		for {
			page, err := r.hashPage(ctx, last)
			if err != nil {
				yield(ItemHash{}, faultOf(r.path, ErrRead, err))
				return
			}
			for _, h := range page {
				if !yield(h, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			last = page[len(page)-1].ID
		}
	}
}

func (r *Reader) hashPage(ctx context.Context, after string) (page []ItemHash, err error) {
	const rowsPerPage = 4096
	rows, err := r.db.QueryContext(ctx, "SELECT id, hash FROM item WHERE id > ? ORDER BY id LIMIT ?", after, rowsPerPage)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var h ItemHash
		if err := rows.Scan(&h.ID, &h.Hash); err != nil {
			return nil, err
		}
		page = append(page, h)
	}
	return page, rows.Err()
}
