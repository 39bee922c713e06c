package runstore

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
)

// sum is the checksum of a row: CRC-32C over its values, each with its length
// and whether it is there. It finds damage, not forgery. A row without one was
// written by a version that had none, and is not checked.
type sum uint32

func (s sum) value(b []byte, there bool) sum {
	var head [9]byte
	if there {
		head[0] = 1
	}
	binary.LittleEndian.PutUint64(head[1:], uint64(len(b)))
	table := crc32.MakeTable(crc32.Castagnoli)
	return sum(crc32.Update(crc32.Update(uint32(s), table, head[:]), table, b))
}

func (s sum) text(t string) sum { return s.value([]byte(t), true) }

func (s sum) number(n int64, there bool) sum {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	return s.value(b[:], there)
}

func sumOfItem(id, hash string, input, expected, metadata, source []byte) sum {
	return sum(0).text(id).text(hash).value(input, true).
		value(expected, expected != nil).value(metadata, metadata != nil).value(source, source != nil)
}

// sumOfOutcome has the item's id, not its number, so that an outcome that came
// to belong to another item is found, and the words that its scores refer to.
// What changes later (published) is not in it.
func sumOfOutcome(o outcome.Outcome, started, ended sql.NullInt64, tokens, scores []byte) sum {
	s := sumOfKey(o).text(string(o.Class)).number(started.Int64, started.Valid).number(ended.Int64, ended.Valid).
		number(int64(o.Latency), true).value(tokens, len(tokens) > 0).value(scores, len(scores) > 0)
	if o.CostUSD != nil {
		s = s.number(int64(math.Float64bits(*o.CostUSD+0)), true) // SQLite keeps no -0
	}
	for _, score := range o.Scores {
		s = s.text(strings.ToValidUTF8(score.Name, "\uFFFD")).text(strings.ToValidUTF8(score.Reason, "\uFFFD"))
	}
	return s
}

func sumOfDetail(o outcome.Outcome, body []byte) sum { return sumOfKey(o).value(body, true) }

func sumOfKey(o outcome.Outcome) sum {
	return sum(0).text(o.Item).number(int64(o.Trial), true).number(int64(o.Attempt), true)
}

// is refuses a row whose values are not those that were written.
func (s sum) is(stored sql.NullInt64, what string) error {
	if !stored.Valid || stored.Int64 == int64(s) {
		return nil
	}
	return fmt.Errorf("%s is not what was written (its checksum is another)", what)
}

// matchesHash checks an item by the hash of input and expected output, where
// that is one of dataset.Hash.
func matchesHash(item Item) error {
	if len(item.Hash) != 64 {
		return nil
	}
	hash, err := dataset.Hash(item.Item)
	if err == nil && hash != item.Hash {
		err = errors.New("its input or expected output is not what was listed (their hash is another)")
	}
	return err
}

// Checksums came after the first files: the columns may not be there.
const sqlAddSums = `
	ALTER TABLE item ADD COLUMN sum INTEGER;
	ALTER TABLE outcome ADD COLUMN sum INTEGER;
	ALTER TABLE detail ADD COLUMN sum INTEGER;`

func hasSums(ctx context.Context, q querier) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_info('detail') WHERE name = 'sum'").Scan(&n)
	return n == 1, err
}

// sumColumn is the column of a table, or NULL where it is not there.
func sumColumn(there bool, table string) string {
	if there {
		return ", " + table + ".sum"
	}
	return ", NULL"
}

// addSums gives an older file its columns.
func (t *tx) addSums(ctx context.Context) error {
	there, err := hasSums(ctx, t.conn)
	if err != nil || there {
		return err
	}
	return t.exec("BEGIN IMMEDIATE;" + sqlAddSums + "COMMIT;")
}
