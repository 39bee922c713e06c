package runstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Published is the set of parts of an outcome that Langfuse has acknowledged. It is below All (7)
// for outcomes to be sent; Superseded (8) takes an attempt out of that range. It is from 10 to 15
// for attempts to be withdrawn: superseded ones with spans or scores, and without Withdrawn. The
// file has an index for each of these ranges.
type Published uint8

// The bits of Published.
const (
	Link   Published = 1 // the trace is linked to its dataset item
	Spans  Published = 2
	Scores Published = 4
	// Superseded: a newer attempt was committed. Commit sets it.
	Superseded Published = 8
	// Withdrawn: the scores of a superseded attempt were deleted.
	Withdrawn Published = 16

	// All of an outcome: link, spans and scores.
	All = Link | Spans | Scores
)

// The conditions of SQL on published, each with an index of the file but the last.
const (
	sqlUnpublished = "published < 7"
	sqlToWithdraw  = "published BETWEEN 10 AND 15"
	sqlNewest      = "published & 8 = 0" // not Superseded
)

// Has reports whether all of bits are set.
func (p Published) Has(bits Published) bool { return p&bits == bits }

// Pending is an outcome with the state of its publication.
type Pending struct {
	outcome.Outcome
	OID       int64 // key of the outcome in this run, in order of commit
	Published Published
	// Corrected is the time that Reset set for its scores, or zero.
	Corrected time.Time
	// Source is the item if Unpublished has it in memory, or nil; then use Reader.Item.
	Source *dataset.Item
}

const (
	sqlAcknowledge = "UPDATE outcome SET published = published | ? WHERE oid IN (SELECT value FROM json_each(?))"
	sqlReset       = "UPDATE outcome SET published = published & ~? WHERE oid = ?"
)

// Ack adds acknowledged parts to outcomes, so it is safe to repeat; Reset removes them. It
// shares transactions with Commit, and returns when the change is durable. If one of the
// outcomes does not exist, the error is ErrUnknown and Ack changes nothing. Other errors are
// those of Commit.
func (r *Run) Ack(ctx context.Context, bits Published, oids ...int64) error {
	distinct := slices.Compact(slices.Sorted(slices.Values(oids)))
	list, err := json.Marshal(distinct)
	if err != nil || len(distinct) == 0 {
		return err
	}
	err = r.writer.submitAll(ctx, 64*len(oids), func(t *tx) error {
		n, err := rowsChanged(t.prepared[sqlAcknowledge].Exec(int64(bits), string(list)))
		if err := checkBits(bits, n == len(distinct), err); err != nil {
			return fmt.Errorf("acknowledging %s: %w", textutil.Counted(len(oids), "outcome"), err)
		}
		return nil
	})
	if bits.Has(Spans) { // scores are made from a small part of the outcome
		for _, oid := range oids {
			r.writer.tx.recent.drop(oid)
		}
	}
	return err
}

// checkBits returns an error for invalid bits, or if an outcome does not exist.
func checkBits(bits Published, exists bool, err error) error {
	switch {
	case bits&^(All|Withdrawn) != 0:
		return fmt.Errorf("no such bits: %d", bits)
	case err == nil && !exists:
		return ErrUnknown
	}
	return err
}

// Unpublished returns a page of newest attempts with a part that is not acknowledged, in order
// of commit, starting after the OID after (0 for the first). A page has at most limit outcomes
// and about 4 MiB, but at least one outcome; an empty page means that there are currently no
// more.
func (r *Reader) Unpublished(ctx context.Context, after int64, limit int) ([]Pending, error) {
	return r.pendingAfter(ctx, "o."+sqlUnpublished, after, limit)
}

// Unpublished is like Reader.Unpublished, but takes outcomes that CommitItem has kept from
// memory.
func (r *Run) Unpublished(ctx context.Context, after int64, limit int) ([]Pending, error) {
	page, err := queryPage(ctx, r.view, func(rows *sql.Rows) (o Pending, _ int, err error) {
		return o, 0, rows.Scan(&o.OID, &o.Published)
	}, "SELECT oid, published FROM outcome WHERE "+sqlUnpublished+" AND oid > ? ORDER BY oid LIMIT ?", after, limit)
	if err != nil {
		return nil, err
	}
	for i := range page {
		row, ok := r.writer.tx.recent.get(page[i].OID)
		switch {
		case ok:
			page[i].Outcome, page[i].Source = row.Outcome, row.source
		case i == 0:
			return r.Reader.Unpublished(ctx, after, limit)
		default:
			return page[:i], nil
		}
	}
	return page, nil
}

