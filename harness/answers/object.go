package answers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// readObject takes a JSON object apart. A key that is given twice is an error:
// whichever counted, the other would be lost without a word.
func readObject(raw []byte) (map[string]json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case bytes.Equal(raw, []byte("null")):
		return nil, errors.New("it is null")
	case !json.Valid(raw):
		return nil, reasonOf(raw)
	case raw[0] != '{':
		return nil, fmt.Errorf("found %s", excerpt(string(raw), 60))
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	values := map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, value := fmt.Sprint(token), json.RawMessage{}
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("the key %q is given twice", excerpt(key, 60))
		}
		values[key] = value
	}
	return values, nil
}

// reasonOf says where a text stops being JSON.
func reasonOf(raw []byte) error {
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(raw, new(json.RawMessage)), &syntax) {
		return fmt.Errorf("%s (byte %d)", syntax.Error(), syntax.Offset)
	}
	return errors.New("it is no JSON")
}

// texts is a list of texts; null is none.
type texts []string

// UnmarshalJSON reads a list of which each element is a text.
func (t *texts) UnmarshalJSON(raw []byte) error {
	var list []*string
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return errors.New("is no list of texts")
	}
	*t = make(texts, len(list))
	for i, text := range list {
		if text == nil {
			return errors.New("has null in the place of a text")
		}
		(*t)[i] = *text
	}
	return nil
}
