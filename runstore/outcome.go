package runstore

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
)

const (
	// sqlAddOutcome adds no row where there is no such item, whose seq is NULL, or where
	// there is one already. Reading the table with SELECT would have it copied first.
	sqlAddOutcome = `
		INSERT OR IGNORE INTO outcome(seq, trial, attempt, class, started, ended, latency, tokens, cost, scores, published, sum)
		VALUES((SELECT seq FROM item WHERE id = ?10 AND (?11 = 0 OR seq = ?11)), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
			CASE WHEN EXISTS(SELECT 1 FROM item i JOIN outcome n ON n.seq = i.seq WHERE i.id = ?10 AND n.trial = ?1 AND n.attempt > ?2)
			THEN 8 ELSE 0 END, ?12)`
	sqlAddDetail = "INSERT INTO detail(oid, body, sum, large, large_sum) VALUES(?, ?, ?, ?, ?)"
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
	return r.commit(ctx, nil, o, nil)
}

// CommitItem is Commit for who has the item of the outcome: both are kept in memory, as
// far as they fit, until they are acknowledged, so that Unpublished need not read them.
// A brief output, unless nil, is kept in place of that of the outcome.
func (r *Run) CommitItem(ctx context.Context, item dataset.Item, o outcome.Outcome, brief json.RawMessage) error {
	return r.commit(ctx, &item, o, brief)
}

func (r *Run) commit(ctx context.Context, item *dataset.Item, o outcome.Outcome, brief json.RawMessage) error {
	scratch, _ := r.scratch.Get().(*[]byte)
	if scratch == nil {
		scratch = new([]byte)
	}
	defer r.scratch.Put(scratch) // it is written by then, and nobody has it
	row, err := newOutcomeRow(o, *scratch)
	if err != nil {
		return err
	}
	if cap(row.large) <= 1<<20 {
		*scratch = row.large
	}
	with, err := r.packs.of(ctx, r.writer, kindOfDetails, row.large)
	if err != nil {
		return err
	}
	row.source, row.packed, row.brief = item, with.pack(row.large), brief
	return r.writer.wait(ctx, &write{apply: row.insert, bytes: len(row.body) + len(row.packed), shares: true})
}

func (row *outcomeRow) insert(t *tx) error {
	o := row.Outcome
	var cost any
	if o.CostUSD != nil {
		cost = *o.CostUSD
	}
	scores := appendScores(make([]byte, 0, 8+8*len(o.Scores)), t.names, o.Scores)
	result, err := t.prepared[sqlAddOutcome].Exec(o.Trial, o.Attempt, string(o.Class), row.started, row.ended, int64(o.Latency), asColumn(row.tokens, nil),
		cost, scores, o.Item, o.Seq, sumOfOutcome(o, row.started, row.ended, row.tokens, scores).column())
	if added, err := changed(result, err); err != nil {
		return err
	} else if added == 0 {
		return t.whyNotAdded(o)
	}
	oid, err := result.LastInsertId()
	if err != nil {
		return err
	}
	if _, err := t.prepared[sqlAddDetail].Exec(oid, string(row.body), sumOfDetail(o, row.body).column(), row.packed, sumOfDetail(o, row.large).column()); err != nil {
		return err
	}
	t.recent.put(oid, row)
	t.newest.Store(oid)
	if o.Attempt > 1 {
		if _, err := t.prepared[sqlSupersede].Exec(o.Item, o.Trial, o.Attempt); err != nil {
			return err
		}
	}
	return t.reopen()
}

func (t *tx) whyNotAdded(o outcome.Outcome) error {
	const same = "SELECT count(*) FROM item WHERE id = ?1 AND (?2 = 0 OR seq = ?2)"
	known, err := one[bool](context.Background(), t.view, same, o.Item, o.Seq)
	switch {
	case err != nil:
		return err
	case !known:
		return badOutcome(o, ErrUnknown)
	}
	return badOutcome(o, ErrDuplicate)
}

// Query chooses outcomes. The zero value is every attempt of everything,
// without detail.
type Query struct {
	Newest  bool            // only the newest attempt of each item and trial
	Detail  bool            // with Detail, and with comments and counts of scores
	Judged  bool            // with Detail, but for Calls: for comparisons
	Brief   bool            // with Detail, but for Output, Calls, Explanation and counts of scores: for sums
	Trial   int             // only this trial; 0 is all
	Item    string          // only this item; "" is all
	Classes []outcome.Class // only these; none is all
}

// depth is how much of an outcome is decoded.
type depth int

const (
	shallow depth = iota // the row alone
	brief                // what sums need of the detail
	judged               // what was found, and what the scorer says of it
	full
)

func (q Query) depth() depth {
	switch {
	case q.Detail:
		return full
	case q.Judged:
		return judged
	case q.Brief:
		return brief
	}
	return shallow
}