// Waiting returns the number of outcomes that this process has committed after an OID, up to
// limit. It does not read the file, because a read of a changing file would invalidate the
// cache of a connection.
func (r *Run) Waiting(after int64, limit int) int {
	return int(min(max(r.writer.tx.lastOID.Load()-after, 0), int64(limit)))
}

// ToWithdraw returns superseded attempts whose spans or scores were acknowledged, and whose
// scores are not yet withdrawn. The caller deletes their scores in Langfuse, and then
// acknowledges Withdrawn. Pages are like those of Unpublished.
func (r *Reader) ToWithdraw(ctx context.Context, after int64, limit int) ([]Pending, error) {
	return r.pendingAfter(ctx, "o."+sqlToWithdraw, after, limit)
}

// Committed returns all outcomes, including superseded and published ones. Pages are like those
// of Unpublished.
func (r *Reader) Committed(ctx context.Context, after int64, limit int) ([]Pending, error) {
	return r.pendingAfter(ctx, "TRUE", after, limit)
}

// Acknowledged returns up to limit outcomes with any of bits acknowledged, in order of commit
// and without their details. If there are none it reads all outcomes, which takes about 0.1 s
// for 200,000.
func (r *Reader) Acknowledged(ctx context.Context, bits Published, limit int) ([]Pending, error) {
	return r.pending(ctx, RowOnly, "outcome o JOIN item i ON i.seq = o.seq", "o.published & ? <> 0", limit, bits)
}

// Attempts returns all attempts of an item in a trial, in order of commit and without their
// details. It returns none if the run does not have the item.
func (r *Reader) Attempts(ctx context.Context, item string, trial int) ([]Pending, error) {
	return r.pending(ctx, RowOnly, "item i JOIN outcome o ON o.seq = i.seq", "i.id = ? AND o.trial = ?", maxPageRows,
		item, trial)
}

// pendingAfter returns outcomes with their details, starting after the OID after.
func (r *Reader) pendingAfter(ctx context.Context, condition string, after int64, limit int) ([]Pending, error) {
	return r.pending(ctx, Full, "outcome o JOIN item i ON i.seq = o.seq", condition+" AND o.oid > ?", limit, after)
}

func (r *Reader) pending(ctx context.Context, d Depth, from, where string, limit int, args ...any) ([]Pending, error) {
	const corrected = "(SELECT value FROM meta WHERE key = printf('" + correctedKey + "', o.oid))"
	return r.outcomes(ctx, d, corrected, from, where+" ORDER BY o.oid", limit, args...)
}

// Experiment is the identity of a trial in Langfuse.
type Experiment struct {
	Trial int    `json:"trial"`
	ID    string `json:"id"`
	URL   string `json:"url"`
}

// SetExperiment records the id and the URL of a trial in Langfuse. The URL may change, but the
// id may not, because everything sent refers to it: the error for another id matches
// ErrDuplicate. Other errors are those of Commit.
func (r *Run) SetExperiment(ctx context.Context, e Experiment) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.setExperiment(e, false) })
}

// ReplaceExperiment replaces the id of a trial after Langfuse did so: a run that is deleted
// there and linked again gets a new id. The caller has to send everything again that refers to
// the old id. The errors are those of Commit.
func (r *Run) ReplaceExperiment(ctx context.Context, e Experiment) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.setExperiment(e, true) })
}

func (t *tx) setExperiment(e Experiment, replace bool) error {
	if e.Trial < 1 || e.ID == "" {
		return fmt.Errorf("setting the experiment of trial %d: trials count from 1, and an id is needed", e.Trial)
	}
	changed, err := rowsChanged(t.conn.ExecContext(context.Background(), `
		INSERT INTO experiment(trial, langfuse_id, url) VALUES(?, ?, ?)
		ON CONFLICT(trial) DO UPDATE SET langfuse_id = excluded.langfuse_id, url = excluded.url
		WHERE ? OR langfuse_id = excluded.langfuse_id`, e.Trial, e.ID, e.URL, replace))
	if err == nil && changed == 0 {
		err = fmt.Errorf("setting the experiment of trial %d: %s, but another id %w", e.Trial, e.ID, ErrDuplicate)
	}
	return err
}

// Experiment returns the recorded identity of a trial. ok is false if there is none.
func (v view) Experiment(ctx context.Context, trial int) (e Experiment, ok bool, err error) {
	found, err := v.experiments(ctx, "WHERE trial = ?", trial)
	if err != nil || len(found) == 0 {
		return Experiment{}, false, err
	}
	return found[0], true, nil
}

