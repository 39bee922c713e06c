package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// Writer writes items in a format that Read reads. Input, expected output and metadata keep their
// values, but not their white space. In CSV, an empty cell reads back as absent. A Writer is not
// safe for concurrent use.
type Writer struct {
	format Format
	out    *bufio.Writer
	csv    *csv.Writer
	items  int
	closed bool
}

// NewWriter returns a Writer to w. It must be closed, even if no item was written.
func NewWriter(w io.Writer, format Format) (*Writer, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	writer := &Writer{format: format, out: out, csv: csv.NewWriter(out)}
	switch format {
	case CSV:
		header := []string{"id", "input", "expected_output", "metadata", "source_trace_id", "source_observation_id"}
		return writer, writer.csv.Write(header)
	case JSON, JSONL:
		return writer, nil
	}
	return nil, unknownFormat(string(format))
}

// Write adds an item. It returns an error of the underlying writer, or an error for values that
// are not JSON, an id that is not UTF-8 or a Writer that is closed; then nothing of the item is
// written.
func (w *Writer) Write(item Item) error {
	switch {
	case w.closed:
		return fmt.Errorf("writing item %q: the writer is closed", item.ID)
	case !utf8.ValidString(item.ID):
		return fmt.Errorf("writing item %q: its id is not UTF-8", item.ID)
	}
	write := w.writeObject
	if w.format == CSV {
		write = w.writeRow
	}
	if err := write(item); err != nil {
		return fmt.Errorf("writing item %q: %w", item.ID, err)
	}
	w.items++
	return nil
}

func (w *Writer) writeObject(item Item) error {
	raw, err := textutil.MarshalJSON(item)
	if err != nil {
		return err
	}
	prefix, suffix := ",\n", ""
	switch {
	case w.format == JSONL:
		prefix, suffix = "", "\n"
	case w.items == 0:
		prefix = "[\n"
	}
	_, err = fmt.Fprint(w.out, prefix, string(raw), suffix)
	return err
}

func (w *Writer) writeRow(item Item) error {
	record := []string{item.ID}
	for _, raw := range [][]byte{item.Input, item.Expected, item.Metadata} {
		var cell bytes.Buffer
		if len(raw) > 0 { // an absent value is an empty cell
			if err := json.Compact(&cell, raw); err != nil {
				return err
			}
		}
		record = append(record, cell.String())
	}
	return w.csv.Write(append(record, item.SourceTraceID, item.SourceObservationID))
}

// Close writes the rest of the file. It does not close the underlying writer. Further calls do
// nothing.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.csv.Flush()
	switch { // Flush returns earlier errors of the buffered writer
	case w.format == JSON && w.items == 0:
		w.out.WriteString("[]\n")
	case w.format == JSON:
		w.out.WriteString("\n]\n")
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("writing items: %w", err)
	}
	return nil
}

// Canonical returns the canonical form of a JSON value, which is the same for all equal values:
// keys sorted by UTF-16 code units, no white space, strings with as few escapes as possible,
// numbers as in canonicalNumber. It follows RFC 8785, except that integers keep all their
// digits.
//
// An absent (empty) value is null. The last value of a repeated key counts. An escaped lone
// surrogate becomes U+FFFD. Canonical fails if raw is not exactly one JSON value, is not valid
// UTF-8, or is nested deeper than 10,000 levels. Time O(n log n), memory O(n).
func Canonical(raw json.RawMessage) ([]byte, error) {
	return new(canonicalWriter).write(raw)
}

// canonicalWriter writes the canonical form of JSON in one pass.
type canonicalWriter struct {
	raw, out []byte
	pos      int               // position in raw
	members  []canonicalMember // of the open objects
	scratch  []byte
	shared   map[string]sharedValue // by key; nil if not wanted
}

// sharedValue is an object or list of the last text that had one under its key, and its canonical form.
type sharedValue struct{ raw, canonical []byte }