// Outcomes returns outcomes ordered by the bytes of the item id, trial and
// attempt. Without Query.Detail the scores have no Comment and no Counts: those
// lie with the detail. Every page of about 500 rows or 4 MiB is read for itself,
// while the loop looks at the one before; so the loop may take its time, and may write to
// the run, which the next page need not show yet. After an error
// nothing follows: ErrDamaged names the outcome that cannot be read.
//
// Measured: 1.6 s for 200,000 outcomes of 13 scores without detail, on two busy
// cores.
func (r *Reader) Outcomes(ctx context.Context, q Query) iter.Seq2[outcome.Outcome, error] {
	rows := Ahead(func(last Pending) ([]Pending, error) { return r.page(ctx, q, last.Outcome) })
	return func(yield func(outcome.Outcome, error) bool) {
		for s, err := range rows {
			if !yield(s.Outcome, err) {
				return
			}
		}
	}
}

// page reads what follows the last outcome.
func (v view) page(ctx context.Context, q Query, last outcome.Outcome) ([]Pending, error) {
	where, args := q.conditions("i.id >= ? AND NOT (i.id = ? AND (o.trial, o.attempt) <= (?, ?))",
		last.Item, last.Item, last.Trial, last.Attempt)
	// CROSS JOIN keeps the order of the loops: items by the index on id, then
	// the outcomes of each, so that nothing is sorted.
	return v.outcomes(ctx, q.depth(), "item i CROSS JOIN outcome o ON o.seq = i.seq",
		where+" ORDER BY i.id, o.trial, o.attempt", maxPageRows, args...)
}

// conditions adds those of the query to a condition with its arguments.
func (q Query) conditions(where string, args ...any) (string, []any) {
	if q.Item != "" {
		where, args = where+" AND i.id = ?", append(args, q.Item)
	}
	if q.Trial != 0 {
		where, args = where+" AND o.trial = ?", append(args, q.Trial)
	}
	if q.Newest {
		where += " AND o.published & 8 = 0"
	}
	if len(q.Classes) > 0 {
		where += " AND o.class IN (?" + strings.Repeat(", ?", len(q.Classes)-1) + ")"
		for _, c := range q.Classes {
			args = append(args, string(c))
		}
	}
	return where, args
}

// outcomes reads outcomes until the rows end or the page is full.
func (v view) outcomes(ctx context.Context, d depth, from, where string, limit int, args ...any) ([]Pending, error) {
	have, err := v.form(ctx)
	if err != nil {
		return nil, err
	}
	columns := outcomeColumns + column(have.sums, "o.sum")
	if d != shallow {
		columns, from = columns+", d.body"+column(have.sums, "d.sum"), from+" LEFT JOIN detail d ON d.oid = o.oid"
	}
	if d >= judged {
		columns += column(have.packs, "d.large, d.large_sum")
	}
	each := outcomeScan{view: v, depth: d}
	return queryPage(ctx, v, func(rows *sql.Rows) (o Pending, size int, err error) {
		if each.names == nil { // read after the rows, the list holds every one that they refer to
			if each.names, err = v.scoreNames(ctx); err != nil {
				return o, 0, err
			}
		}
		o, size, err = each.scan(ctx, rows)
		return o, size, faultOf(v.path, ErrDamaged, err)
	}, "SELECT "+columns+" FROM "+from+" WHERE "+where+" LIMIT ?", append(args, limit)...)
}

// scoresVersion is the first byte of encoded scores.
const scoresVersion = 1

// What an encoded score holds.
const (
	hasValue   = 1 << iota // defined
	hasRatio               // numerator and denominator follow
	hasReason              // a word follows
	hasFloat               // the value follows; without it, it is the quotient of the ratio
	isBoolean              //
	isVacuous              //
	hasWeight              // the weight follows
	knownFlags = 1<<iota - 1
)

var errScores = errors.New("its scores cannot be decoded")

// appendScores encodes everything of scores but comments and counts, which lie
// in the detail. A ratio takes about 5 bytes, any other value about 10.
//
// Form: version, number of scores; each: name, flags, then by flags reason,
// numerator, denominator, value, weight. Integers are varints, the value is a float64,
// a word is its position in the list, or 0, length and bytes.
func appendScores(b []byte, w *scoreNames, scores []outcome.Score) []byte {
	if len(scores) == 0 {
		return nil
	}
	b = append(b, scoresVersion)
	b = binary.AppendUvarint(b, uint64(len(scores)))
	for _, s := range scores {
		b = appendScore(b, w, s)
	}
	return b
}

func appendScore(b []byte, w *scoreNames, s outcome.Score) []byte {
	flags := flagsOf(s)
	b = append(appendName(b, w, s.Name), flags)
	if flags&hasReason != 0 {
		b = appendName(b, w, s.Reason)
	}
	if flags&hasRatio != 0 {
		b = binary.AppendVarint(b, s.Ratio.Num)
		b = binary.AppendVarint(b, s.Ratio.Den)
	}
	if flags&hasFloat != 0 {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(*s.Value))
	}
	if flags&hasWeight != 0 {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(*s.Weight))
	}
	return b
}

