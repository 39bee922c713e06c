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
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

const (
	// sqlAddOutcome adds no row if the item does not exist, so that seq is NULL, or if the row
	// exists. INSERT … SELECT from the table itself would copy it first.
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

// Commit writes an outcome and returns when it is durable, so that it survives a crash and a
// power cut. Concurrent calls share one transaction and one sync. Commit ignores ctx once the
// outcome is queued. A Seq of 0 stands for the seq of the item.
//
// Errors that leave the run unchanged are ErrUnknown if the item does not exist, ErrDuplicate
// if the item, trial and attempt have an outcome, a trial or attempt below 1, a number that is
// not finite, and malformed JSON. ErrWrite (exit code 74) means that the disk is full or
// failed: all waiting calls get it, and all later calls until the run is opened again.
// ErrClosed means that the run is closed.
func (r *Run) Commit(ctx context.Context, o outcome.Outcome) error {
	return r.commit(ctx, nil, o, nil)
}

// CommitItem is like Commit, and also keeps the outcome and its item in memory until the spans
// are acknowledged, if there is room, so that Unpublished need not read them. If brief is not
// nil, it is kept in memory in place of the output.
func (r *Run) CommitItem(ctx context.Context, item dataset.Item, o outcome.Outcome, brief json.RawMessage) error {
	return r.commit(ctx, &item, o, brief)
}

func (r *Run) commit(ctx context.Context, item *dataset.Item, o outcome.Outcome, brief json.RawMessage) error {
	scratch, _ := r.scratch.Get().(*[]byte)
	if scratch == nil {
		scratch = new([]byte)
	}
	defer r.scratch.Put(scratch) // the row is written by then
	row, err := newOutcomeRow(o, *scratch)
	if err != nil {
		return err
	}
	if cap(row.large) <= 1<<20 {
		*scratch = row.large
	}
	encoder, err := r.codec.encoderFor(ctx, r.writer, dictDetails, row.large)
	if err != nil {
		return err
	}
	row.source, row.packed, row.brief = item, pack(encoder, row.large), brief
	return r.writer.enqueue(ctx, &write{apply: row.insert, bytes: len(row.body) + len(row.packed), expectsMore: true})
}

func (row *outcomeRow) insert(t *tx) error {
	o := row.Outcome
	var cost any
	if o.CostUSD != nil {
		cost = *o.CostUSD
	}
	scores := appendScores(make([]byte, 0, 8+8*len(o.Scores)), t.names, o.Scores)
	result, err := t.prepared[sqlAddOutcome].Exec(o.Trial, o.Attempt, string(o.Class), row.started, row.ended, int64(o.Latency), columnValue(row.tokens, nil),
		cost, scores, o.Item, o.Seq, sumOfOutcome(o, row.started, row.ended, row.tokens, scores).stored())
	if added, err := rowsChanged(result, err); err != nil {
		return err
	} else if added == 0 {
		return t.whyNotAdded(o)
	}
	oid, err := result.LastInsertId()
	if err != nil {
		return err
	}
	if _, err := t.prepared[sqlAddDetail].Exec(oid, string(row.body), sumOfDetail(o, row.body).stored(), row.packed, sumOfDetail(o, row.large).stored()); err != nil {
		return err
	}
	t.recent.put(oid, row)
	t.lastOID.Store(oid)
	if o.Attempt > 1 {
		if _, err := t.prepared[sqlSupersede].Exec(o.Item, o.Trial, o.Attempt); err != nil {
			return err
		}
	}
	return t.removeFooter()
}

func (t *tx) whyNotAdded(o outcome.Outcome) error {
	const query = "SELECT count(*) FROM item WHERE id = ?1 AND (?2 = 0 OR seq = ?2)"
	exists, err := queryValue[bool](context.Background(), t.view, query, o.Item, o.Seq)
	switch {
	case err != nil:
		return err
	case !exists:
		return badOutcome(o, ErrUnknown)
	}
	return badOutcome(o, ErrDuplicate)
}

// Query selects outcomes. The zero value selects all attempts, without detail.
type Query struct {
	Newest  bool            // only the newest attempt of each item and trial
	Depth   Depth           // how much of each is read
	Trial   int             // only this trial; 0 means all
	Item    string          // only this item; "" means all
	Classes []outcome.Class // only these classes; empty means all
}

// Depth is how much of an outcome is read.
type Depth int

// The depths, each with all of the one before.
const (
	// RowOnly is without Detail, and without comments and counts of scores.
	RowOnly Depth = iota
	// Brief adds what sums need: Detail except Output, Calls and Explanation, and the comments.
	Brief
	// Judged adds what comparisons need: all except Calls.
	Judged
	// Full is everything.
	Full
)

// Outcomes yields outcomes ordered by the bytes of the item id, by trial and by attempt.
// Outcomes reads a page of about 500 rows or 4 MiB while the loop handles the previous
// one, each in a transaction of its own. The loop may therefore be slow, and may write to the
// run, but the next page may not show that yet. An error ends the sequence; ErrDamaged names
// the outcome that cannot be read.
//
// Measured: 1.6 s for 200,000 outcomes of 13 scores without detail, on two busy
// cores.
func (r *Reader) Outcomes(ctx context.Context, q Query) iter.Seq2[outcome.Outcome, error] {
	rows := Paged(func(last Pending) ([]Pending, error) { return r.page(ctx, q, last.Outcome) })
	return stats.Map(rows, func(pending Pending) outcome.Outcome { return pending.Outcome })
}

// page reads the outcomes after last. If only the newest attempts are wanted, one that replaced
// last meanwhile is not among them.
func (v view) page(ctx context.Context, q Query, last outcome.Outcome) ([]Pending, error) {
	if q.Newest && last.Attempt > 0 {
		last.Attempt = math.MaxInt
	}
	where, args := q.conditions("i.id >= ? AND NOT (i.id = ? AND (o.trial, o.attempt) <= (?, ?))",
		last.Item, last.Item, last.Trial, last.Attempt)
	// CROSS JOIN fixes the order of the loops, items by the index on id and then the outcomes
	// of each item, so that SQLite need not sort.
	return v.outcomes(ctx, q.Depth, "NULL", "item i CROSS JOIN outcome o ON o.seq = i.seq",
		where+" ORDER BY i.id, o.trial, o.attempt", maxPageRows, args...)
}

// conditions adds the conditions of the query to a condition with its arguments.
func (q Query) conditions(where string, args ...any) (string, []any) {
	if q.Item != "" {
		where, args = where+" AND i.id = ?", append(args, q.Item)
	}
	if q.Trial != 0 {
		where, args = where+" AND o.trial = ?", append(args, q.Trial)
	}
	if q.Newest {
		where += " AND o." + sqlNewest
	}
	if len(q.Classes) > 0 {
		where += " AND o.class IN (?" + strings.Repeat(", ?", len(q.Classes)-1) + ")"
		for _, c := range q.Classes {
			args = append(args, string(c))
		}
	}
	return where, args
}

// outcomes reads a page of outcomes. corrected is the SQL expression of Pending.Corrected.
func (v view) outcomes(
	ctx context.Context, d Depth, corrected, from, where string, limit int, args ...any,
) ([]Pending, error) {
	level, err := v.level(ctx)
	if err != nil {
		return nil, err
	}
	columns := outcomeColumns + ", " + corrected + optionalColumns(level >= withSums, "o.sum")
	if d > RowOnly {
		from += " LEFT JOIN detail d ON d.oid = o.oid"
	}
	columns += optionalColumns(d > RowOnly, "d.body") + optionalColumns(d > RowOnly && level >= withSums, "d.sum") +
		optionalColumns(d >= Judged && level == withPacked, "d.large, d.large_sum")
	scanner := outcomeScan{view: v, depth: d}
	return queryPage(ctx, v, func(rows *sql.Rows) (o Pending, size int, err error) {
		if scanner.names == nil { // read after the first row, so that it has all names that the rows refer to
			if scanner.names, err = v.scoreNames(ctx); err != nil {
				return o, 0, err
			}
		}
		o, size, err = scanner.scan(ctx, rows)
		return o, size, faultOf(v.path, ErrDamaged, err)
	}, "SELECT "+columns+" FROM "+from+" WHERE "+where+" LIMIT ?", append(args, limit)...)
}

// scoresVersion is the first byte of encoded scores.
const scoresVersion = 1

// The flags of an encoded score.
const (
	hasValue  = 1 << iota // the score is defined
	hasRatio              // numerator and denominator follow
	hasReason             // a word follows
	hasFloat              // the value follows; otherwise it is the quotient of the ratio
	isBoolean
	isVacuous
	hasWeight  // the weight follows
	knownFlags = 1<<iota - 1
)

var errScores = errors.New("its scores cannot be decoded")

// appendScores encodes scores without comments and counts, which are in the detail. A ratio
// takes about 5 bytes, any other value about 10.
//
// The encoding is the version and the number of scores, and for each score its name and flags,
// followed by those of reason, numerator, denominator, value and weight that the flags name.
// Integers are varints, value and weight are float64. Names and reasons are their position in
// the list w, or 0, the length and the bytes.
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
	b = append(appendName(b, w, s.Name), 0)
	flags := len(b) - 1
	flag := func(set bool, bit byte) bool {
		if set {
			b[flags] |= bit
		}
		return set
	}
	flag(s.Boolean, isBoolean)
	flag(s.Vacuous, isVacuous)
	if flag(s.Reason != "", hasReason) {
		b = appendName(b, w, s.Reason)
	}
	if flag(s.Ratio != nil, hasRatio) {
		b = binary.AppendVarint(b, s.Ratio.Num)
		b = binary.AppendVarint(b, s.Ratio.Den)
	}
	if flag(s.Value != nil, hasValue) && flag(s.Ratio == nil || quotient(*s.Ratio) != *s.Value, hasFloat) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(*s.Value))
	}
	if flag(s.Weight != nil, hasWeight) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(*s.Weight))
	}
	return b
}

