package bench

import "encoding/json"

// Stored takes the stored answer of a case apart, as the deterministic mode does.
func Stored(document string, schema json.RawMessage, answer string) (Answer, error) {
	r, err := newReader(document, schema)
	if err != nil {
		return Answer{}, err
	}
	return r.stored(answer), nil
}
