package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// Writer writes items in a format that Read reads back. Input, expected output
// and metadata keep their values, not their white space; in CSV a cell that is
// an empty string reads back as absent. Not safe for concurrent use.
type Writer struct {
	format Format
	out    *bufio.Writer
	csv    *csv.Writer
	items  int
}

// NewWriter begins a file of items; it must be closed, also after no items.
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

// Write adds one item. Errors: those of the underlying writer, and values that
// are not JSON, of which nothing is written.
func (w *Writer) Write(item Item) error {
	write := w.object
	if w.format == CSV {
		write = w.row
	}
	if err := write(item); err != nil {
		return fmt.Errorf("writing item %q: %w", item.ID, err)
	}
	w.items++
	return nil
}

func (w *Writer) object(item Item) error {
	raw, err := Marshal(item)
	if err != nil {
		return err
	}
	before, after := ",\n", ""
	switch {
	case w.format == JSONL:
		before, after = "", "\n"
	case w.items == 0:
		before = "[\n"
	}
	_, err = fmt.Fprint(w.out, before, string(raw), after)
	return err
}

func (w *Writer) row(item Item) error {
	record := []string{item.ID}
	for _, raw := range [][]byte{item.Input, item.Expected, item.Metadata} {
		var cell bytes.Buffer
		if len(raw) > 0 { // absent is the empty cell
			if err := json.Compact(&cell, raw); err != nil {
				return err
			}
		}
		record = append(record, cell.String())
	}
	return w.csv.Write(append(record, item.SourceTraceID, item.SourceObservationID))
}

// Close ends the file. It does not close the underlying writer.
func (w *Writer) Close() error {
	w.csv.Flush()
	switch { // an error of a buffered writer comes back when it is flushed
	case w.format == JSON && w.items == 0:
		w.out.WriteString("[]\n")
	case w.format == JSON:
		w.out.WriteString("\n]\n")
	}
	if err := cmp.Or(w.csv.Error(), w.out.Flush()); err != nil {
		return fmt.Errorf("writing items: %w", err)
	}
	return nil
}

// Canonical writes a JSON value in the one form that every equal value has:
// keys sorted by UTF-16 code units, no white space, strings with the least
// escaping, numbers as in canonicalNumber. It follows RFC 8785, except that
// integers keep all their digits however large they are.
//
// Absent (empty) is null. Of a repeated key the last value counts. An escaped
// lone surrogate becomes U+FFFD. Errors: not one JSON value, not valid UTF-8,
// or nested deeper than 10,000 levels. Time O(n log n), memory O(n).
func Canonical(raw json.RawMessage) ([]byte, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return []byte("null"), nil
	}
	if !utf8.Valid(raw) || !textutil.ValidJSON(raw) {
		_, err := Decode(raw)
		return nil, err
	}
	w := canonicalWriter{raw: raw, out: make([]byte, 0, len(raw))}
	w.skipSpace()
	w.value()
	return w.out, nil
}

// canonicalWriter writes valid JSON in its canonical form, in one pass.
type canonicalWriter struct {
	raw, out []byte
	at       int               // in raw, what comes next
	members  []canonicalMember // of the objects that are open
	keys     []byte            // theirs, without quotes and escapes
	scratch  []byte
}

// canonicalMember is a member that is written. It holds no pointers: there are many.
type canonicalMember struct {
	key, keyEnd int // in keys
	begin, end  int // in out
}

func (w *canonicalWriter) key(m canonicalMember) []byte { return w.keys[m.key:m.keyEnd] }

func (w *canonicalWriter) skipSpace() {
	for w.at < len(w.raw) && (w.raw[w.at] == ' ' || w.raw[w.at] == '\n' || w.raw[w.at] == '\t' || w.raw[w.at] == '\r') {
		w.at++
	}
}

func (w *canonicalWriter) value() {
	switch w.raw[w.at] {
	case '{':
		w.object()
	case '[':
		w.parts(']', w.value)
	default:
		token := w.scalar()
		switch c := token[0]; {
		case c == '"':
			w.text(token)
		case c == '-' || c >= '0' && c <= '9':
			w.out = append(w.out, canonicalNumber(string(token))...)
		default:
			w.out = append(w.out, token...)
		}
	}
}

// text writes a string; one without escapes is as it is to be.
func (w *canonicalWriter) text(token []byte) {
	if bytes.IndexByte(token, '\\') >= 0 {
		w.out = appendString(w.out, textutil.JSONText(token))
	} else {
		w.out = append(w.out, token...)
	}
}

// scalar takes the string, number or word that comes next.
func (w *canonicalWriter) scalar() (token []byte) {
	token, _ = textutil.CutJSON(w.raw[w.at:])
	w.at += len(token)
	return token
}

// parts writes the brackets, and one part after another between them.
func (w *canonicalWriter) parts(closing byte, part func()) {
	w.out = append(w.out, w.raw[w.at])
	w.at++
	for first := true; ; first = false {
		if w.skipSpace(); w.raw[w.at] == closing {
			break
		}
		if !first {
			w.out = append(w.out, ',')
			w.at++
			w.skipSpace()
		}
		part()
	}
	w.out = append(w.out, closing)
	w.at++
}

