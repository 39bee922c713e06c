package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"extraction-experiment/dataset"
	"extraction-experiment/evaluator"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Evaluator judges one case, within its own time limit. It must be safe for concurrent use.
type Evaluator interface {
	Evaluate(ctx context.Context, c evaluator.Case) (evaluator.Verdict, error)
}

// Evaluated is a score and the evaluator that gives it.
type Evaluated struct {
	// Name is the name of the score: small letters, digits and _, at most 63, beginning with a
	// letter.
	Name string
	// Criteria are passed to the evaluator; they may be empty.
	Criteria  string
	Evaluator Evaluator
}

// EvaluatedScorer is a Scorer that adds the scores of evaluators to those of another Scorer. It
// is safe for concurrent use if both are.
type EvaluatedScorer struct {
	base  Scorer
	extra []*scoreEvaluator
}

// scoreEvaluator is an Evaluated that records whether its evaluator ever responded.
type scoreEvaluator struct {
	Evaluated
	reached atomic.Bool
}

var scoreNamePattern = textutil.Pattern(`^[a-z][a-z0-9_]{0,62}$`)

// WithEvaluators returns a Scorer that adds the scores of external evaluators to those of base.
// taken are the names of the scores of base. The error joins every name that is invalid, taken
// or used twice.
//
// For each output, base judges first, and its failures count as always. Then every evaluator is
// asked in turn, with the document as question, the output as candidate answer and the expected
// output as reference answer. An evaluator fails an item only by a panic: without a valid answer,
// or with a score outside of 0 to 1, its score has no value but a reason. Such items count as 0
// beside the mean if Header.Scorer.Custom of the run names the score, which the caller sets. If
// an evaluator cannot be asked at its first call, or a budget is used up, the run stops. Package
// conformance tests whether an evaluator can be trusted.
func WithEvaluators(base Scorer, taken []string, extra ...Evaluated) (*EvaluatedScorer, error) {
	var problems textutil.Problems
	s := &EvaluatedScorer{base: base}
	seen := map[string]bool{outcome.ErrorScore: true}
	for _, name := range taken {
		seen[name] = true
	}
	for _, e := range extra {
		named := scoreNamePattern().MatchString(e.Name)
		problems.Add(!named, "scorers: the name %q is not of small letters, digits and _, beginning with a letter", e.Name)
		problems.Add(named && seen[e.Name], "scorers: the name %q is taken by another score", e.Name)
		problems.Add(e.Evaluator == nil, "scorers: %q has no evaluator", e.Name)
		seen[e.Name] = true
		s.extra = append(s.extra, &scoreEvaluator{Evaluated: e})
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return s, nil
}

// ForItem reads the expected output of an item; see Scorer.
func (s *EvaluatedScorer) ForItem(item dataset.Item) (ItemScorer, error) {
	base, err := s.base.ForItem(item)
	if err != nil {
		return nil, err
	}
	return evaluatedItemScorer{base, s.extra, item}, nil
}

type evaluatedItemScorer struct {
	base  ItemScorer
	extra []*scoreEvaluator
	item  dataset.Item
}

// Score judges without a time limit, except those of the evaluators.
func (s evaluatedItemScorer) Score(output json.RawMessage) (Scored, error) {
	return s.ScoreContext(context.Background(), output, nil)
}

// ScoreContext judges with base and then with the evaluators, to which it passes ctx.
func (s evaluatedItemScorer) ScoreContext(ctx context.Context, output json.RawMessage, decoded any) (Scored, error) {
	scored, err := score(ctx, s.base, output, decoded)
	if err != nil {
		return scored, err
	}
	c := caseOf(s.item, output)
	scored.Scores, scored.Calls = slices.Clip(scored.Scores), slices.Clip(scored.Calls)
	for _, e := range s.extra {
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

// NothingExpected is the NothingExpected of the base ItemScorer.
func (s evaluatedItemScorer) NothingExpected() bool { return nothingExpected(s.base) }

// Decoded is the Decoded of the base ItemScorer.
func (s evaluatedItemScorer) Decoded() any { return decoded(s.base) }

// Undelivered returns the scores of a failed item, including those of evaluators.
func (s evaluatedItemScorer) Undelivered() []outcome.Score {
	scores := slices.Clip(s.base.Undelivered())
	for _, e := range s.extra {
		scores = append(scores, outcome.Score{Name: e.Name, Reason: "the item failed"})
	}
	return scores
}

// EvaluatorUnavailableError is the error for an evaluator that cannot be asked at all. It stops the run,
// since the other items would be paid for without this score.
type EvaluatorUnavailableError struct {
	Score string
	Fault *evaluator.Fault
}

// Error names the score and the reason.
func (e *EvaluatorUnavailableError) Error() string {
	return fmt.Sprintf("the evaluator of %s cannot be asked: %v", e.Score, e.Fault)
}

// Unwrap returns the fault.
func (e *EvaluatorUnavailableError) Unwrap() error { return e.Fault }

// ExitCode returns 69: the evaluator cannot be reached, started or authorised.
func (*EvaluatorUnavailableError) ExitCode() int { return cli.ExitUnavailable }

// StopsRun marks errors that are not a failure of the item; see limit.StopsRun.
func (*EvaluatorUnavailableError) StopsRun() {}

// score asks the evaluator. call is the call of a judging model, or nil. The error is one that
// stops the run. A panic of the evaluator is a bug of this program, and the runner reports it.
func (e *scoreEvaluator) score(ctx context.Context, c evaluator.Case) (s outcome.Score, call *outcome.Call, err error) {
	s = outcome.Score{Name: e.Name}
	verdict, err := e.Evaluator.Evaluate(ctx, c)
	if err == nil && !(verdict.Score >= 0 && verdict.Score <= 1) {
		err = fmt.Errorf("%g is not a score from 0 to 1", verdict.Score)
	}
	if verdict.Call != nil {
		named := *verdict.Call // the evaluator may keep it
		named.Name, call = e.Name, &named
	}
	var fault *evaluator.Fault
	switch {
	case err == nil:
		e.reached.Store(true)
		s.Value, s.Comment = &verdict.Score, scoreComment(verdict)
		return s, call, nil
	case limit.StopsRun(err):
		return s, nil, err
	case errors.As(err, &fault) && fault.Unavailable() && !e.reached.Load():
		return s, nil, &EvaluatorUnavailableError{e.Name, fault}
	}
	e.reached.Store(true)
	s.Reason = "the evaluator gave no score: " + shorten(err.Error())
	return s, call, nil
}

// scoreComment returns the reasoning, with hits and misses.
func scoreComment(verdict evaluator.Verdict) string {
	if len(verdict.Hits)+len(verdict.Misses) == 0 {
		return shorten(verdict.Reasoning)
	}
	text := textutil.Counted(len(verdict.Hits), "hit") + ", " + textutil.Counted(len(verdict.Misses), "miss")
	if len(verdict.Misses) > 0 {
		text += ": " + strings.Join(verdict.Misses[:min(len(verdict.Misses), 10)], "; ")
	}
	if verdict.Reasoning != "" {
		text = shorten(verdict.Reasoning) + " (" + text + ")"
	}
	return shorten(text)
}

// shorten limits the length of text that is stored with every item.
func shorten(text string) string { return textutil.Brief(text, 500) }

// caseOf makes a case of an item. The question is the document's text if the input has one, or
// else the input itself.
func caseOf(item dataset.Item, output json.RawMessage) evaluator.Case {
	var input struct {
		Document string `json:"document_text"`
		Text     string `json:"text"`
	}
	_ = json.Unmarshal(item.Input, &input) // input of another form has no text
	return evaluator.Case{
		Question: cmp.Or(input.Document, input.Text, string(item.Input)), Candidate: string(output),
		Reference: string(item.Expected),
		Item:      &evaluator.Item{ID: item.ID, Input: item.Input, Expected: item.Expected, Extracted: output, Metadata: item.Metadata},
	}
}
