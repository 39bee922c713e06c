package textutil

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"
)

// AppendJSONText appends a text as a JSON string, as encoding/json writes it.
func AppendJSONText(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	raw := unsafe.Slice(unsafe.StringData(text), len(text))
	start := 0 // start of the text that is not written yet
	for i := asciiEnd(raw, 0); i < len(raw); {
		c := raw[i]
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			if r, size = utf8.DecodeRune(raw[i:]); r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
				if i += size; i < len(raw) && raw[i] < utf8.RuneSelf {
					i = asciiEnd(raw, i)
				}
				continue
			}
		}
		b = append(b, raw[start:i]...)
		if c == '"' || c == '\\' {
			b = append(b, '\\', c)
		} else if short := strings.IndexByte("\b\f\n\r\t", c); short >= 0 {
			b = append(b, '\\', "bfnrt"[short])
		} else {
			b = append(b, '\\', 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		}
		start = i + size
		i = asciiEnd(raw, start)
	}
	return append(append(b, raw[start:]...), '"')
}

// asciiEnd returns the first index from i on of a byte that is not ASCII or must be escaped:
// one of "&<>\ and control characters. It tests eight bytes at a time.
func asciiEnd(raw []byte, i int) int {
	const lowBits, highBits = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(raw); i += 8 {
		word := binary.LittleEndian.Uint64(raw[i:])
		// A quotation mark and an ampersand differ in one bit, and so do the angle brackets.
		quote, slash, angle := (word|lowBits*4)^lowBits*'&', word^lowBits*'\\', (word|lowBits*2)^lowBits*'>'
		// The lowest bit set in found belongs to the first matching byte; higher bits may be
		// false matches.
		found := ((quote - lowBits) | (slash - lowBits) | (angle - lowBits) | (word - lowBits*' ') | word) & highBits
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(raw); i++ {
		if c := raw[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '&' || c == '<' || c == '>' || c == '\\' {
			break
		}
	}
	return i
}

// JSONWriter writes members of JSON objects as encoding/json does, but without reflection. B
// must begin with the brace that opens an object.
type JSONWriter struct {
	B   []byte
	Err error // errors of values that cannot be written
}

// Name writes the name of a member. The caller writes the value.
func (w *JSONWriter) Name(name string) {
	if w.B[len(w.B)-1] != '{' {
		w.B = append(w.B, ',')
	}
	w.B = append(AppendJSONText(w.B, name), ':')
}

// Open begins a member whose value is an object. Close ends it.
func (w *JSONWriter) Open(name string) {
	w.Name(name)
	w.B = append(w.B, '{')
}

// Close ends an object.
func (w *JSONWriter) Close() { w.B = append(w.B, '}') }

// WriteJSONList writes a member whose value is a list of objects; write writes the members of
// each.
func WriteJSONList[T any](w *JSONWriter, name string, values []T, write func(T, *JSONWriter)) {
	w.Name(name)
	w.B = append(w.B, '[')
	for i, value := range values {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.B = append(w.B, '{')
		write(value, w)
		w.Close()
	}
	w.B = append(w.B, ']')
}

// Raw writes a member whose value is the given JSON, unless it is empty.
func (w *JSONWriter) Raw(name string, value []byte) {
	if len(value) > 0 {
		w.Name(name)
		w.B = append(w.B, value...)
	}
}

// Text writes a member whose value is a string.
func (w *JSONWriter) Text(name, value string) {
	w.Name(name)
	w.B = AppendJSONText(w.B, value)
}

// TextIf is Text, but omits an empty string.
func (w *JSONWriter) TextIf(name, value string) {
	if value != "" {
		w.Text(name, value)
	}
}

// Flag writes a member that is true, and omits false.
func (w *JSONWriter) Flag(name string, value bool) {
	if value {
		w.Raw(name, []byte("true"))
	}
}

// WriteJSONIf is Value if the condition is true. Otherwise it does nothing, and does not
// allocate an interface for the value.
func WriteJSONIf[T any](w *JSONWriter, name string, value T, condition bool) {
	if condition {
		w.Value(name, value)
	}
}

// IntIf is Int, but omits 0.
func (w *JSONWriter) IntIf(name string, value int64) {
	if value != 0 {
		w.Int(name, value)
	}
}

// Int writes a member whose value is an integer.
func (w *JSONWriter) Int(name string, value int64) {
	w.Name(name)
	w.B = strconv.AppendInt(w.B, value, 10)
}

// Float writes a member whose value is a finite number. Other numbers are errors in Err.
func (w *JSONWriter) Float(name string, value float64) {
	if abs := math.Abs(value); abs != 0 && abs < 1e-6 || !(abs < 1e21) {
		w.Value(name, value) // with an exponent, or an error
		return
	}
	w.Name(name)
	w.B = strconv.AppendFloat(w.B, value, 'f', -1, 64)
}

// FloatIf is Float, but omits nil.
func (w *JSONWriter) FloatIf(name string, value *float64) {
	if value != nil {
		w.Float(name, *value)
	}
}

// Time writes a member whose value is a time of the years 0 to 9999.
func (w *JSONWriter) Time(name string, value time.Time) {
	w.Name(name)
	text, err := value.AppendText(append(w.B, '"'))
	w.B, w.Err = append(text, '"'), errors.Join(w.Err, err)
}

// Value writes a member with any value, using encoding/json.
func (w *JSONWriter) Value(name string, value any) {
	text, err := json.Marshal(value)
	w.Raw(name, text)
	w.Err = errors.Join(w.Err, err)
}
