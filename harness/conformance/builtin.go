package conformance

import (
	"context"
	"slices"
	"strings"

	"extraction-experiment/evaluator"
	"extraction-experiment/extraction"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// Builtin makes a score of the project's own an Evaluator: the reference answer
// of a case is the expected extraction, the candidate answer the extracted one,
// both as JSON; for a score of grounding the question is the document, and nothing
// is expected. It is safe for concurrent use.
type Builtin struct {
	name  string
	rules *scoring.Scorer
}

// NewBuiltin returns the score of that name; the error names the nearest one and
// lists those that there are, and has exit code 64. What is not a score of one
// extraction, such as error, which is about a run, is none of them.
func NewBuiltin(name string, rules *scoring.Scorer) (Builtin, error) {
	names := append(cli.Each(scoring.Catalog(), func(d scoring.Definition) string { return d.Name }), harness.GroundedRate)
	if !slices.Contains(names, name) {
		return Builtin{}, cli.Usage("evaluator.scorer: %q is not a score of an extraction%s; there are: %s", name, textutil.Hint(name, names), strings.Join(names, ", "))
	}
	return Builtin{name, rules}, nil
}

// Command names the score.
func (b Builtin) Command() []string { return []string{"scorer", b.name} }

// Evaluate scores; a score that is undefined is a fault with its reason, since
// an evaluator must always answer.
func (b Builtin) Evaluate(_ context.Context, c evaluator.Case) (evaluator.Verdict, error) {
	fault := func(field string, err error) error {
		return &evaluator.Fault{Kind: evaluator.BadVerdict, Message: field + " is not an extraction: " + err.Error(), Err: err}
	}
	extracted, _, err := extraction.DecodeExtraction([]byte(c.Candidate))
	if err != nil {
		return evaluator.Verdict{}, fault("candidate_answer", err)
	}
	if b.name == harness.GroundedRate {
		return b.verdict([]outcome.Score{harness.Grounding(extraction.NewIndex(c.Question), extracted)})
	}
	expected, _, err := extraction.DecodeExtraction([]byte(c.Reference))
	if err != nil {
		return evaluator.Verdict{}, fault("expected_output", err)
	}
	return b.verdict(b.rules.Score(expected, extracted).Scores)
}

// verdict is that of the score that was asked for.
func (b Builtin) verdict(scores []outcome.Score) (evaluator.Verdict, error) {
	v := evaluator.Verdict{Hits: []string{}, Misses: []string{}}
	s, _ := outcome.Lookup(scores, b.name)
	if s.Value == nil {
		return v, &evaluator.Fault{Kind: evaluator.BadVerdict, Message: "undefined: " + s.Reason}
	}
	v.Score, v.Reasoning = *s.Value, s.Comment
	return v, nil
}