// Experiments returns the recorded identities of all trials, by trial.
func (v view) Experiments(ctx context.Context) ([]Experiment, error) {
	return v.experiments(ctx, "ORDER BY trial")
}

func (v view) experiments(ctx context.Context, where string, args ...any) ([]Experiment, error) {
	return queryPage(ctx, v, func(rows *sql.Rows) (e Experiment, _ int, err error) {
		return e, 0, rows.Scan(&e.Trial, &e.ID, &e.URL)
	}, "SELECT trial, langfuse_id, url FROM experiment "+where, args...)
}

// Reset describes acknowledgements of an outcome to remove, because Langfuse does not have the
// parts.
type Reset struct {
	OID  int64
	Bits Published // bits to remove, of All and Withdrawn
	// Corrected, unless zero, becomes the timestamp of its scores when they are sent again:
	// Langfuse has wrong scores with their ids, and replaces a score only by a later one. An
	// earlier time than the recorded one is ignored.
	Corrected time.Time
}

// Reset removes acknowledgements, so that Unpublished or ToWithdraw return the outcomes again.
// It applies all resets or none, and is safe to repeat. The error is ErrUnknown if an outcome
// does not exist. Other errors are those of Commit.
func (r *Run) Reset(ctx context.Context, resets ...Reset) error {
	if len(resets) == 0 {
		return nil
	}
	return r.writer.submitAll(ctx, 64*len(resets), func(t *tx) error {
		for _, reset := range resets {
			if err := t.reset(reset); err != nil {
				return fmt.Errorf("resetting outcome %d: %w", reset.OID, err)
			}
		}
		return nil
	})
}

func (t *tx) reset(reset Reset) error {
	ctx, key := context.Background(), fmt.Sprintf(correctedKey, reset.OID)
	n, err := rowsChanged(t.prepared[sqlReset].Exec(int64(reset.Bits), reset.OID))
	if err := checkBits(reset.Bits, n > 0, err); err != nil || reset.Corrected.IsZero() {
		return err
	}
	previous, _, err := readMeta[time.Time](ctx, t.view, key)
	if err != nil || !reset.Corrected.After(previous) {
		return err
	}
	return t.setMeta(key, reset.Corrected.UTC())
}

// correctedKey is the form of the meta keys of corrections, which have the OID.
const correctedKey = "corrected:%019d"

func deletingKey(oid int64) string { return fmt.Sprintf("deleting:%d", oid) }

// SetSeenScores records the ids of all scores of a superseded attempt that Langfuse has shown so
// far, before they are deleted: a recorded score that is missing later was deleted, and will
// not appear late. The errors are those of Commit.
func (r *Run) SetSeenScores(ctx context.Context, oid int64, scores []string) error {
	return r.writer.submit(ctx, 64, func(t *tx) error { return t.setMeta(deletingKey(oid), scores) })
}

// SeenScores returns the ids that the last SetSeenScores recorded for an attempt.
func (r *Reader) SeenScores(ctx context.Context, oid int64) (scores []string, err error) {
	scores, _, err = readMeta[[]string](ctx, r.view, deletingKey(oid))
	return scores, err
}

// RunScores are the scores of a trial as a whole in Langfuse.
type RunScores struct {
	Trial  int                `json:"trial"`
	Values map[string]float64 `json:"values"` // by score name
	At     time.Time          `json:"at"`     // the timestamp of the scores
	// Acknowledged is true if Langfuse has accepted all of them.
	Acknowledged bool `json:"acknowledged"`
}

// runScoresKey returns the meta key of the scores of a trial. Files have it under its old name.
func runScoresKey(trial int) string { return fmt.Sprintf("totals:%d", trial) }

// SetRunScores records the scores of a trial as a whole, and whether they are acknowledged. The
// errors are those of Commit.
func (r *Run) SetRunScores(ctx context.Context, scores RunScores) error {
	if scores.Trial < 1 {
		return fmt.Errorf("setting the run scores of trial %d: trials count from 1", scores.Trial)
	}
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.setMeta(runScoresKey(scores.Trial), scores) })
}

// RunScores returns the value of the last SetRunScores for a trial. ok is false if there is none.
func (r *Reader) RunScores(ctx context.Context, trial int) (scores RunScores, ok bool, err error) {
	scores, ok, err = readMeta[RunScores](ctx, r.view, runScoresKey(trial))
	scores.Trial = trial
	return scores, ok, err
}