// write returns the canonical form of raw, which shares the memory of w.
func (w *canonicalWriter) write(raw json.RawMessage) ([]byte, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return []byte("null"), nil
	}
	if !utf8.Valid(raw) || !textutil.ValidJSON(raw) {
		_, err := Decode(raw)
		return nil, err
	}
	w.raw, w.out, w.pos = raw, slices.Grow(w.out[:0], len(raw)), 0
	w.skipSpace()
	w.value()
	w.raw = nil
	return w.out, nil
}

// canonicalMember is the position of a written member.
type canonicalMember struct {
	key        string // without escapes; shares the memory of raw
	start, end int    // in out
}

func (w *canonicalWriter) skipSpace() {
	for ; w.pos < len(w.raw); w.pos++ {
		if c := w.raw[w.pos]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return
		}
	}
}

func (w *canonicalWriter) value() {
	switch w.raw[w.pos] {
	case '{':
		w.object()
	case '[':
		w.parts(']', w.value)
	case '"':
		w.text(w.scalar())
	case 't', 'f', 'n':
		w.out = append(w.out, w.scalar()...)
	default:
		w.out = append(w.out, canonicalNumber(string(w.scalar()))...)
	}
}

// text writes a string. A string without escapes is canonical already.
func (w *canonicalWriter) text(token []byte) {
	if bytes.IndexByte(token, '\\') >= 0 {
		w.out = appendString(w.out, textutil.JSONText(token))
	} else {
		w.out = append(w.out, token...)
	}
}

// scalar returns the next string, number or word.
func (w *canonicalWriter) scalar() (token []byte) {
	token, _ = textutil.CutJSON(w.raw[w.pos:])
	w.pos += len(token)
	return token
}

// parts writes the brackets, and calls part for each element between them.
func (w *canonicalWriter) parts(closing byte, part func()) {
	w.out = append(w.out, w.raw[w.pos])
	w.pos++
	for first := true; ; first = false {
		if w.skipSpace(); w.raw[w.pos] == closing {
			break
		}
		if !first {
			w.out = append(w.out, ',')
			w.pos++
			w.skipSpace()
		}
		part()
	}
	w.out = append(w.out, closing)
	w.pos++
}

// object writes the members in their order, and sorts them if necessary.
func (w *canonicalWriter) object() {
	start, firstMember := len(w.out), len(w.members)
	w.parts('}', w.member)
	members := w.members[firstMember:]
	sorted := true
	for i := 1; i < len(members) && sorted; i++ {
		sorted = compareUTF16(members[i-1].key, members[i].key) < 0
	}
	if !sorted {
		w.sort(start, members)
	}
	w.members = w.members[:firstMember]
}

// sort rewrites the object, which begins at start, in the order of its keys.
func (w *canonicalWriter) sort(start int, members []canonicalMember) {
	slices.SortFunc(members, func(a, b canonicalMember) int {
		return cmp.Or(compareUTF16(a.key, b.key), a.start-b.start)
	})
	w.scratch = append(w.scratch[:0], w.out[start:]...)
	w.out = append(w.out[:start], '{')
	for i, m := range members {
		if i+1 < len(members) && members[i+1].key == m.key {
			continue // the last value of a repeated key counts
		}
		if len(w.out) > start+1 {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, w.scratch[m.start-start:m.end-start]...)
	}
	w.out = append(w.out, '}')
}

func (w *canonicalWriter) member() {
	token := w.scalar()
	m := canonicalMember{key: textutil.UnsafeJSONText(token), start: len(w.out)}
	w.text(token)
	w.out = append(w.out, ':')
	w.skipSpace()
	w.pos++ // the colon
	w.skipSpace()
	w.memberValue(m.key)
	m.end = len(w.out)
	w.members = append(w.members, m)
}

// Bounds of the memory for values that items share.
const (
	maxShared     = 1 << 20 // bytes of an item
	maxSharedKeys = 16
)

