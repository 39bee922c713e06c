package evaluator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"extraction-experiment/outcome"
)

// Verdict is what an evaluator says of a case.
type Verdict struct {
	// Score is in [0,1].
	Score float64
	// Hits and Misses are what the answer does and does not do. In the second
	// generation they are the assertions that passed and that did not.
	Hits, Misses []string
	// Reasoning may be empty.
	Reasoning string
	// Generation of the protocol that the answer used, 1 or 2.
	Generation int

	// Usage and CostUSD are those of a model that judged; nil is unknown. Call is
	// what it was asked and answered, nil of others.
	Usage   outcome.Usage
	CostUSD *float64
	Call    *outcome.Call
}

// Grade is a verdict in one word.
type Grade string

// The grades.
const (
	Pass       Grade = "pass"
	Borderline Grade = "borderline"
	Fail       Grade = "fail"
)

// GradeOf returns Pass for a score of at least 0.8, Borderline for one of at
// least 0.6, else Fail.
func GradeOf(score float64) Grade {
	switch {
	case score >= 0.8:
		return Pass
	case score >= 0.6:
		return Borderline
	default:
		return Fail
	}
}

// The limits of an answer, beyond which it is refused.
const (
	maxListed = 10_000
	maxShown  = 200 // bytes of an answer in a message
)

// parseVerdict reads an answer: exactly one JSON object with a finite "score"
// from 0 to 1, and "hits" and "misses", two lists of texts, or "assertions", a
// list of {"text", "passed", "evidence"?}; "reasoning" is optional, other keys
// are ignored. The error is a *Fault of kind NotJSON or BadVerdict that says
// every field that is wrong.
func parseVerdict(raw []byte) (Verdict, error) {
	fields, err := oneObject(raw)
	if err != nil {
		return Verdict{}, &Fault{NotJSON, fmt.Sprintf("%v; it printed %q", err, excerpt(raw)), nil}
	}
	var v Verdict
	problems := []error{v.readScore(fields)}
	if given(fields["assertions"]) {
		problems = append(problems, v.readAssertions(fields))
	} else {
		problems = append(problems, v.readLists(fields))
	}
	if raw := fields["reasoning"]; given(raw) && json.Unmarshal(raw, &v.Reasoning) != nil {
		problems = append(problems, fmt.Errorf("reasoning: expected a text, got %s", excerpt(raw)))
	}
	if err := errors.Join(problems...); err != nil {
		return Verdict{}, &Fault{BadVerdict, inOneLine(problems), err}
	}
	return v, nil
}

func (v *Verdict) readScore(fields map[string]json.RawMessage) error {
	raw := fields["score"]
	if !given(raw) {
		return errors.New("score is missing")
	}
	if err := json.Unmarshal(raw, &v.Score); err != nil {
		return fmt.Errorf("score: expected a number, got %s", excerpt(raw))
	}
	if !(v.Score >= 0 && v.Score <= 1) {
		return fmt.Errorf("score: %s is not from 0 to 1", excerpt(raw))
	}
	return nil
}

// readLists reads the first generation.
func (v *Verdict) readLists(fields map[string]json.RawMessage) error {
	v.Generation = 1
	var problems []error
	for _, list := range []struct {
		key string
		to  *[]string
	}{{"hits", &v.Hits}, {"misses", &v.Misses}} {
		raw := fields[list.key]
		switch {
		case !given(raw):
			problems = append(problems, fmt.Errorf("%s is missing", list.key))
		case json.Unmarshal(raw, list.to) != nil || len(*list.to) > maxListed || hasNull(raw):
			problems = append(problems, fmt.Errorf("%s: expected a list of at most %d texts, got %s", list.key, maxListed, excerpt(raw)))
		}
	}
	return errors.Join(problems...)
}

// hasNull finds a null in a list of texts, which would read as an empty text.
func hasNull(raw json.RawMessage) bool {
	var values []*string
	return json.Unmarshal(raw, &values) == nil && slices.Contains(values, nil)
}

// readAssertions reads the second generation.
func (v *Verdict) readAssertions(fields map[string]json.RawMessage) error {
	v.Generation = 2
	var list []struct {
		Text   *string `json:"text"`
		Passed *bool   `json:"passed"`
	}
	raw := fields["assertions"]
	if json.Unmarshal(raw, &list) != nil || len(list) > maxListed {
		return fmt.Errorf("assertions: expected a list of at most %d objects with text and passed, got %s", maxListed, excerpt(raw))
	}
	v.Hits, v.Misses = []string{}, []string{}
	for i, a := range list {
		switch {
		case a.Text == nil || a.Passed == nil:
			return fmt.Errorf("assertions[%d]: text and passed must both be there", i)
		case *a.Passed:
			v.Hits = append(v.Hits, *a.Text)
		default:
			v.Misses = append(v.Misses, *a.Text)
		}
	}
	return nil
}
