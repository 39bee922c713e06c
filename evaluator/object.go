package evaluator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"
)

// notNumbers are what programs print for numbers that JSON does not have.
var notNumbers = regexp.MustCompile(`(?i)[:\[,\s]-?(nan|inf(inity)?)\b`)

// oneObject takes the answer apart; a key that is given twice is refused, since
// readers would disagree on its value.
func oneObject(raw []byte) (map[string]json.RawMessage, error) {
	trimmed := bytes.TrimSpace(raw)
	switch {
	case len(trimmed) == 0:
		return nil, errors.New("it printed nothing; print one JSON object")
	case !utf8.Valid(trimmed):
		return nil, errors.New("that is not valid UTF-8, which JSON must be")
	case !json.Valid(trimmed):
		return nil, notJSON(trimmed)
	case trimmed[0] != '{':
		return nil, errors.New("that is JSON, but no object")
	}
	dec := json.NewDecoder(bytes.NewReader(trimmed))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := fmt.Sprint(key)
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("the key %q is there twice", excerpt([]byte(name)))
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		fields[name] = value
	}
	return fields, nil
}

// notJSON says why: the commonest reasons have names.
func notJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	var first json.RawMessage
	if dec.Decode(&first) == nil {
		if dec.Decode(&first) == nil {
			return errors.New("that is more than one JSON value")
		}
		return errors.New("there is text after the JSON object; print everything else to standard error")
	}
	if notNumbers.Match(text) {
		return errors.New("NaN and infinity are no numbers of JSON")
	}
	return errors.New("that is not JSON")
}

// objectIn returns the first JSON object with a score in the text of a model,
// which likes to add words and fences; the text itself where there is none.
func objectIn(text string) []byte {
	const most = 100 // opening brackets that are tried
	raw := []byte(text)
	for at, tried := 0, 0; tried < most; tried++ {
		next := bytes.IndexByte(raw[at:], '{')
		if next < 0 {
			break
		}
		at += next
		var object json.RawMessage
		err := json.NewDecoder(bytes.NewReader(raw[at:])).Decode(&object)
		if err == nil && bytes.Contains(object, []byte(`"score"`)) {
			return object
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && tried > 0 {
			break
		}
		at++
	}
	return raw
}
