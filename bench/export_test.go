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

// Parse reads one text of cases, for which path is in messages.
func Parse(opt Options, path string, text []byte) ([]Case, error) {
	r := caseReader{seen: map[string]string{}}
	r.text(opt, path, text)
	return r.result()
}
