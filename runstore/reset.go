package runstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Reset says what of the outcome OID Langfuse does not have after all.
type Reset struct {
	OID  int64
	Bits Published // to be taken away: of All and Withdrawn
	// Corrected, unless zero, is the instant from which its scores count when
	// they are sent again: what Langfuse holds under their ids is wrong, and
	// only a later score replaces it. An instant is never taken back.
	Corrected time.Time
}

// Reset takes acknowledgements away, so that Unpublished (or Retracted) hands
// the outcomes out again. All or nothing; safe to repeat. Errors: ErrUnknown
// when there is no such outcome; otherwise as Commit.
func (r *Run) Reset(ctx context.Context, resets ...Reset) error {
	if len(resets) == 0 {
		return nil
	}
	return r.writer.submit(ctx, 64*len(resets), func(t *tx) error {
		return t.atomically(func() error {
			for _, reset := range resets {
				if err := t.reset(reset); err != nil {
					return fmt.Errorf("resetting outcome %d: %w", reset.OID, err)
				}
			}
			return nil
		})
	})
}

func (t *tx) reset(reset Reset) error {
	if reset.Bits&^(All|Withdrawn) != 0 {
		return fmt.Errorf("no such bits: %d", reset.Bits)
	}
	result, err := t.conn.ExecContext(context.Background(), "UPDATE outcome SET published = published & ~? WHERE oid = ?", int64(reset.Bits), reset.OID)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, ErrUnknown)
	}
	if reset.Corrected.IsZero() {
		return nil
	}
	var known time.Time
	if err := t.meta(correctedKey(reset.OID), &known); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if !reset.Corrected.After(known) {
		return nil
	}
	return t.setMeta(correctedKey(reset.OID), reset.Corrected.UTC())
}

// correctedKey sorts as the OIDs do.
func correctedKey(oid int64) string { return fmt.Sprintf("corrected:%019d", oid) }

// corrected returns what Reset noted of the outcomes from one OID to another.
func (r *Reader) corrected(ctx context.Context, from, to int64) (at map[string]time.Time, err error) {
	rows, err := r.db.QueryContext(ctx, "SELECT key, value FROM meta WHERE key BETWEEN ? AND ?", correctedKey(from), correctedKey(to))
	if err != nil {
		return nil, faultOf(r.path, ErrRead, err)
	}
	defer func() { err = faultOf(r.path, ErrRead, errors.Join(err, rows.Close())) }()
	at = map[string]time.Time{}
	for rows.Next() {
		var key, text string
		if err := rows.Scan(&key, &text); err != nil {
			return nil, err
		}
		var t time.Time
		if err := json.Unmarshal([]byte(text), &t); err != nil {
			return nil, fault(r.path, ErrDamaged, fmt.Errorf("%s: %w", key, err))
		}
		at[key] = t
	}
	return at, rows.Err()
}

func deletingKey(oid int64) string { return fmt.Sprintf("deleting:%d", oid) }

// SetDeleting records which scores of a superseded attempt were seen in Langfuse,
// so far: they are about to be deleted, and one that is not there later is gone and
// not late. Errors as Commit.
func (r *Run) SetDeleting(ctx context.Context, oid int64, scores []string) error {
	return r.writer.submit(ctx, 64, func(t *tx) error { return t.setMeta(deletingKey(oid), scores) })
}

// Deleting returns what SetDeleting recorded of an attempt.
func (r *Reader) Deleting(ctx context.Context, oid int64) (scores []string, err error) {
	err = readMeta(ctx, r.path, r.db, deletingKey(oid), &scores)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return scores, faultOf(r.path, ErrRead, err)
}

// Totals is what was said in Langfuse about a trial as a whole.
type Totals struct {
	Trial  int                `json:"trial"`
	Values map[string]float64 `json:"values"` // by score name
	At     time.Time          `json:"at"`     // the timestamp that the scores carry
	// Acknowledged: Langfuse has taken all of them.
	Acknowledged bool `json:"acknowledged"`
}

func totalsKey(trial int) string { return fmt.Sprintf("totals:%d", trial) }

// SetTotals records what is said, or was acknowledged, about a trial. Errors as
// Commit.
func (r *Run) SetTotals(ctx context.Context, t Totals) error {
	if t.Trial < 1 {
		return fmt.Errorf("setting the totals of trial %d: trials count from 1", t.Trial)
	}
	return r.writer.submit(ctx, 0, func(x *tx) error { return x.setMeta(totalsKey(t.Trial), t) })
}

// Totals returns what SetTotals recorded; ok is false before that.
func (r *Reader) Totals(ctx context.Context, trial int) (t Totals, ok bool, err error) {
	err = readMeta(ctx, r.path, r.db, totalsKey(trial), &t)
	if errors.Is(err, sql.ErrNoRows) {
		return Totals{Trial: trial}, false, nil
	}
	return t, err == nil, faultOf(r.path, ErrRead, err)
}
