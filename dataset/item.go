// Package dataset holds evaluation items: reading and writing them as JSONL,
// JSON and CSV, their canonical form and fingerprint, and filters over them.
//
// To this package input, expected output and metadata are JSON and nothing
// more; what they mean is the business of a harness.
//
// The steps, in the order in which a command takes them:
//
//	for located, err := range dataset.ReadFile(ctx, "items.jsonl") { … } // Read, formats
//	filter, err := dataset.ParseFilter("metadata.difficulty=hard")  // which of them
//	hash, err := dataset.Hash(located.Item)                         // what an item is
//	err = fingerprint.Add(located.ID, hash)                         // what they all are
package dataset

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// Item is one case of a dataset.
type Item struct {
	ID       string          `json:"id"`
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expectedOutput,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// SourceTraceID and SourceObservationID link the item to the production
	// trace that it was made from.
	SourceTraceID       string `json:"sourceTraceId,omitempty"`
	SourceObservationID string `json:"sourceObservationId,omitempty"`
}

// Located is an item with the place that it was read from.
type Located struct {
	Item
	// File is the name that Read was given.
	File string
	// Line is where the item begins, counted from 1.
	Line int
	// DerivedID says that the source gave no id: see DeriveID.
	DerivedID bool
	// Warnings name what was read but may not be what the writer meant, such
	// as a key that is not a key of an item.
	Warnings []string
}

// identify checks the id, or derives one.
func identify(located *Located) error {
	if located.ID != "" {
		if err := ValidID(located.ID); err != nil {
			return wrong(fieldID, "%v", err)
		}
		return nil
	}
	if located.Input == nil {
		return wrong(fieldID, "is missing, and there is no input to derive one from")
	}
	id, err := DeriveID(located.Item)
	if err != nil {
		return wrong(fieldInput, "%v", err)
	}
	located.ID, located.DerivedID = id, true
	return nil
}

// MaxID is the longest id of an item, in characters: the limit of Langfuse.
const MaxID = 255

// ValidID says why an id cannot be used: it is empty, too long, or holds
// control characters or bytes that are not UTF-8.
func ValidID(id string) error {
	switch {
	case id == "":
		return errors.New("is empty")
	case !utf8.ValidString(id):
		return errors.New("is not valid UTF-8")
	case utf8.RuneCountInString(id) > MaxID:
		return fmt.Errorf("has %d characters, at most %d are allowed", utf8.RuneCountInString(id), MaxID)
	case strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }):
		return fmt.Errorf("%q holds control characters", id)
	}
	return nil
}

// DeriveID makes an id of the canonical form of the input alone, so that it
// depends neither on the order of a file nor on the gold: correcting the
// expected output updates the item instead of making another. Two items with
// equal inputs get equal ids.
func DeriveID(item Item) (string, error) {
	canonical, err := Canonical(item.Input)
	if err != nil {
		return "", err
	}
	return "item-" + hexSum(canonical)[:16], nil
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
	w := canonicalWriter{rest: raw, out: make([]byte, 0, len(raw))}
	w.skipSpace()
	w.value()
	return w.out, nil
}

// canonicalWriter writes valid JSON in its canonical form, in one pass.
type canonicalWriter struct {
	rest, out []byte
	members   []canonicalMember // of the objects that are open
	scratch   []byte
}

// canonicalMember is a member that is written.
type canonicalMember struct {
	key        []byte
	begin, end int // in out
}

func (w *canonicalWriter) skipSpace() {
	for len(w.rest) > 0 && (w.rest[0] == ' ' || w.rest[0] == '\n' || w.rest[0] == '\t' || w.rest[0] == '\r') {
		w.rest = w.rest[1:]
	}
}

