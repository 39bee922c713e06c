package langfuse

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// ScoreType says what the value of a score means.
type ScoreType string

// The types of scores. CORRECTION is only read: its value is a text.
const (
	ScoreNumeric     ScoreType = "NUMERIC"
	ScoreBoolean     ScoreType = "BOOLEAN"
	ScoreCategorical ScoreType = "CATEGORICAL"
	ScoreText        ScoreType = "TEXT"
	ScoreCorrection  ScoreType = "CORRECTION"
)

// ScoreValue is a number or a text, or neither (the zero value, which servers
// give for an empty category). Values compare with ==. The endpoints of
// Langfuse write a boolean as 0/1 or as false/true; both are the numbers here.
type ScoreValue struct {
	kind   valueKind
	number float64
	text   string
}

type valueKind uint8

const (
	kindNone valueKind = iota
	kindNumber
	kindText
)

// NumberValue returns the value of a numeric score.
func NumberValue(number float64) ScoreValue { return ScoreValue{kind: kindNumber, number: number} }

// BoolValue returns the value of a boolean score: 1 for true, 0 for false.
func BoolValue(yes bool) ScoreValue {
	if yes {
		return NumberValue(1)
	}
	return NumberValue(0)
}

// TextValue returns the value of a categorical or text score.
func TextValue(text string) ScoreValue { return ScoreValue{kind: kindText, text: text} }

// Number returns the number, and whether the value is one.
func (v ScoreValue) Number() (float64, bool) { return v.number, v.kind == kindNumber }

// Text returns the text, and whether the value is one.
func (v ScoreValue) Text() (string, bool) { return v.text, v.kind == kindText }

// String returns the value for people; nothing for no value.
func (v ScoreValue) String() string {
	if v.kind == kindNumber {
		return strconv.FormatFloat(v.number, 'g', -1, 64)
	}
	return v.text
}

// MarshalJSON writes a number, a string or null. NaN and infinities are errors.
func (v ScoreValue) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case kindNumber:
		if math.IsNaN(v.number) || math.IsInf(v.number, 0) {
			return nil, fmt.Errorf("a score cannot be %g", v.number)
		}
		return json.Marshal(v.number)
	case kindText:
		return json.Marshal(v.text)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads a number, a boolean, a string or null.
func (v *ScoreValue) UnmarshalJSON(raw []byte) error {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	switch value := value.(type) {
	case nil:
		*v = ScoreValue{}
	case float64:
		*v = NumberValue(value)
	case bool:
		*v = BoolValue(value)
	case string:
		*v = TextValue(value)
	default:
		return fmt.Errorf("a score's value must be a number, a boolean or a string, not %s", cutText(string(raw), 40))
	}
	return nil
}
