package langfuse

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Number is a finite number of an answer that servers write as a JSON number
// or, where a database column is wider than a double, as a string. Null is 0.
type Number float64

// UnmarshalJSON reads a number, a string that holds one, or null.
func (n *Number) UnmarshalJSON(raw []byte) error {
	var text string
	switch {
	case string(raw) == "null":
		*n = 0
		return nil
	case len(raw) > 0 && raw[0] == '"':
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	default:
		text = string(raw)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("%q is not a finite number", cutText(text, 40))
	}
	*n = Number(value)
	return nil
}