// memberValue writes the value of a member. No object or list is the beginning of another one, so
// that a text which begins with a shared one has that value.
func (w *canonicalWriter) memberValue(key string) {
	start, written, shared := w.pos, len(w.out), w.shared
	last := shared[key]
	if last.raw != nil && bytes.HasPrefix(w.raw[start:], last.raw) {
		w.out, w.pos = append(w.out, last.canonical...), start+len(last.raw)
		return
	}
	w.shared = nil // what is in the value is shared with it
	w.value()
	w.shared = shared
	raw := w.raw[start:w.pos]
	if (raw[0] == '{' || raw[0] == '[') && shared != nil && (last.raw != nil || len(shared) < maxSharedKeys) {
		shared[strings.Clone(key)] = sharedValue{
			append(last.raw[:0], raw...), append(last.canonical[:0], w.out[written:]...)}
	}
}

// CanonicalValue returns the canonical form of a value as returned by Decode. It panics if the
// value cannot be JSON.
func CanonicalValue(v any) []byte {
	raw, err := json.Marshal(v)
	if err == nil {
		raw, err = Canonical(raw)
	}
	if err != nil {
		panic("dataset: " + err.Error())
	}
	return raw
}

// compareUTF16 compares UTF-8 text by UTF-16 code units, as JavaScript does. That is the order
// of the bytes, except that characters beyond U+FFFF (from byte 0xF0) come before U+E000…U+FFFF
// (from 0xEE).
func compareUTF16(a, b string) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		switch {
		case x == y:
		case x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0):
			return cmp.Compare(y, x)
		default:
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0 // start of the text without escapes
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		if short := strings.IndexByte("\"\\\b\t\n\f\r", c); short >= 0 {
			b = append(b, '\\', `"\btnfr`[short])
		} else {
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return append(append(b, s[start:]...), '"')
}

// maxExponent is the largest exponent that is kept. Larger ones are absurd and count as equal.
const maxExponent = 1_000_000_000_000

// canonicalNumber returns the one form of a JSON number, in the style of JavaScript (1.0, 1 and
// 10e-1 are 1; 1e21 is 1e+21).
//
// An integer keeps its exact digits. Any other number is the shortest decimal that is the same
// float64, unless it is too small or too large for a float64; then it keeps its exact digits
// too.
func canonicalNumber(literal string) string {
	if n := len(literal); n <= 18 && literal[0] != '-' && (n == 1 || literal[0] != '0') && !strings.ContainsAny(literal, ".eE") {
		return literal
	}
	neg, digits, exp := splitDecimal(literal)
	if digits == "" {
		return "0"
	}
	if exp < 0 {
		if f, err := strconv.ParseFloat(literal, 64); err == nil && f != 0 {
			text, _ := json.Marshal(f) // in the style of JavaScript
			return string(text)
		}
	}
	text := formatNumber(digits, exp)
	if neg {
		return "-" + text
	}
	return text
}

// splitDecimal splits a number into digits × 10^exp, without zeros at either end of the digits. The
// digits of 0 are empty.
func splitDecimal(literal string) (neg bool, digits string, exp int64) {
	literal, neg = strings.CutPrefix(literal, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(literal), "e")
	if power != "" {
		exp, _ = strconv.ParseInt(power, 10, 62) // a larger one saturates; 62 bits leave room to add the number of digits
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exp -= int64(len(fraction))
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exp += int64(len(digits) - len(trimmed))
	first := exp + int64(len(trimmed)) - 1 // power of the first digit
	exp += min(max(first, -maxExponent), maxExponent) - first
	return neg, trimmed, exp
}

// formatNumber formats digits × 10^exp, an integer or beyond the range of a float64, like
// Number::toString of JavaScript: an integer below 1e21 plain, all else with an exponent.
func formatNumber(digits string, exp int64) string {
	n := int64(len(digits)) + exp
	if exp >= 0 && n <= 21 {
		return digits + strings.Repeat("0", int(exp))
	}
	mantissa := digits
	if len(digits) > 1 {
		mantissa = digits[:1] + "." + digits[1:]
	}
	return fmt.Sprintf("%se%+d", mantissa, n-1)
}
