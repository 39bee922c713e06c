package runstore

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"extraction-experiment/outcome"
)

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
func appendScores(b []byte, w *words, scores []outcome.Score) []byte {
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

func appendScore(b []byte, w *words, s outcome.Score) []byte {
	flags := flagsOf(s)
	b = append(appendWord(b, w, s.Name), flags)
	if flags&hasReason != 0 {
		b = appendWord(b, w, s.Reason)
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
	var flags byte
	if s.Ratio != nil {
		flags |= hasRatio
	}
	if s.Value != nil {
		flags |= hasValue
		if s.Ratio == nil || quotient(*s.Ratio) != *s.Value {
			flags |= hasFloat
		}
	}
	if s.Reason != "" {
		flags |= hasReason
	}
	if s.Weight != nil {
		flags |= hasWeight
	}
	if s.Boolean {
		flags |= isBoolean
	}
	if s.Vacuous {
		flags |= isVacuous
	}
	return flags
}

// quotient is NaN where there is none, which equals no value.
func quotient(r outcome.Ratio) float64 {
	if r.Den == 0 {
		return math.NaN()
	}
	return float64(r.Num) / float64(r.Den)
}

func appendWord(b []byte, w *words, word string) []byte {
	word = strings.ToValidUTF8(word, "\uFFFD")
	if n := w.refer(word); n > 0 {
		return binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(append(b, 0), uint64(len(word)))
	return append(b, word...)
}

// decodeScores is the inverse of appendScores. Any bytes either decode or give
// an error; memory is in proportion to the bytes.
func decodeScores(b []byte, w *words) ([]outcome.Score, error) {
	if len(b) == 0 {
		return nil, nil
	}
	d := scoreDecoder{rest: b[1:], words: w.list}
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
	words []string
	bad   bool
}

func (d *scoreDecoder) score(s *outcome.Score, value *float64) {
	s.Name = d.word()
	flags := d.bytes(1)[0]
	if flags > knownFlags {
		d.bad = true
	}
	if flags&hasReason != 0 {
		s.Reason = d.word()
	}
	if flags&hasRatio != 0 {
		s.Ratio = &outcome.Ratio{Num: d.varint(), Den: d.varint()}
		*value = quotient(*s.Ratio)
	}
	if flags&hasFloat != 0 {
		*value = math.Float64frombits(binary.LittleEndian.Uint64(d.bytes(8)))
	}
	if flags&hasValue != 0 {
		s.Value = value
		d.bad = d.bad || math.IsNaN(*value) || math.IsInf(*value, 0)
	}
	if flags&hasWeight != 0 {
		weight := math.Float64frombits(binary.LittleEndian.Uint64(d.bytes(8)))
		s.Weight = &weight
		d.bad = d.bad || math.IsNaN(weight) || math.IsInf(weight, 0)
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

func (d *scoreDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *scoreDecoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *scoreDecoder) word() string {
	n := d.uvarint()
	if n > 0 {
		if n > uint64(len(d.words)) {
			d.bad = true
			return ""
		}
		return d.words[n-1]
	}
	length := d.uvarint()
	if length > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return ""
	}
	return string(d.bytes(int(length)))
}
