package exchange

import (
	"encoding/json"
	"fmt"
)

// Set returns a JSON object with the members replaced or added; what they hold
// is written as it is. Members that are not named keep their text, numbers and
// order of keys included; the object's own members come out sorted.
func Set(object []byte, members map[string]any) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if len(object) > 0 {
		if err := json.Unmarshal(object, &fields); err != nil {
			return nil, fmt.Errorf("not a JSON object: %w", err)
		}
	}
	if fields == nil { // the object was null
		fields = map[string]json.RawMessage{}
	}
	for name, value := range members {
		encoded, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fields[name] = encoded
	}
	return json.Marshal(fields)
}
