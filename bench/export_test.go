package bench

import "encoding/json"

// Stored reads the stored answer of a case, as DeterministicMode does.
func Stored(document string, schema json.RawMessage, answer string) (Answer, error) {
	r, err := newReader(document, schema)
	if err != nil {
		return Answer{}, err
	}
	return r.stored(answer), nil
}

// Parse reads cases from a text. Messages name path.
func Parse(strict bool, path string, text []byte) ([]Case, error) {
	r := caseReader{seen: map[string]string{}}
	r.text(strict, path, text)
	return r.result()
}

// RecordKey is the identity of a record within its case.
func RecordKey(r Record) string { return r.key() }
