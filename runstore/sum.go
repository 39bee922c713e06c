package runstore

import (
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

// sum is the checksum of a row: CRC-32C over its values, each with its length and a flag for
// NULL. It detects damage, not forgery. Rows of older versions without a checksum are not
// checked.
type sum struct {
	crc     uint32
	scratch []byte // the next bytes to add; reused, because allocation would be most of the cost
}

// head starts a value.
func (s sum) head(size int, present bool) sum {
	flag := byte(0)
	if present {
		flag = 1
	}
	s.scratch = binary.LittleEndian.AppendUint64(append(s.scratch[:0], flag), uint64(size))
	return s
}

// add adds scratch to the checksum.
func (s sum) add() sum {
	s.crc = crc32.Update(s.crc, crc32.MakeTable(crc32.Castagnoli), s.scratch)
	return s
}

func (s sum) value(b []byte, present bool) sum {
	s = s.head(len(b), present).add()
	s.crc = crc32.Update(s.crc, crc32.MakeTable(crc32.Castagnoli), b)
	return s
}

func (s sum) text(t string) sum {
	s = s.head(len(t), true)
	s.scratch = append(s.scratch, t...)
	return s.add()
}

func (s sum) number(n int64, present bool) sum {
	s = s.head(8, present)
	s.scratch = binary.LittleEndian.AppendUint64(s.scratch, uint64(n))
	return s.add()
}

// stored returns the checksum as rows store it.
func (s sum) stored() int64 { return int64(s.crc) }

func sumOfItem(id, hash string, input, expected, metadata, source []byte) sum {
	return sum{}.text(id).text(hash).value(input, true).
		value(expected, expected != nil).value(metadata, metadata != nil).value(source, source != nil)
}

// sumOfOutcome includes the id of the item instead of its seq, to detect an outcome that
// refers to a wrong item, and the names and reasons of scores. It excludes the column
// published, which changes later. A value that older rows lack may be added only where it is
// set, as cost, so that their checksums stay.
func sumOfOutcome(o outcome.Outcome, started, ended sql.NullInt64, tokens, scores []byte) sum {
	s := sumOfKey(o).text(string(o.Class)).number(started.Int64, started.Valid).number(ended.Int64, ended.Valid).
		number(int64(o.Latency), true).value(tokens, len(tokens) > 0).value(scores, len(scores) > 0)
	if o.CostUSD != nil {
		s = s.number(int64(math.Float64bits(*o.CostUSD+0)), true) // SQLite stores -0 as 0
	}
	for _, score := range o.Scores {
		s = s.text(strings.ToValidUTF8(score.Name, "\uFFFD")).text(strings.ToValidUTF8(score.Reason, "\uFFFD"))
	}
	return s
}

func sumOfDetail(o outcome.Outcome, body []byte) sum { return sumOfKey(o).value(body, true) }

func sumOfKey(o outcome.Outcome) sum {
	return sum{}.text(o.Item).number(int64(o.Trial), true).number(int64(o.Attempt), true)
}

// check returns an error if the stored checksum differs.
func (s sum) check(stored sql.NullInt64, what string) error {
	if !stored.Valid || stored.Int64 == s.stored() {
		return nil
	}
	return fmt.Errorf("%s is not what was written (its checksum differs)", what)
}

// checkHash compares the hash of an item's input and expected output with item.Hash, if that
// has the length of a dataset.Hash.
func checkHash(item Item) error {
	if len(item.Hash) != 64 {
		return nil
	}
	hash, err := dataset.Hash(item.Item)
	if err == nil && hash != item.Hash {
		err = errors.New("its input or expected output is not what was listed (their hash differs)")
	}
	return err
}

// sqlAddSums adds the columns for checksums, which the oldest files do not have.
const sqlAddSums = `
	ALTER TABLE item ADD COLUMN sum INTEGER;
	ALTER TABLE outcome ADD COLUMN sum INTEGER;
	ALTER TABLE detail ADD COLUMN sum INTEGER;`
