package dataset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

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
	v, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	return appendCanonical(make([]byte, 0, len(raw)), v), nil
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

// CanonicalValue writes a value of Decode as Canonical does. A value that holds
// other types is a fault of the caller and panics.
func CanonicalValue(v any) []byte { return appendCanonical(nil, v) }

func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		if v {
			return append(b, "true"...)
		}
		return append(b, "false"...)
	case json.Number:
		return append(b, canonicalNumber(v.String())...)
	case string:
		return appendString(b, v)
	case []any:
		b = append(b, '[')
		for i, element := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, element)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, key := range slices.SortedFunc(maps.Keys(v), compareUTF16) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, key), ':')
			b = appendCanonical(b, v[key])
		}
		return append(b, '}')
	}
	panic(fmt.Sprintf("dataset: a decoded JSON value of type %T", v))
}

// compareUTF16 orders as JavaScript does: characters beyond U+FFFF, which
// begin with a surrogate, stand before U+E000…U+FFFF.
func compareUTF16(a, b string) int {
	for len(a) > 0 && len(b) > 0 {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb {
			return cmp.Compare(unit(ra), unit(rb))
		}
		a, b = a[na:], b[nb:]
	}
	return cmp.Compare(len(a), len(b))
}

// unit maps a code point so that the order of its values is that of UTF-16
// code units: a pair is placed by its first unit, then by its second.
func unit(r rune) int64 {
	if r < 0x10000 {
		return int64(r) << 16
	}
	high, low := utf16.EncodeRune(r)
	return int64(high)<<16 | int64(low)
}

const hexDigits = "0123456789abcdef"

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
			b = append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
