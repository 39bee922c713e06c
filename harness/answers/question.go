package answers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/nearest"
)

// Question is one question with what its answer is judged by.
type Question struct {
	ID       string
	Question string
	Expected
}

// Expected is what an answer is judged by: the expected output of an item.
type Expected struct {
	// MustInclude are terms, each of which must be in the answer.
	MustInclude []string `json:"must_include,omitempty"`
	// MustIncludeAny are groups of equivalent terms: one of each must be there.
	MustIncludeAny []Group `json:"must_include_any,omitempty"`
	// MustNotInclude are terms, none of which may be there.
	MustNotInclude []string `json:"must_not_include,omitempty"`
	// RequireCitation asks for the page: "стр. N".
	RequireCitation bool `json:"require_citation,omitempty"`
	// Weight is at least 0; nil is 1.
	Weight *float64 `json:"weight,omitempty"`
}

// Importance returns the weight: 1 where none is given.
func (e Expected) Importance() float64 {
	if e.Weight == nil {
		return 1
	}
	return *e.Weight
}

// Group is a list of equivalent terms. In JSON it may be a single string.
type Group []string

// UnmarshalJSON reads a string or a list of strings.
func (g *Group) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil && !bytes.Equal(raw, []byte("null")) {
		*g = Group{one}
		return nil
	}
	var many texts
	if json.Unmarshal(raw, &many) != nil || many == nil {
		return errors.New("is neither a text nor a list of texts")
	}
	*g = Group(many)
	return nil
}

// Item returns the question as an item of a dataset.
func (q Question) Item() (dataset.Item, error) {
	input, err := json.Marshal(map[string]string{"question": q.Question})
	if err != nil {
		return dataset.Item{}, err
	}
	expected, err := json.Marshal(q.Expected)
	return dataset.Item{ID: q.ID, Input: input, Expected: expected}, err
}

// DecodeInput reads the question of an item: an object with "question", or a
// text by itself.
func DecodeInput(raw json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		var object struct {
			Question *string `json:"question"`
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			return "", errors.New(`the input is neither a question nor an object with a text "question"`)
		}
		if object.Question == nil {
			return "", errors.New(`the input has no "question"`)
		}
		text = *object.Question
	}
	if strings.TrimSpace(text) == "" {
		return "", errors.New("the question is empty")
	}
	return text, nil
}

// DecodeExpected reads the expected output of an item; absent is no demands.
func DecodeExpected(raw json.RawMessage) (Expected, error) {
	var e Expected
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return e, nil
	}
	values, err := readObject(raw)
	if err != nil {
		return e, fmt.Errorf("the expected output is no object with must_include and the like: %w", err)
	}
	var problems []error
	for _, p := range e.read(values) {
		problems = append(problems, p)
	}
	return e, errors.Join(problems...)
}

// fieldError is a problem with one field.
type fieldError struct{ field, msg string }

func (e *fieldError) Error() string { return e.field + ": " + e.msg }

// read takes the fields out of an object; null is absent. Keys that are neither
// fields nor among the others are problems: a demand would be lost without a word.
func (e *Expected) read(values map[string]json.RawMessage, others ...string) []*fieldError {
	var problems []*fieldError
	known := append([]string{"must_include", "must_include_any", "must_not_include", "require_citation", "weight"}, others...)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, key) {
			problems = append(problems, &fieldError{excerpt(key, 60), "is no key of a question" + nearest.Hint(key, known)})
		}
	}
	take := func(field string, to any, want string) {
		raw, ok := values[field]
		if !ok || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
			return
		}
		if err := json.Unmarshal(raw, to); err != nil {
			problems = append(problems, &fieldError{field, fmt.Sprintf("expected %s, found %s", want, excerpt(string(raw), 60))})
		}
	}
	take("must_include", (*texts)(&e.MustInclude), "a list of texts")
	take("must_include_any", &e.MustIncludeAny, "a list of texts and of lists of texts")
	take("must_not_include", (*texts)(&e.MustNotInclude), "a list of texts")
	take("require_citation", &e.RequireCitation, "true or false")
	take("weight", &e.Weight, "a number")
	if w := e.Importance(); math.IsNaN(w) || w < 0 || w > MaxWeight {
		problems = append(problems, &fieldError{"weight", fmt.Sprintf("%g is not a number from 0 to %g", w, float64(MaxWeight))})
	}
	return problems
}

// Odd says what is allowed and probably a mistake.
func (e Expected) Odd() []string {
	var list []string
	if e.Importance() == 0 {
		list = append(list, "the weight is 0: the question counts for nothing in weighted_score")
	}
	for _, term := range slices.Concat(e.MustInclude, e.MustNotInclude) {
		if Normalise(term) == "" {
			list = append(list, "an empty term is never found")
		}
	}
	for _, group := range e.MustIncludeAny {
		if !slices.ContainsFunc(group, func(term string) bool { return Normalise(term) != "" }) {
			list = append(list, "a group of must_include_any has no term: it is never hit")
		}
	}
	return list
}

// MaxWeight bounds the weight of a question, so that sums of them stay exact
// enough.
const MaxWeight = 1e6

// excerpt returns the beginning of a text, cut at a rune's edge.
func excerpt(text string, runes int) string {
	n := 0
	for i := range text {
		if n == runes {
			return text[:i] + "…"
		}
		n++
	}
	return text
}
