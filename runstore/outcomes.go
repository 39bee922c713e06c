package runstore

import (
	"context"
	"errors"
	"iter"
	"strings"

	"extraction-experiment/outcome"
)

const (
	sqlAddOutcome = `
		INSERT INTO outcome(seq, trial, attempt, class, started, ended, latency, tokens, cost, scores, published, sum)
		SELECT seq, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
			CASE WHEN EXISTS(SELECT 1 FROM outcome n WHERE n.seq = item.seq AND n.trial = ?1 AND n.attempt > ?2) THEN 8 ELSE 0 END, ?12
		FROM item WHERE id = ?10 AND (?11 = 0 OR seq = ?11)
		ON CONFLICT DO NOTHING`
	sqlAddDetail = "INSERT INTO detail(oid, body, sum) VALUES(?, ?, ?)"
	sqlSupersede = `
		UPDATE outcome SET published = published | 8
		WHERE seq = (SELECT seq FROM item WHERE id = ?) AND trial = ? AND attempt < ?`
)

// Commit writes an outcome. It returns when the outcome is durable: then it
// survives a crash and a power cut. What is committed at the same time by other
// goroutines shares one transaction and one sync. A cancelled ctx is heeded
// only while the outcome is not yet in the writer's hands. A Seq of 0 is filled
// in from the item.
//
// Errors: ErrUnknown when there is no such item, ErrDuplicate when item, trial
// and attempt have an outcome; a trial or attempt below 1, a value that is not
// finite, JSON that is none: these leave the run as it was. ErrWrite (exit code
// 74) when the disk is full or fails: everybody who waits gets it, and the run
// takes nothing any more until it is opened again. ErrClosed.
func (r *Run) Commit(ctx context.Context, o outcome.Outcome) error {
	row, err := newOutcomeRow(o)
	if err != nil {
		return err
	}
	return r.writer.submit(ctx, len(row.body), func(t *tx) error { return t.insertOutcome(row) })
}

func (t *tx) insertOutcome(row *outcomeRow) error {
	o := row.Outcome
	var cost any
	if o.CostUSD != nil {
		cost = *o.CostUSD
	}
	scores := appendScores(nil, t.words, o.Scores)
	result, err := t.addOutcome.Exec(o.Trial, o.Attempt, string(o.Class), row.started, row.ended, int64(o.Latency), row.tokens,
		cost, scores, o.Item, o.Seq, int64(sumOfOutcome(o, row.started, row.ended, nullable(row.tokens), scores)))
	if err != nil {
		return err
	}
	added, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if added == 0 {
		return t.whyNotAdded(o)
	}
	oid, err := result.LastInsertId()
	if err != nil {
		return err
	}
	if _, err := t.addDetail.Exec(oid, string(row.body), int64(sumOfDetail(o, row.body))); err != nil {
		return err
	}
	if o.Attempt > 1 {
		if _, err := t.supersede.Exec(o.Item, o.Trial, o.Attempt); err != nil {
			return err
		}
	}
	return t.reopen()
}

func (t *tx) whyNotAdded(o outcome.Outcome) error {
	var n int
	row := t.conn.QueryRowContext(context.Background(), "SELECT count(*) FROM item WHERE id = ?1 AND (?2 = 0 OR seq = ?2)", o.Item, o.Seq)
	if err := row.Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		return badOutcome(o, ErrUnknown)
	}
	return badOutcome(o, ErrDuplicate)
}

// Query chooses outcomes. The zero value is every attempt of everything,
// without detail.
type Query struct {
	Newest  bool            // only the newest attempt of each item and trial
	Detail  bool            // with Detail, and with comments and counts of scores
	Brief   bool            // with Detail, but for Output, Calls and Explanation: for sums
	Trial   int             // only this trial; 0 is all
	Item    string          // only this item; "" is all
	Classes []outcome.Class // only these; none is all
}

// depth is how much of an outcome is decoded.
type depth int

