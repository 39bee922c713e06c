// Package dataset holds evaluation items: reading and writing them as JSONL,
// JSON and CSV, their canonical form and fingerprint, and filters over them.
//
// For this package, input, expected output and metadata are just JSON; what they mean is up
// to a harness.
//
// The steps, in the order in which a command takes them:
//
//	for located, err := range dataset.ReadFile(ctx, "items.jsonl") { … } // Read, formats
//	filter, err := dataset.ParseFilter("metadata.difficulty=hard")  // which of them
//	hash, err := dataset.Hash(located.Item)                         // what an item is
//	err = fingerprint.Add(located.ID, hash)                         // what they all are
package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// Item is one case of a dataset.
type Item struct {
	ID       string          `json:"id"`
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expectedOutput,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// SourceTraceID and SourceObservationID link the item to the production
	// trace that it was made from.
	SourceTraceID       string `json:"sourceTraceId,omitempty"`
	SourceObservationID string `json:"sourceObservationId,omitempty"`
}

// Located is an item with the place that it was read from.
type Located struct {
	Item
	// File is the name that Read was given.
	File string
	// Line is where the item begins, counted from 1.
	Line int
	// DerivedID says that the source gave no id: see DeriveID.
	DerivedID bool
	// Warnings name what was read but may not be what the writer meant, such
	// as a key that is not a key of an item.
	Warnings []string
}

// identify checks the id, or derives one.
func identify(located *Located) error {
	if located.ID == "" {
		if located.Input == nil {
			var keys []string
			for key := range textutil.JSONMembers(located.Metadata) {
				keys = append(keys, key)
			}
			return wrong(fieldID, "is missing, and so is an input or document_text to derive one from; other keys: %s", textutil.First(keys, 10))
		}
		id, err := DeriveID(located.Item)
		if err != nil {
			return wrong(fieldInput, "%v", err)
		}
		located.ID, located.DerivedID = id, true
	}
	if err := ValidID(located.ID); err != nil {
		return wrong(fieldID, "%v", err)
	}
	return nil
}

// MaxID is the longest id of an item, in characters: the limit of Langfuse.
const MaxID = 255

// ValidID says why an id cannot be used: it is empty, too long, or holds
// control characters or bytes that are not UTF-8.
func ValidID(id string) error {
	switch {
	case id == "":
		return errors.New("is empty")
	case !utf8.ValidString(id):
		return errors.New("is not valid UTF-8")
	case utf8.RuneCountInString(id) > MaxID:
		return fmt.Errorf("has %d characters, at most %d are allowed", utf8.RuneCountInString(id), MaxID)
	case strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }):
		return fmt.Errorf("%q holds control characters", id)
	}
	return nil
}

// DeriveID makes an id of the canonical form of the input alone, so that it
// depends neither on the order of a file nor on the gold: correcting the
// expected output updates the item instead of making another. Two items with
// equal inputs get equal ids.
func DeriveID(item Item) (string, error) {
	canonical, err := Canonical(item.Input)
	if err != nil {
		return "", err
	}
	return "item-" + hexSum(canonical)[:16], nil
}

// Decode reads one JSON value into nil, bool, string, json.Number, []any and
// map[string]any. Errors: not one JSON value, not valid UTF-8, or nested deeper
// than 10,000 levels.
func Decode(raw json.RawMessage) (any, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("is more than one JSON value")
	}
	return v, nil
}

// Lines yields the lines of a file that are not blank, with their numbers from 1, without a
// byte order mark and surrounding white space.
func Lines(text []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		n := 0
		for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))) {
			n++
			if line = bytes.TrimSpace(line); len(line) > 0 && !yield(n, line) {
				return
			}
		}
	}
}

