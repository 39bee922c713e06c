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

// sum is the checksum of a row: CRC-32C over its values, each with its length
// and whether it is there. It finds damage, not forgery. A row without one was
// written by a version that had none, and is not checked.
type sum struct {
	crc     uint32
	scratch []byte // what is added next: memory of its own for each would be most of the cost
}

// head begins a value.
func (s sum) head(size int, there bool) sum {
	mark := byte(0)
	if there {
		mark = 1
	}
	s.scratch = binary.LittleEndian.AppendUint64(append(s.scratch[:0], mark), uint64(size))
	return s
}

// add takes in what is in scratch.
func (s sum) add() sum {
	s.crc = crc32.Update(s.crc, crc32.MakeTable(crc32.Castagnoli), s.scratch)
	return s
}

func (s sum) value(b []byte, there bool) sum {
	s = s.head(len(b), there).add()
	s.crc = crc32.Update(s.crc, crc32.MakeTable(crc32.Castagnoli), b)
	return s
}

func (s sum) text(t string) sum {
	s = s.head(len(t), true)
	s.scratch = append(s.scratch, t...)
	return s.add()
}

func (s sum) number(n int64, there bool) sum {
	s = s.head(8, there)
	s.scratch = binary.LittleEndian.AppendUint64(s.scratch, uint64(n))
	return s.add()
}

// column is how a row has it.
func (s sum) column() int64 { return int64(s.crc) }

func sumOfItem(id, hash string, input, expected, metadata, source []byte) sum {
	return sum{}.text(id).text(hash).value(input, true).
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
	return sum{}.text(o.Item).number(int64(o.Trial), true).number(int64(o.Attempt), true)
}

// is refuses a row whose values are not those that were written.
func (s sum) is(stored sql.NullInt64, what string) error {
	if !stored.Valid || stored.Int64 == s.column() {
		return nil
	}
	return fmt.Errorf("%s is not what was written (its checksum differs)", what)
}

// matchesHash checks an item by the hash of input and expected output, where
// that is one of dataset.Hash.
func matchesHash(item Item) error {
	if len(item.Hash) != 64 {
		return nil
	}
	hash, err := dataset.Hash(item.Item)
	if err == nil && hash != item.Hash {
		err = errors.New("its input or expected output is not what was listed (their hash differs)")
	}
	return err
}

// Checksums came after the first files: the columns may not be there.
const sqlAddSums = `
	ALTER TABLE item ADD COLUMN sum INTEGER;
	ALTER TABLE outcome ADD COLUMN sum INTEGER;
	ALTER TABLE detail ADD COLUMN sum INTEGER;`
