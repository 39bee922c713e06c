// Package dataset reads and writes evaluation items as JSONL, JSON and CSV, computes their
// canonical form and fingerprint, and filters them.
//
// Input, expected output and metadata are arbitrary JSON for this package; their meaning
// depends on the harness.
//
// A command uses it in this order; experiment.Fingerprint does the last two steps for a whole file:
//
//	for located, err := range dataset.ReadFile(ctx, "items.jsonl") { … } // see Read for the formats
//	filter, err := dataset.ParseFilter("metadata.difficulty=hard")      // selects items
//	hash, err := dataset.Hash(located.Item)                             // identifies an item
//	err = fingerprint.Add(located.ID, hash)                             // identifies all, sorted by id
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
	"sync"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// Item is one case of a dataset.
type Item struct {
	ID       string          `json:"id"`
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expectedOutput,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// SourceTraceID and SourceObservationID identify the production trace that the item was
	// made from.
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
	// DerivedID means that the file has no id for the item; see DeriveID.
	DerivedID bool
	// Warnings describe what was read but may be a mistake, like a key that items do not
	// have.
	Warnings []string
}

// checkID checks the id, or derives one if there is none.
func checkID(located *Located) error {
	if located.ID == "" {
		if located.Input == nil {
			var keys []string
			for key := range textutil.JSONMembers(located.Metadata) {
				keys = append(keys, key)
			}
			return problem(fieldID, "is missing, and so is an input or document_text to derive one from; other keys: %s",
				textutil.First(keys, 10))
		}
		id, err := DeriveID(located.Item)
		if err != nil {
			return problem(fieldInput, "%v", err)
		}
		located.ID, located.DerivedID = id, true
	}
	if err := ValidID(located.ID); err != nil {
		return problem(fieldID, "%v", err)
	}
	return nil
}

// MaxID is the maximum length of an id in characters, which is the limit of Langfuse.
const MaxID = 255

// ValidID returns an error if the id is empty, longer than MaxID, or contains control
// characters or invalid UTF-8.
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

// DeriveID derives an id from the canonical form of the input alone. It depends neither on the
// order of a file nor on the expected output, so that correcting the expected output updates
// the item instead of creating another. Items with equal inputs get equal ids. The error is
// that of Canonical.
func DeriveID(item Item) (string, error) {
	canonical, err := Canonical(item.Input)
	if err != nil {
		return "", err
	}
	return "item-" + hexSum(canonical)[:16], nil
}

// Decode decodes one JSON value to nil, bool, string, json.Number, []any or map[string]any. It
// fails if raw is not exactly one JSON value, is not valid UTF-8, or is nested deeper than
// 10,000 levels.
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

// Lines yields the lines that are not blank, with their numbers from 1, without byte order mark
// and surrounding white space.
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

// ReadObject returns the members of a JSON object in UTF-8. A repeated key at any depth is an
// error, since one of its values would be lost silently.
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
	if key := findRepeated(json.NewDecoder(bytes.NewReader(raw)), ""); key != "" {
		return nil, fmt.Errorf("the key %q is given twice", textutil.Brief(key, 300))
	}
	return values, json.Unmarshal(raw, &values)
}

// findRepeated returns the path of a key that occurs twice in an object of the next value, like
// "expected.weight", or "" if there is none.
func findRepeated(dec *json.Decoder, path string) (repeated string) {
	token, _ := dec.Token()
	if token != json.Delim('[') && token != json.Delim('{') {
		return ""
	}
	seen := map[string]bool{}
	for i := 0; dec.More() && repeated == ""; i++ {
		key := fmt.Sprintf("%s[%d]", path, i)
		if token == json.Delim('{') {
			name, _ := dec.Token()
			key = strings.TrimPrefix(fmt.Sprintf("%s.%s", path, name), ".")
		}
		if seen[key] {
			return key
		}
		seen[key] = true
		repeated = findRepeated(dec, key)
	}
	_, _ = dec.Token() // the end
	return repeated
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Hash returns the SHA-256, in hex, of the canonical JSON of {"expected":…,"input":…}. It does
// not depend on id and metadata. An absent value counts as null.
func Hash(item Item) (string, error) { return new(canonicalWriter).hash(item) }

// Hasher is Hash for many items. A value that one item has in common with the one before, such as
// schemas, is not read again. The zero value is ready to use, and safe for concurrent use.
type Hasher struct{ writers sync.Pool }

// Hash is the function Hash.
func (h *Hasher) Hash(item Item) (string, error) {
	if len(item.Expected)+len(item.Input) > maxShared {
		return Hash(item)
	}
	w, ok := h.writers.Get().(*canonicalWriter)
	if !ok {
		w = &canonicalWriter{shared: map[string]sharedValue{}}
	}
	defer h.writers.Put(w)
	return w.hash(item)
}

func (w *canonicalWriter) hash(item Item) (string, error) {
	sum := sha256.New() // without a copy of a long document
	for _, part := range []struct {
		name, before string
		raw          json.RawMessage
	}{{"expected output", `{"expected":`, item.Expected}, {"input", `,"input":`, item.Input}} {
		canonical, err := w.write(part.raw)
		if err != nil {
			return "", fmt.Errorf("%s of item %q: %w", part.name, item.ID, err)
		}
		sum.Write([]byte(part.before))
		sum.Write(canonical)
	}
	sum.Write([]byte("}"))
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// GoldHash returns the first 16 hex digits of the SHA-256 of the canonical JSON of an expected
// output, or "" if it is absent or null. A value that is not JSON is hashed as it is.
func GoldHash(expected json.RawMessage) string {
	canonical, err := Canonical(expected)
	if err != nil {
		canonical = expected
	}
	if textutil.AbsentJSON(canonical) {
		return ""
	}
	return hexSum(canonical)[:16]
}

// Fingerprint computes the fingerprint of a dataset: the SHA-256 over the lines "id TAB hash
// LF", one for each item, sorted by the bytes of the id. Two runs are comparable only if their
// fingerprints are equal.
//
// Add takes the items one by one, in that order; they are not stored. The zero value is ready
// to use. A Fingerprint is not safe for concurrent use.
type Fingerprint struct {
	sum  hash.Hash // nil before the first item
	last string
}

// Add adds the id and Hash of the next item. It returns an error, and adds nothing, if the id
// is not greater than the one before, since the fingerprint would depend on the order.
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

// Sum returns the fingerprint of the items so far, in hex. Without items it is the SHA-256 of
// no bytes.
func (f *Fingerprint) Sum() string {
	if f.sum == nil {
		return hexSum(nil)
	}
	return hex.EncodeToString(f.sum.Sum(nil))
}