// object writes the members as they come, and then in the order of their keys.
func (w *canonicalWriter) object() {
	begin, first, keys := len(w.out), len(w.members), len(w.keys)
	w.parts('}', w.member)
	members := w.members[first:]
	rising := true
	for i := 1; i < len(members) && rising; i++ {
		rising = compareUTF16(w.key(members[i-1]), w.key(members[i])) < 0
	}
	if !rising {
		w.sort(begin, members)
	}
	w.members, w.keys = w.members[:first], w.keys[:keys]
}

// sort writes the object from begin on again, in the order of its keys.
func (w *canonicalWriter) sort(begin int, members []canonicalMember) {
	slices.SortFunc(members, func(a, b canonicalMember) int {
		return cmp.Or(compareUTF16(w.key(a), w.key(b)), a.begin-b.begin)
	})
	w.scratch = append(w.scratch[:0], w.out[begin:]...)
	w.out = append(w.out[:begin], '{')
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(w.key(members[i+1]), w.key(m)) {
			continue // the last of a repeated key counts
		}
		if len(w.out) > begin+1 {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, w.scratch[m.begin-begin:m.end-begin]...)
	}
	w.out = append(w.out, '}')
}

func (w *canonicalWriter) member() {
	token := w.scalar()
	m := canonicalMember{key: len(w.keys), begin: len(w.out)}
	if bytes.IndexByte(token, '\\') >= 0 {
		w.keys = append(w.keys, textutil.JSONText(token)...)
	} else {
		w.keys = append(w.keys, token[1:len(token)-1]...)
	}
	m.keyEnd = len(w.keys)
	w.text(token)
	w.out = append(w.out, ':')
	w.skipSpace()
	w.at++ // the colon
	w.skipSpace()
	w.value()
	m.end = len(w.out)
	w.members = append(w.members, m)
}

// CanonicalValue writes a value of Decode as Canonical does. It panics if the value is not
// JSON.
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

// compareUTF16 orders as JavaScript does, by UTF-16 code units: that of the bytes, but for
// characters beyond U+FFFF (from byte 0xF0 on), which come before U+E000…U+FFFF (from 0xEE on).
func compareUTF16(a, b []byte) int {
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
	plain := 0 // the beginning of what needs no escape
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[plain:i]...)
		plain = i + 1
		if short := strings.IndexByte("\"\\\b\t\n\f\r", c); short >= 0 {
			b = append(b, '\\', `"\btnfr`[short])
		} else {
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return append(append(b, s[plain:]...), '"')
}

// maxExponent bounds the exponents that are told apart: beyond it numbers are
// absurd.
const maxExponent = 1_000_000_000_000

// canonicalNumber writes a JSON number in one form per value, in the style of
// JavaScript (1.0, 1 and 10e-1 are 1; 1e21 is 1e+21).
//
// An integer keeps its exact digits. Any other number is the shortest decimal
// that is the same float64; a number too small or too large for a float64
// keeps its exact digits too.
func canonicalNumber(literal string) string {
	if n := len(literal); n <= 18 && literal[0] != '-' && (n == 1 || literal[0] != '0') && !strings.ContainsAny(literal, ".eE") {
		return literal
	}
	neg, digits, exp := decimal(literal)
	if digits == "" {
		return "0"
	}
	if exp < 0 {
		f, err := strconv.ParseFloat(literal, 64)
		if err == nil && f != 0 && !math.IsInf(f, 0) {
			neg, digits, exp = decimal(strconv.FormatFloat(f, 'e', -1, 64))
		}
	}
	text := javaScript(digits, exp)
	if neg {
		return "-" + text
	}
	return text
}

// decimal takes a number apart into digits × 10^exp without zeros at either
// end of the digits; the digits of 0 are empty.
func decimal(literal string) (neg bool, digits string, exp int64) {
	literal, neg = strings.CutPrefix(literal, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(literal), "e")
	if power != "" {
		exp, _ = strconv.ParseInt(power, 10, 62) // a longer one is the largest; the length of the digits can be added
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

// javaScript lays out digits × 10^exp as Number::toString does: plain from
// 1e-6 to 1e21, with an exponent elsewhere.
func javaScript(digits string, exp int64) string {
	n, k := int64(len(digits))+exp, int64(len(digits))
	switch {
	case k <= n && n <= 21:
		return digits + strings.Repeat("0", int(n-k))
	case 0 < n && n <= 21:
		return digits[:n] + "." + digits[n:]
	case -6 < n && n <= 0:
		return "0." + strings.Repeat("0", int(-n)) + digits
	}
	mantissa := digits
	if k > 1 {
		mantissa = digits[:1] + "." + digits[1:]
	}
	return fmt.Sprintf("%se%+d", mantissa, n-1)
}