const (
	shallow depth = iota // the row alone
	brief                // what sums need of the detail
	full
)

func (q Query) depth() depth {
	switch {
	case q.Detail:
		return full
	case q.Brief:
		return brief
	}
	return shallow
}

// Outcomes returns outcomes ordered by the bytes of the item id, trial and
// attempt. Without Query.Detail the scores have no Comment and no Counts: those
// lie with the detail. Every page of about 500 rows or 4 MiB is read for itself,
// so the loop may take its time, and may write to the run. After an error
// nothing follows: ErrDamaged names the outcome that cannot be read.
//
// Measured: 1.6 s for 200,000 outcomes of 13 scores without detail, on two busy
// cores.
func (r *Reader) Outcomes(ctx context.Context, q Query) iter.Seq2[outcome.Outcome, error] {
	return outcomes(ctx, r.path, r.db, q)
}

func outcomes(ctx context.Context, path string, db querier, q Query) iter.Seq2[outcome.Outcome, error] {
	return func(yield func(outcome.Outcome, error) bool) {
		last := outcome.Outcome{Item: q.Item}
		for {
			page, err := q.page(ctx, path, db, last)
			if err != nil {
				yield(outcome.Outcome{}, err)
				return
			}
			for _, s := range page {
				if !yield(s.Outcome, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			last = page[len(page)-1].Outcome
		}
	}
}

// page reads what follows the last outcome.
func (q Query) page(ctx context.Context, path string, db querier, last outcome.Outcome) ([]stored, error) {
	where := []string{"i.id >= ?", "NOT (i.id = ? AND (o.trial, o.attempt) <= (?, ?))"}
	args := []any{last.Item, last.Item, last.Trial, last.Attempt}
	if q.Item != "" {
		where, args = append(where, "i.id = ?"), append(args, q.Item)
	}
	if q.Trial != 0 {
		where, args = append(where, "o.trial = ?"), append(args, q.Trial)
	}
	if q.Newest {
		where = append(where, "o.published & 8 = 0")
	}
	if len(q.Classes) > 0 {
		where = append(where, "o.class IN (?"+strings.Repeat(", ?", len(q.Classes)-1)+")")
		for _, c := range q.Classes {
			args = append(args, string(c))
		}
	}
	// CROSS JOIN keeps the order of the loops: items by the index on id, then
	// the outcomes of each, so that nothing is sorted.
	return outcomePage(ctx, path, db, q.depth(), "item i CROSS JOIN outcome o ON o.seq = i.seq",
		"WHERE "+strings.Join(where, " AND ")+" ORDER BY i.id, o.trial, o.attempt", maxPageRows, args...)
}

// outcomePage reads outcomes until the rows end or the page is full.
func outcomePage(ctx context.Context, path string, db querier, d depth, from, where string, limit int, args ...any) (page []stored, err error) {
	sums, err := hasSums(ctx, db)
	if err != nil {
		return nil, faultOf(path, ErrRead, err)
	}
	columns := outcomeColumns + sumColumn(sums, "o")
	if d != shallow {
		columns, from = columns+", d.body"+sumColumn(sums, "d"), from+" LEFT JOIN detail d ON d.oid = o.oid"
	}
	rows, err := db.QueryContext(ctx, "SELECT "+columns+" FROM "+from+" "+where+" LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, faultOf(path, ErrRead, err)
	}
	defer func() { err = faultOf(path, ErrRead, errors.Join(err, rows.Close())) }()
	// Read after the rows, the list holds every word that they refer to.
	var w *words
	for size := 0; size < maxPageBytes && rows.Next(); {
		if w == nil {
			if w, err = readWords(ctx, path, db); err != nil {
				return nil, err
			}
		}
		s, err := scanOutcome(rows, w, d)
		if err != nil {
			return nil, faultOf(path, ErrDamaged, err)
		}
		page = append(page, s)
		size += s.bytes
	}
	return page, rows.Err()
}
