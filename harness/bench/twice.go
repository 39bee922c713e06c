package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// twice returns where a text of valid JSON has the same key twice in one object,
// such as "expected.minExtractions", quoted; "" where it has not.
func twice(raw []byte) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return twiceIn(dec, "")
}

// twiceIn reads one value.
func twiceIn(dec *json.Decoder, path string) string {
	token, err := dec.Token()
	if err != nil {
		return ""
	}
	switch token {
	case json.Delim('['):
		for i := 0; dec.More(); i++ {
			if found := twiceIn(dec, fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}
	case json.Delim('{'):
		seen := map[string]bool{}
		for dec.More() {
			token, err := dec.Token()
			key, isText := token.(string)
			if err != nil || !isText {
				return ""
			}
			inner := key
			if path != "" {
				inner = path + "." + key
			}
			if seen[key] {
				return fmt.Sprintf("%q", shortened(inner))
			}
			seen[key] = true
			if found := twiceIn(dec, inner); found != "" {
				return found
			}
		}
	default:
		return ""
	}
	_, _ = dec.Token() // the end; what follows an error is an error again
	return ""
}