func flagsOf(s outcome.Score) byte {
	exact := s.Value != nil && s.Ratio != nil && quotient(*s.Ratio) == *s.Value
	return flag(s.Value != nil, hasValue) | flag(s.Ratio != nil, hasRatio) |
		flag(s.Reason != "", hasReason) | flag(s.Value != nil && !exact, hasFloat) |
		flag(s.Boolean, isBoolean) | flag(s.Vacuous, isVacuous) | flag(s.Weight != nil, hasWeight)
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// quotient is NaN where there is none, which equals no value.
func quotient(r outcome.Ratio) float64 {
	if r.Den == 0 {
		return math.NaN()
	}
	return float64(r.Num) / float64(r.Den)
}

func appendName(b []byte, w *scoreNames, word string) []byte {
	word = strings.ToValidUTF8(word, "\uFFFD")
	if n := w.refer(word); n > 0 {
		return binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(append(b, 0), uint64(len(word)))
	return append(b, word...)
}

// decodeScores is the inverse of appendScores. Any bytes either decode or give
// an error; memory is in proportion to the bytes.
func decodeScores(b []byte, w *scoreNames) ([]outcome.Score, error) {
	if len(b) == 0 {
		return nil, nil
	}
	d := scoreDecoder{rest: b[1:], names: w.list}
	n := d.uvarint()
	if b[0] != scoresVersion || n > uint64(len(d.rest)) {
		return nil, errScores
	}
	scores := make([]outcome.Score, n)
	values := make([]float64, n)
	for i := range scores {
		d.score(&scores[i], &values[i])
	}
	if d.bad || len(d.rest) > 0 {
		return nil, errScores
	}
	return scores, nil
}

// scoreDecoder reads one value after another; after the first that is not
// there, bad stays set and all values are zero.
type scoreDecoder struct {
	rest  []byte
	names []string
	bad   bool
}

func (d *scoreDecoder) score(s *outcome.Score, value *float64) {
	s.Name = d.word()
	flags := d.bytes(1)[0]
	d.bad = d.bad || flags > knownFlags
	if flags&hasReason != 0 {
		s.Reason = d.word()
	}
	if flags&hasRatio != 0 {
		s.Ratio = &outcome.Ratio{Num: d.varint(), Den: d.varint()}
		*value = quotient(*s.Ratio)
	}
	if flags&hasFloat != 0 {
		*value = d.float()
	}
	if flags&hasValue != 0 {
		s.Value = value
		d.bad = d.bad || !isFinite(value)
	}
	if flags&hasWeight != 0 {
		s.Weight = new(d.float())
	}
	s.Boolean = flags&isBoolean != 0
	s.Vacuous = flags&isVacuous != 0
}

// bytes returns the next n bytes, or n zeros (n is at most 8 then).
func (d *scoreDecoder) bytes(n int) []byte {
	if n > len(d.rest) {
		d.bad, d.rest = true, nil
		return make([]byte, 8)
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *scoreDecoder) float() float64 {
	v := math.Float64frombits(binary.LittleEndian.Uint64(d.bytes(8)))
	d.bad = d.bad || !isFinite(&v)
	return v
}

func (d *scoreDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *scoreDecoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

// skip passes over a number of n bytes; none is an error.
func (d *scoreDecoder) skip(n int) {
	d.bad = d.bad || n <= 0
	d.rest = d.rest[max(n, 0):]
}

func (d *scoreDecoder) word() string {
	n := d.uvarint()
	if n > 0 {
		if n > uint64(len(d.names)) {
			d.bad = true
			return ""
		}
		return d.names[n-1]
	}
	length := d.uvarint()
	if d.bad = d.bad || length > uint64(len(d.rest)); d.bad {
		return ""
	}
	return string(d.bytes(int(length)))
}

// Failed returns the items whose newest attempt in the trial failed with one of
// the classes (none given: with any), in order of arrival, beginning after the
// one with that seq. Pages as Unrun. An item whose next attempt fails too is met again by a
// call that begins before it.
func (r *Reader) Failed(ctx context.Context, trial int, classes []outcome.Class, after int64, limit int) ([]Item, error) {
	where, args := Query{Newest: true, Trial: trial, Classes: classes}.conditions(failed)
	return r.tried(ctx, "o.attempt", "outcome o CROSS JOIN item ON item.seq = o.seq WHERE "+where+
		" AND o.seq > ? ORDER BY o.seq LIMIT ?", append(args, after, limit)...)
}

// CountFailed returns how many items Failed would return, in all trials.
func (r *Reader) CountFailed(ctx context.Context, classes []outcome.Class) (n int64, err error) {
	where, args := Query{Newest: true, Classes: classes}.conditions(failed)
	return one[int64](ctx, r.view, "SELECT count(*) FROM outcome o WHERE "+where, args...)
}

// failed is the condition of an outcome that failed.
const failed = "o.class <> ''"
