package runstore

import (
	"context"
	"database/sql"
	"errors"
)

const keyPlace = "place"

// SetPlace records where the run is published: the address of the server, or
// another name for it. Errors as Commit.
func (r *Run) SetPlace(ctx context.Context, place string) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.setMeta(keyPlace, place) })
}

// Place returns what SetPlace recorded; "" before that.
func (r *Reader) Place(ctx context.Context) (place string, err error) {
	err = readMeta(ctx, r.path, r.db, keyPlace, &place)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return place, faultOf(r.path, ErrRead, err)
}