// quotient returns the value of a ratio, or NaN, which equals no value, if Den is 0.
func quotient(r outcome.Ratio) float64 {
	if r.Den == 0 {
		return math.NaN()
	}
	return float64(r.Num) / float64(r.Den)
}

func appendName(b []byte, w *scoreNames, word string) []byte {
	word = strings.ToValidUTF8(word, "\uFFFD")
	if n := w.intern(word); n > 0 {
		return binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(append(b, 0), uint64(len(word)))
	return append(b, word...)
}

// decodeScores is the inverse of appendScores. It accepts any bytes and returns an error if
// they are malformed. Its memory is proportional to their number.
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

// scoreDecoder reads one value after the other. After the first malformed value, bad stays set
// and all values are zero.
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

// bytes returns the next n bytes. If there are fewer it sets bad and returns 8 zeros.
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

// skip skips n bytes. An n that is not positive sets bad.
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

// Failed returns the items whose newest attempt in the trial failed with one of the classes, or
// with any class if there are none, ordered by seq. It starts after the seq after; its pages
// are like those of WithoutOutcome. If the next attempt of an item fails too, a call with a lower after
// returns the item again.
func (r *Reader) Failed(ctx context.Context, trial int, classes []outcome.Class, after int64, limit int) ([]Item, error) {
	where, args := Query{Newest: true, Trial: trial, Classes: classes}.conditions(failedCondition)
	return r.itemsWithAttempt(ctx, "o.attempt", "outcome o CROSS JOIN item ON item.seq = o.seq WHERE "+where+
		" AND o.seq > ? ORDER BY o.seq LIMIT ?", append(args, after, limit)...)
}

// CountFailed returns the number of items that Failed would return, summed over all trials.
func (r *Reader) CountFailed(ctx context.Context, classes []outcome.Class) (n int64, err error) {
	where, args := Query{Newest: true, Classes: classes}.conditions(failedCondition)
	return queryValue[int64](ctx, r.view, "SELECT count(*) FROM outcome o WHERE "+where, args...)
}

// failedCondition is the SQL condition of failed outcomes.
const failedCondition = "o.class <> ''"
