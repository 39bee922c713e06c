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

// Published says what of an outcome Langfuse has acknowledged. What is still to
// be sent has a value below 7, what is to be withdrawn one from 10 to 15: the
// file has an index of each.
type Published uint8

// The bits of Published.
const (
	Link   Published = 1 // the trace is linked to its dataset item
	Spans  Published = 2
	Scores Published = 4
	// Superseded: a newer attempt was committed. The store sets it.
	Superseded Published = 8
	// Withdrawn: the scores of a superseded attempt were deleted.
	Withdrawn Published = 16

	// All of an outcome: link, spans and scores.
	All = Link | Spans | Scores
)

// Has reports whether all the bits are set.
func (p Published) Has(bits Published) bool { return p&bits == bits }

// Pending is an outcome, with its detail, that the publisher has work with.
type Pending struct {
	outcome.Outcome
	OID       int64 // the key of the outcome in this run, in order of commit
	Published Published
	// Corrected is the instant that Reset gave its scores; zero where none.
	Corrected time.Time
	// Source is the item, where Unpublished has it in memory; Reader.Item reads it.
	Source *dataset.Item
}

const (
	sqlAcknowledge = "UPDATE outcome SET published = published | ? WHERE oid IN (SELECT value FROM json_each(?))"
	sqlReset       = "UPDATE outcome SET published = published & ~? WHERE oid = ?"
)

// Ack records what was acknowledged: bits are added, so it is safe to repeat;
// Reset takes them away. It shares transactions with Commit, and returns when it is
// durable. Errors: ErrUnknown when there is no such outcome, and then none of
// the given is recorded; otherwise as Commit.
func (r *Run) Ack(ctx context.Context, bits Published, oids ...int64) error {
	err := r.writer.submit(ctx, 64*len(oids), func(t *tx) error {
		return t.atomically(func() error { return t.acknowledge(bits, oids) })
	})
	if bits.Has(Spans) { // scores need little of it
		for _, oid := range oids {
			r.writer.tx.recent.drop(oid)
		}
	}
	return err
}

func (t *tx) acknowledge(bits Published, oids []int64) error {
	distinct := slices.Compact(slices.Sorted(slices.Values(oids)))
	list, err := json.Marshal(distinct)
	if err != nil {
		return err
	}
	n, err := changed(t.prepared[sqlAcknowledge].Exec(int64(bits), string(list)))
	if err := checkBits(bits, n == len(distinct), err); err != nil {
		return fmt.Errorf("acknowledging %s: %w", textutil.Counted(len(oids), "outcome"), err)
	}
	return nil
}

// checkBits refuses a change of bits that there are not, or of an outcome that was not known.
func checkBits(bits Published, known bool, err error) error {
	switch {
	case bits&^(All|Withdrawn) != 0:
		return fmt.Errorf("no such bits: %d", bits)
	case err == nil && !known:
		return ErrUnknown
	}
	return err
}

// Unpublished returns outcomes of which something is not acknowledged, newest
// attempts only, in order of commit, beginning after the one with that OID
// (0 is the beginning). A page holds at most limit outcomes and about 4 MiB,
// but at least one; an empty one says that there are no more at present.
func (r *Reader) Unpublished(ctx context.Context, after int64, limit int) ([]Pending, error) {
	return r.pendingAfter(ctx, "o.published < 7", after, limit)
}

// Unpublished is that of a Reader; what was committed with CommitItem a moment ago is
// not read again.
func (r *Run) Unpublished(ctx context.Context, after int64, limit int) ([]Pending, error) {
	page, err := queryPage(ctx, r.view, func(rows *sql.Rows) (o Pending, _ int, err error) {
		return o, 0, rows.Scan(&o.OID, &o.Published)
	}, "SELECT oid, published FROM outcome WHERE published < 7 AND oid > ? ORDER BY oid LIMIT ?", after, limit)
	if err != nil {
		return nil, err
	}
	for i := range page {
		row, there := r.writer.tx.recent.get(page[i].OID)
		switch {
		case there:
			page[i].Outcome, page[i].Source = row.Outcome, row.source
		case i == 0:
			return r.Reader.Unpublished(ctx, after, limit)
		default:
			return r.corrected(ctx, page[:i])
		}
	}
	return r.corrected(ctx, page)
}

// Waiting counts what this process has committed after that OID, up to limit. It reads
// nothing: a read costs a connection all that it has in memory of a file that changes.
func (r *Run) Waiting(after int64, limit int) int {
	return int(min(max(r.writer.tx.newest.Load()-after, 0), int64(limit)))
}

// Retracted returns superseded attempts whose spans or scores were
// acknowledged, and whose scores were not yet withdrawn: their scores are to be
// deleted from Langfuse, then acknowledged as Withdrawn. Pages as Unpublished.
func (r *Reader) Retracted(ctx context.Context, after int64, limit int) ([]Pending, error) {
	return r.pendingAfter(ctx, "o.published BETWEEN 10 AND 15", after, limit)
}

// Committed returns all outcomes, superseded ones too, whatever was published
// of them. Pages as Unpublished.
func (r *Reader) Committed(ctx context.Context, after int64, limit int) ([]Pending, error) {
	return r.pendingAfter(ctx, "TRUE", after, limit)
}

// Acknowledged returns the first outcomes, at most limit, of which Langfuse acknowledged the
// bits, in order of commit and without their details. Where there are none that takes one pass
// over the outcomes: about 0.1 s for 200,000.
func (r *Reader) Acknowledged(ctx context.Context, bits Published, limit int) ([]Pending, error) {
	return r.pending(ctx, shallow, "outcome o JOIN item i ON i.seq = o.seq", "o.published & ? <> 0", limit, bits)
}