// ReadObject returns the members of a JSON object in UTF-8. A duplicate key is an error,
// since one of its values would be lost silently.
func ReadObject(raw []byte) (values map[string]json.RawMessage, err error) {
	raw = bytes.TrimSpace(raw)
	switch err = json.Unmarshal(raw, new(json.RawMessage)); {
	case !utf8.Valid(raw):
		return nil, errors.New("it is not valid UTF-8: convert it first")
	case err != nil:
		return nil, err
	case raw[0] != '{':
		return nil, fmt.Errorf("found %s", textutil.Cut(string(raw), 60))
	}
	if key := RepeatedKey(raw); key != "" {
		return nil, fmt.Errorf("the key %q is given twice", key)
	}
	return values, json.Unmarshal(raw, &values)
}

// RepeatedKey returns a key that occurs twice in an object of valid JSON, such as
// "expected.weight", or "" if there is none: of two values only one would count.
func RepeatedKey(raw json.RawMessage) string {
	return textutil.Brief(repeatedIn(json.NewDecoder(bytes.NewReader(raw)), ""), 300)
}

// repeatedIn looks through the next value.
func repeatedIn(dec *json.Decoder, path string) (found string) {
	token, _ := dec.Token()
	if token != json.Delim('[') && token != json.Delim('{') {
		return ""
	}
	seen := map[string]bool{}
	for i := 0; dec.More() && found == ""; i++ {
		inner := fmt.Sprintf("%s[%d]", path, i)
		if token == json.Delim('{') {
			key, _ := dec.Token()
			inner = strings.TrimPrefix(fmt.Sprintf("%s.%s", path, key), ".")
		}
		if seen[inner] {
			return inner
		}
		seen[inner] = true
		found = repeatedIn(dec, inner)
	}
	_, _ = dec.Token() // the end
	return found
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Hash returns the sha256, in hex, of the canonical JSON of
// {"expected":…,"input":…}: what an item asks and what it counts as right. Its
// id and metadata are not part of it; an absent value counts as null.
func Hash(item Item) (string, error) {
	expected, err := Canonical(item.Expected)
	if err != nil {
		return "", fmt.Errorf("expected output of item %q: %w", item.ID, err)
	}
	input, err := Canonical(item.Input)
	if err != nil {
		return "", fmt.Errorf("input of item %q: %w", item.ID, err)
	}
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(`{"expected":`), expected, []byte(`,"input":`), input, []byte("}")} {
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// GoldHash identifies an expected output: the first 16 hex digits of the sha256 of its
// canonical JSON, or "" if there is none. What is not JSON is hashed as it is.
func GoldHash(expected json.RawMessage) string {
	canonical, err := Canonical(expected)
	if err != nil {
		canonical = expected
	}
	if len(canonical) == 0 || string(canonical) == "null" {
		return ""
	}
	return hexSum(canonical)[:16]
}

// Fingerprint identifies a whole dataset: the sha256 over the lines "id TAB hash LF", one
// per item, sorted by the bytes of the id. Two runs are comparable only on equal
// fingerprints.
//
// It takes the items one by one, already sorted, and stores none of them. The zero value is
// ready to use; not safe for concurrent use.
type Fingerprint struct {
	sum  hash.Hash // nil before the first
	last string
}

// Add takes the next item's id and Hash. It refuses an id that does not come
// after the one before: the fingerprint would depend on the order.
func (f *Fingerprint) Add(id, hash string) error {
	switch {
	case f.sum == nil:
		f.sum = sha256.New()
	case id == f.last:
		return fmt.Errorf("fingerprint: the id %q appears twice", id)
	case id < f.last:
		return fmt.Errorf("fingerprint: ids must be sorted, but %q came after %q", id, f.last)
	}
	f.last = id
	_, err := io.WriteString(f.sum, id+"\t"+hash+"\n")
	return err
}

// Sum returns the fingerprint of what was added so far, in hex. That of no
// items is the sha256 of nothing.
func (f *Fingerprint) Sum() string {
	if f.sum == nil {
		return hexSum(nil)
	}
	return hex.EncodeToString(f.sum.Sum(nil))
}