func (w *canonicalWriter) value() {
	switch w.rest[0] {
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
	token, w.rest = textutil.JSONScalar(w.rest)
	return token
}

// parts writes the brackets, and one part after another between them.
func (w *canonicalWriter) parts(closing byte, part func()) {
	w.out = append(w.out, w.rest[0])
	w.rest = w.rest[1:]
	for first := true; ; first = false {
		if w.skipSpace(); w.rest[0] == closing {
			break
		}
		if !first {
			w.out = append(w.out, ',')
			w.rest = w.rest[1:]
			w.skipSpace()
		}
		part()
	}
	w.out = append(w.out, closing)
	w.rest = w.rest[1:]
}

// object writes the members as they come, and then in the order of their keys.
func (w *canonicalWriter) object() {
	begin, first := len(w.out), len(w.members)
	w.parts('}', w.member)
	members := w.members[first:]
	w.members = w.members[:first]
	rising := true
	for i := 1; i < len(members) && rising; i++ {
		rising = compareUTF16(members[i-1].key, members[i].key) < 0
	}
	if rising {
		return
	}
	slices.SortStableFunc(members, func(a, b canonicalMember) int { return compareUTF16(a.key, b.key) })
	w.scratch = append(w.scratch[:0], w.out[begin:]...)
	w.out = append(w.out[:begin], '{')
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(members[i+1].key, m.key) {
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
	m := canonicalMember{key: token[1 : len(token)-1], begin: len(w.out)}
	if bytes.IndexByte(token, '\\') >= 0 {
		m.key = []byte(textutil.JSONText(token))
	}
	w.text(token)
	w.out = append(w.out, ':')
	w.skipSpace()
	w.rest = w.rest[1:] // the colon
	w.skipSpace()
	w.value()
	m.end = len(w.out)
	w.members = append(w.members, m)
}

// Decode reads one JSON value into nil, bool, string, json.Number, []any and
// map[string]any. Errors: not one JSON value, not valid UTF-8, or nested deeper
// than 10,000 levels.
func Decode(raw json.RawMessage) (any, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("is more than one JSON value")
	}
	return v, nil
}

// RepeatedKey returns a key that an object of valid JSON has twice, such as
// "expected.weight", or "" where there is none: of two values only one would count.
func RepeatedKey(raw json.RawMessage) string {
	return textutil.Brief(repeatedIn(json.NewDecoder(bytes.NewReader(raw)), ""), 300)
}

// repeatedIn looks through the next value.
func repeatedIn(dec *json.Decoder, path string) (found string) {
	token, _ := dec.Token()
	if token != json.Delim('[') && token != json.Delim('{') {
		return ""
	}
	seen := map[string]bool{}
	for i := 0; dec.More() && found == ""; i++ {
		inner := fmt.Sprintf("%s[%d]", path, i)
		if token == json.Delim('{') {
			key, _ := dec.Token()
			inner = strings.TrimPrefix(fmt.Sprintf("%s.%s", path, key), ".")
		}
		if seen[inner] {
			return inner
		}
		seen[inner] = true
		found = repeatedIn(dec, inner)
	}
	_, _ = dec.Token() // the end
	return found
}

// CanonicalValue writes a value of Decode as Canonical does. A value that is no JSON is a
// fault of the caller and panics.
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

// compareUTF16 orders as JavaScript does: characters beyond U+FFFF, which
// begin with a surrogate, stand before U+E000…U+FFFF.
func compareUTF16(a, b []byte) int {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	if i == min(len(a), len(b)) || max(a[i], b[i]) < 0xEE { // before U+E000, where the orders are the same
		return bytes.Compare(a[i:], b[i:])
	}
	for len(a) > 0 && len(b) > 0 {
		ra, na := utf8.DecodeRune(a)
		rb, nb := utf8.DecodeRune(b)
		if ra != rb {
			return cmp.Compare(unit(ra), unit(rb))
		}
		a, b = a[na:], b[nb:]
	}
	return cmp.Compare(len(a), len(b))
}

// unit maps a character so that the order of its values is that of UTF-16 code
// units: surrogates stand before U+E000…U+FFFF.
func unit(r rune) rune {
	if r >= 0xE000 && r <= 0xFFFF {
		return r + utf8.MaxRune
	}
	return r
}

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\b':
			b = append(b, '\\', 'b')
		case r == '\t':
			b = append(b, '\\', 't')
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\f':
			b = append(b, '\\', 'f')
		case r == '\r':
			b = append(b, '\\', 'r')
		case r < 0x20:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
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
	if n := len(literal); n <= 18 && literal[0] != '-' && (n == 1 || literal[0] != '0') && strings.IndexAny(literal, ".eE") < 0 {
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
	sign := "+"
	if n-1 < 0 {
		sign = "-"
	}
	power := strconv.FormatInt(max(n-1, 1-n), 10)
	if k == 1 {
		return digits + "e" + sign + power
	}
	return digits[:1] + "." + digits[1:] + "e" + sign + power
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Hash returns the sha256, in hex, of the canonical JSON of
// {"expected":…,"input":…}: what an item asks and what it counts as right. Its
// id and metadata are not part of it; an absent value counts as null.
func Hash(item Item) (string, error) {
	expected, err := Canonical(item.Expected)
	if err != nil {
		return "", fmt.Errorf("expected output of item %q: %w", item.ID, err)
	}
	input, err := Canonical(item.Input)
	if err != nil {
		return "", fmt.Errorf("input of item %q: %w", item.ID, err)
	}
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(`{"expected":`), expected, []byte(`,"input":`), input, []byte("}")} {
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// GoldHash names an expected output: the first 16 hex digits of the sha256 of its
// canonical JSON, "" where there is none. What is no JSON is taken as it is.
func GoldHash(expected json.RawMessage) string {
	canonical, err := Canonical(expected)
	if err != nil {
		canonical = expected
	}
	if len(canonical) == 0 || string(canonical) == "null" {
		return ""
	}
	return hexSum(canonical)[:16]
}

// Fingerprint sums up a whole dataset: the sha256 over the lines
// "id TAB hash LF", one per item, sorted by the bytes of the id. Two runs are
// comparable only on equal fingerprints.
//
// It takes the items one by one, already sorted, and keeps none of them. The
// zero value is ready to use; not safe for concurrent use.
type Fingerprint struct {
	sum   hash.Hash
	last  string
	items int
}

// Add takes the next item's id and Hash. It refuses an id that does not come
// after the one before: the fingerprint would depend on the order.
func (f *Fingerprint) Add(id, hash string) error {
	if f.sum == nil {
		f.sum = sha256.New()
	}
	if f.items > 0 && id == f.last {
		return fmt.Errorf("fingerprint: the id %q is there twice", id)
	}
	if f.items > 0 && id < f.last {
		return fmt.Errorf("fingerprint: ids must be sorted, but %q came after %q", id, f.last)
	}
	if _, err := io.WriteString(f.sum, id+"\t"+hash+"\n"); err != nil {
		return err
	}
	f.last = id
	f.items++
	return nil
}

// Items returns how many items were added.
func (f *Fingerprint) Items() int { return f.items }

// Sum returns the fingerprint of what was added so far, in hex. That of no
// items is the sha256 of nothing.
func (f *Fingerprint) Sum() string {
	if f.sum == nil {
		return hexSum(nil)
	}
	return hex.EncodeToString(f.sum.Sum(nil))
}