// Attempts returns all attempts of an item in a trial, in order of commit,
// without their details; none for an item that the run does not have.
func (r *Reader) Attempts(ctx context.Context, item string, trial int) ([]Pending, error) {
	return r.pending(ctx, shallow, "item i JOIN outcome o ON o.seq = i.seq", "i.id = ? AND o.trial = ?", maxPageRows, item, trial)
}

// pendingAfter returns outcomes with their details, beginning after the one with that OID.
func (r *Reader) pendingAfter(ctx context.Context, which string, after int64, limit int) ([]Pending, error) {
	return r.pending(ctx, full, "outcome o JOIN item i ON i.seq = o.seq", which+" AND o.oid > ?", limit, after)
}

func (r *Reader) pending(ctx context.Context, d depth, from, where string, limit int, args ...any) ([]Pending, error) {
	page, err := r.outcomes(ctx, d, from, where+" ORDER BY o.oid", limit, args...)
	if err != nil {
		return nil, err
	}
	return r.corrected(ctx, page)
}

// Experiment is the run, or one trial of it, as Langfuse knows it.
type Experiment struct {
	Trial int    `json:"trial"`
	ID    string `json:"id"`
	URL   string `json:"url"`
}

// SetExperiment records the id that Langfuse knows a trial by, and where to
// look at it. A trial keeps its id forever, because the ids of everything sent
// hang on it: another id is an error that is ErrDuplicate. The url may change.
// Otherwise errors as Commit.
func (r *Run) SetExperiment(ctx context.Context, e Experiment) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.setExperiment(e) })
}

// ReplaceExperiment gives a trial another id, because Langfuse itself did: a run
// that is deleted there and linked again gets a new one. What was sent under the
// old id has to be sent again. Errors as Commit.
func (r *Run) ReplaceExperiment(ctx context.Context, e Experiment) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.putExperiment(e) })
}

func (t *tx) setExperiment(e Experiment) error {
	known, ok, err := t.Experiment(context.Background(), e.Trial)
	if err != nil {
		return err
	}
	if ok && known.ID != e.ID {
		return fmt.Errorf("setting the experiment of trial %d: %s, but %s %w", e.Trial, e.ID, known.ID, ErrDuplicate)
	}
	return t.putExperiment(e)
}

func (t *tx) putExperiment(e Experiment) error {
	if e.Trial < 1 || e.ID == "" {
		return fmt.Errorf("setting the experiment of trial %d: trials count from 1, and an id is needed", e.Trial)
	}
	return t.exec(`INSERT INTO experiment(trial, langfuse_id, url) VALUES(?, ?, ?)
		ON CONFLICT(trial) DO UPDATE SET langfuse_id = excluded.langfuse_id, url = excluded.url`, e.Trial, e.ID, e.URL)
}

// Experiment returns what SetExperiment recorded; ok is false before that.
func (v view) Experiment(ctx context.Context, trial int) (e Experiment, ok bool, err error) {
	found, err := v.experiments(ctx, "WHERE trial = ?", trial)
	if err != nil || len(found) == 0 {
		return Experiment{}, false, err
	}
	return found[0], true, nil
}

func (v view) experiments(ctx context.Context, where string, args ...any) ([]Experiment, error) {
	return queryPage(ctx, v, func(rows *sql.Rows) (e Experiment, _ int, err error) {
		return e, 0, rows.Scan(&e.Trial, &e.ID, &e.URL)
	}, "SELECT trial, langfuse_id, url FROM experiment "+where, args...)
}

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
	return writeAll(ctx, r, 64*len(resets), resets, func(t *tx, one Reset) error {
		if err := t.reset(one); err != nil {
			return fmt.Errorf("resetting outcome %d: %w", one.OID, err)
		}
		return nil
	})
}

func (t *tx) reset(reset Reset) error {
	ctx, key := context.Background(), correctedKey(reset.OID)
	n, err := changed(t.prepared[sqlReset].Exec(int64(reset.Bits), reset.OID))
	if err := checkBits(reset.Bits, n > 0, err); err != nil || reset.Corrected.IsZero() {
		return err
	}
	before, _, err := optionalMeta[time.Time](ctx, t.view, key)
	if err != nil || !reset.Corrected.After(before) {
		return err
	}
	return t.setMeta(key, reset.Corrected.UTC())
}

// correctedKey sorts as the OIDs do.
func correctedKey(oid int64) string { return fmt.Sprintf("corrected:%019d", oid) }

// corrected fills in what Reset noted of outcomes that are in the order of their OIDs.
func (r *Reader) corrected(ctx context.Context, page []Pending) ([]Pending, error) {
	if len(page) == 0 {
		return nil, nil
	}
	at := map[string]time.Time{}
	_, err := queryPage(ctx, r.view, func(rows *sql.Rows) (none struct{}, _ int, err error) {
		var key, text string
		if err := rows.Scan(&key, &text); err != nil {
			return none, 0, err
		}
		var t time.Time
		if err := json.Unmarshal([]byte(text), &t); err != nil {
			return none, 0, fault(r.path, ErrDamaged, fmt.Errorf("%s: %w", key, err))
		}
		at[key] = t
		return none, 0, nil
	}, "SELECT key, value FROM meta WHERE key BETWEEN ? AND ?", correctedKey(page[0].OID), correctedKey(page[len(page)-1].OID))
	for i := range page {
		page[i].Corrected = at[correctedKey(page[i].OID)]
	}
	return page, err
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
	scores, _, err = optionalMeta[[]string](ctx, r.view, deletingKey(oid))
	return scores, err
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
	t, ok, err = optionalMeta[Totals](ctx, r.view, totalsKey(trial))
	t.Trial = trial
	return t, ok, err
}
