package runstore

import (
	"context"
	"errors"
	"strings"

	"extraction-experiment/outcome"
)

// FailedItem is an item whose newest attempt failed.
type FailedItem struct {
	Seq     int64
	ID      string
	Attempt int // the newest one
}

// Failed returns the items whose newest attempt in the trial failed with one of
// the classes (none given: with any), in order of arrival, beginning after the
// one with that seq. A page holds at most limit items; an empty one says that
// there are no more. An item whose next attempt fails too is met again by a
// call that begins before it.
func (r *Reader) Failed(ctx context.Context, trial int, classes []outcome.Class, after int64, limit int) (page []FailedItem, err error) {
	where, args := failedWhere(trial, classes)
	rows, err := r.db.QueryContext(ctx, `SELECT o.seq, i.id, o.attempt FROM outcome o CROSS JOIN item i ON i.seq = o.seq
		WHERE `+where+" AND o.seq > ? ORDER BY o.seq LIMIT ?", append(args, after, limit)...)
	if err != nil {
		return nil, faultOf(r.path, ErrRead, err)
	}
	defer func() { err = faultOf(r.path, ErrRead, errors.Join(err, rows.Close())) }()
	for rows.Next() {
		var f FailedItem
		if err := rows.Scan(&f.Seq, &f.ID, &f.Attempt); err != nil {
			return nil, err
		}
		page = append(page, f)
	}
	return page, rows.Err()
}

// CountFailed returns how many items Failed would return, in all trials.
func (r *Reader) CountFailed(ctx context.Context, classes []outcome.Class) (n int64, err error) {
	where, args := failedWhere(0, classes)
	err = r.db.QueryRowContext(ctx, "SELECT count(*) FROM outcome o WHERE "+where, args...).Scan(&n)
	return n, faultOf(r.path, ErrRead, err)
}

// failedWhere selects the newest attempts that failed; trial 0 is every trial.
func failedWhere(trial int, classes []outcome.Class) (string, []any) {
	where, args := "o.published & 8 = 0 AND o.class <> ''", []any{}
	if trial != 0 {
		where, args = where+" AND o.trial = ?", append(args, trial)
	}
	if len(classes) > 0 {
		where += " AND o.class IN (?" + strings.Repeat(", ?", len(classes)-1) + ")"
		for _, c := range classes {
			args = append(args, string(c))
		}
	}
	return where, args
}
