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

// Builtin is an Evaluator for a score of the scoring catalogue or harness/extraction. The
// reference answer of a case is the expected extraction, the candidate answer the extracted one,
// both as JSON. For the grounded rate, the question is the document, and nothing is expected. It
// is safe for concurrent use.
type Builtin struct {
	name   string
	scorer *scoring.Scorer
}

// NewBuiltin returns the evaluator for the score of that name. An unknown name, or a score that
// is not of one extraction, like error, is a usage error that suggests the nearest name and lists
// all.
func NewBuiltin(name string, scorer *scoring.Scorer) (Builtin, error) {
	names := append(cli.Each(scoring.Catalog(), func(d scoring.Definition) string { return d.Name }), scoring.GroundedRate)
	if !slices.Contains(names, name) {
		return Builtin{}, cli.Usage("evaluator.scorer: %q is not a score of an extraction%s; there are: %s", name, textutil.Hint(name, names), strings.Join(names, ", "))
	}
	return Builtin{name, scorer}, nil
}

// Command returns the name of the score.
func (b Builtin) Command() []string { return []string{"scorer", b.name} }

// Evaluate scores the case. An undefined score is a fault with its reason, since an evaluator
// must always answer.
func (b Builtin) Evaluate(_ context.Context, c evaluator.Case) (evaluator.Verdict, error) {
	fault := func(field string, err error) error {
		return &evaluator.Fault{Kind: evaluator.BadVerdict, Message: field + " is not an extraction: " + err.Error(), Err: err}
	}
	extracted, _, err := extraction.DecodeExtraction([]byte(c.Candidate))
	if err != nil {
		return evaluator.Verdict{}, fault("candidate_answer", err)
	}
	if b.name == scoring.GroundedRate {
		return b.verdict([]outcome.Score{harness.Grounding(extraction.NewIndex(c.Question), extracted)})
	}
	expected, _, err := extraction.DecodeExtraction([]byte(c.Reference))
	if err != nil {
		return evaluator.Verdict{}, fault("expected_output", err)
	}
	return b.verdict(b.scorer.Score(expected, extracted).Scores)
}

// verdict returns the score of this evaluator as a verdict.
func (b Builtin) verdict(scores []outcome.Score) (evaluator.Verdict, error) {
	v := evaluator.Verdict{Hits: []string{}, Misses: []string{}}
	s, _ := outcome.Lookup(scores, b.name)
	if s.Value == nil {
		return v, &evaluator.Fault{Kind: evaluator.BadVerdict, Message: "undefined: " + s.Reason}
	}
	v.Score, v.Reasoning = *s.Value, s.Comment
	return v, nil
}
