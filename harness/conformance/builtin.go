package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/evaluator"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/nearest"
	"extraction-experiment/scoring"
)

// Builtin makes a score of the project's own catalogue an Evaluator: the
// reference answer of a case is the expected extraction, the candidate answer
// the extracted one, both as JSON. It is safe for concurrent use.
type Builtin struct {
	name  string
	rules *scoring.Scorer
}

// NewBuiltin returns the score of that name; the error names the nearest one and
// lists those that there are, and has exit code 64. Scores that need more than
// two extractions are none of them: those of grounding need a document, error a
// run.
func NewBuiltin(name string, rules *scoring.Scorer) (Builtin, error) {
	var names []string
	for _, d := range scoring.Catalog() {
		names = append(names, d.Name)
	}
	if !slices.Contains(names, name) {
		return Builtin{}, &FileError{fmt.Errorf("evaluator.scorer: %q is no score of two extractions%s; there are: %s", name, nearest.Hint(name, names), strings.Join(names, ", "))}
	}
	return Builtin{name, rules}, nil
}

// Command names the score.
func (b Builtin) Command() []string { return []string{"scorer", b.name} }

// Evaluate scores; a score that is undefined is a fault with its reason, since
// an evaluator must always answer.
func (b Builtin) Evaluate(ctx context.Context, c evaluator.Case) (evaluator.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return evaluator.Verdict{}, err
	}
	expected, _, err := extraction.DecodeExtraction([]byte(c.Reference))
	if err != nil {
		return evaluator.Verdict{}, &evaluator.Fault{Kind: evaluator.BadVerdict, Message: "expected_output is no extraction: " + err.Error(), Err: err}
	}
	extracted, _, err := extraction.DecodeExtraction([]byte(c.Candidate))
	if err != nil {
		return evaluator.Verdict{}, &evaluator.Fault{Kind: evaluator.BadVerdict, Message: "candidate_answer is no extraction: " + err.Error(), Err: err}
	}
	result := b.rules.Score(expected, extracted)
	v := evaluator.Verdict{Hits: []string{}, Misses: []string{}, Generation: 1}
	for _, s := range result.Scores {
		if s.Name != b.name {
			continue
		}
		if s.Value == nil {
			return v, &evaluator.Fault{Kind: evaluator.BadVerdict, Message: "undefined: " + s.Reason}
		}
		v.Score, v.Reasoning = *s.Value, s.Comment
	}
	return v, nil
}
