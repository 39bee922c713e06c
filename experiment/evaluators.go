package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"extraction-experiment/dataset"
	"extraction-experiment/evaluator"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Evaluator judges one case, within its own time limit. It is called by many goroutines at
// once.
type Evaluator interface {
	Evaluate(ctx context.Context, c evaluator.Case) (evaluator.Verdict, error)
}

// Evaluated is a score that an evaluator gives.
type Evaluated struct {
	// Name of the score: small letters, digits and _, beginning with a letter.
	Name string
	// Criteria are passed to the evaluator; they may be empty.
	Criteria  string
	Evaluator Evaluator
}

// EvaluatedScorer is the scorer of a harness with the scores of evaluators added. It is
// safe for concurrent use if they are.
type EvaluatedScorer struct {
	base  Scorer
	extra []*asked
}

// asked is an Evaluated of which it is known whether it was ever there.
type asked struct {
	Evaluated
	there atomic.Bool
}

// scoreNames is how scores may be called; Langfuse shows them as they are.
var scoreNames = textutil.Pattern(`^[a-z][a-z0-9_]{0,62}$`)

// WithEvaluators adds the scores of external evaluators to those of base. For each output,
// base judges first, and its failures count as always; then every evaluator is asked in
// turn, with the document as question, the output as candidate answer and the expected
// output as reference answer. An evaluator never fails an item: without a valid answer, its
// score has no value, with the reason. An evaluator that cannot be asked at its first call
// stops the run, and so does a budget that is used up. Package conformance tests whether an
// evaluator can be trusted. Taken are the names of the scores of base. The error joins
// every name that is invalid, taken or used twice.
func WithEvaluators(base Scorer, taken []string, extra ...Evaluated) (*EvaluatedScorer, error) {
	var problems []error
	seen := map[string]bool{outcome.ErrorScore: true}
	for _, name := range taken {
		seen[name] = true
	}
	for _, e := range extra {
		switch {
		case !scoreNames().MatchString(e.Name):
			problems = append(problems, fmt.Errorf("scorers: the name %q is not of small letters, digits and _, beginning with a letter", e.Name))
		case seen[e.Name]:
			problems = append(problems, fmt.Errorf("scorers: the name %q is taken by another score", e.Name))
		case e.Evaluator == nil:
			problems = append(problems, fmt.Errorf("scorers: %q has no evaluator", e.Name))
		}
		seen[e.Name] = true
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	s := &EvaluatedScorer{base: base}
	for _, e := range extra {
		s.extra = append(s.extra, &asked{Evaluated: e})
	}
	return s, nil
}

// Judge reads what is expected of an item; see Scorer.
func (s *EvaluatedScorer) Judge(item dataset.Item) (Judge, error) {
	base, err := s.base.Judge(item)
	if err != nil {
		return nil, err
	}
	return judge{base, s.extra, item}, nil
}

type judge struct {
	base  Judge
	extra []*asked
	item  dataset.Item
}

// Score judges without a limit but the evaluators' own.
func (j judge) Score(output json.RawMessage) (Scored, error) {
	return j.ScoreContext(context.Background(), output, nil)
}

// ScoreContext judges; the evaluators are not asked any more when ctx is done.
func (j judge) ScoreContext(ctx context.Context, output json.RawMessage, decoded any) (Scored, error) {
	scored, err := score(ctx, j.base, output, decoded)
	if err != nil {
		return scored, err
	}
	c := caseOf(j.item, output)
	for _, e := range j.extra {
		c.Criteria = e.Criteria
		score, call, err := e.score(ctx, c)
		if err != nil {
			return scored, err
		}
		scored.Scores = append(scored.Scores, score)
		if call != nil {
			scored.Calls = append(scored.Calls, *call)
		}
	}
	return scored, nil
}

// NothingExpected is that of the scorer to which scores are added.
func (j judge) NothingExpected() bool { return nothingExpected(j.base) }

// Decoded is that of the scorer to which scores are added.
func (j judge) Decoded() any { return decoded(j.base) }

// Undelivered returns the scores of a failed item, those of evaluators included.
func (j judge) Undelivered() []outcome.Score {
	scores := j.base.Undelivered()
	for _, e := range j.extra {
		scores = append(scores, outcome.Score{Name: e.Name, Reason: "the item failed"})
	}
	return scores
}

// AbsentError says that an evaluator cannot be asked at all: every item would be paid for
// without its score.
type AbsentError struct {
	Score string
	Fault *evaluator.Fault
}

// Error names the score and the reason.
func (e *AbsentError) Error() string {
	return fmt.Sprintf("the evaluator of %s cannot be asked: %v", e.Score, e.Fault)
}

// Unwrap returns the fault.
func (e *AbsentError) Unwrap() error { return e.Fault }

// ExitCode is 69: it cannot be reached, started or authorised.
func (*AbsentError) ExitCode() int { return 69 }

// StopsRun marks errors that are not a failure of the item; see limit.StopsRun.
func (*AbsentError) StopsRun() {}

// score asks the evaluator; call is that of a judging model. The error is one
// that stops the run. A panic in the evaluator would be one of ours, and is left
// to the runner.
func (e *asked) score(ctx context.Context, c evaluator.Case) (s outcome.Score, call *outcome.Call, err error) {
	s = outcome.Score{Name: e.Name}
	v, err := e.Evaluator.Evaluate(ctx, c)
	if call = v.Call; call != nil {
		call.Name = e.Name
	}
	var fault *evaluator.Fault
	switch {
	case err == nil:
		e.there.Store(true)
		s.Value, s.Comment = &v.Score, comment(v)
		return s, call, nil
	case limit.StopsRun(err):
		return s, nil, err
	case errors.As(err, &fault) && fault.Unavailable() && !e.there.Load():
		return s, nil, &AbsentError{e.Name, fault}
	}
	e.there.Store(true)
	s.Reason = "the evaluator gave no score: " + cut(err.Error())
	return s, call, nil
}

// comment is the reasoning, with the hits and misses.
func comment(v evaluator.Verdict) string {
	if len(v.Hits)+len(v.Misses) == 0 {
		return cut(v.Reasoning)
	}
	text := textutil.Counted(len(v.Hits), "hit") + ", " + textutil.Counted(len(v.Misses), "miss")
	if len(v.Misses) > 0 {
		text += ": " + strings.Join(v.Misses[:min(len(v.Misses), 10)], "; ")
	}
	if v.Reasoning != "" {
		text = cut(v.Reasoning) + " (" + text + ")"
	}
	return cut(text)
}

// cut bounds text that is stored with every item.
func cut(text string) string { return textutil.Brief(text, 500) }

// caseOf makes a case of an item: the question is the document's text where the
// input has one, else the input itself.
func caseOf(item dataset.Item, output json.RawMessage) evaluator.Case {
	var in struct {
		Document string `json:"document_text"`
		Text     string `json:"text"`
	}
	_ = json.Unmarshal(item.Input, &in) // what has another form has no text
	return evaluator.Case{
		Question: cmp.Or(in.Document, in.Text, string(item.Input)), Candidate: string(output), Reference: string(item.Expected),
		Item: &evaluator.Item{ID: item.ID, Input: item.Input, Expected: item.Expected, Extracted: output, Metadata: item.Metadata},
	}
}
