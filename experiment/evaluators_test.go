package experiment_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"extraction-experiment/dataset"
	"extraction-experiment/evaluator"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// base is a Scorer with one score.
type base struct{ err error }

func (b base) ForItem(dataset.Item) (experiment.ItemScorer, error) { return b, nil }

func (b base) Score(json.RawMessage) (experiment.Scored, error) {
	one := 1.0
	return experiment.Scored{Scores: []outcome.Score{{Name: "own", Value: &one}}, Warnings: []string{"w"}}, b.err
}

func (base) Undelivered() []outcome.Score { return []outcome.Score{{Name: "own", Reason: "failed"}} }

type evaluatorFunc func(context.Context, evaluator.Case) (evaluator.Verdict, error)

func (j evaluatorFunc) Evaluate(ctx context.Context, c evaluator.Case) (evaluator.Verdict, error) {
	return j(ctx, c)
}

var item = dataset.Item{ID: "a", Input: json.RawMessage(`{"document_text":"Ann met Bob."}`), Expected: json.RawMessage(`{"entities":[]}`)}

func TestScorer(t *testing.T) {
	var seen evaluator.Case
	good := evaluatorFunc(func(_ context.Context, c evaluator.Case) (evaluator.Verdict, error) {
		seen = c
		return evaluator.Verdict{Score: 0.25, Hits: []string{"h"}, Misses: []string{"m\nn"}}, nil
	})
	bad := evaluatorFunc(func(context.Context, evaluator.Case) (evaluator.Verdict, error) {
		return evaluator.Verdict{}, &evaluator.Fault{Kind: evaluator.TimedOut, Message: "no answer within 1s"}
	})
	s, err := experiment.WithEvaluators(base{}, []string{"own"}, experiment.Evaluated{Name: "good", Criteria: "be kind", Evaluator: good}, experiment.Evaluated{Name: "bad", Evaluator: bad})
	noError(t, err)
	j, err := s.ForItem(item)
	noError(t, err)
	scored, err := j.(experiment.ContextItemScorer).ScoreContext(t.Context(), json.RawMessage(`{"entities":[{"name":"Ann"}]}`), nil)
	if err != nil {
		t.Fatalf("a failing evaluator failed the item: %v", err)
	}
	if own, ok := outcome.Lookup(scored.Scores, "own"); !ok || *own.Value != 1 || scored.Warnings[0] != "w" {
		t.Errorf("the harness's own judgement is %+v", scored)
	}
	if g, _ := outcome.Lookup(scored.Scores, "good"); g.Value == nil || *g.Value != 0.25 || g.Comment != "1 hit, 1 miss: m n" {
		t.Errorf("good is %+v", g)
	}
	if b, ok := outcome.Lookup(scored.Scores, "bad"); !ok || b.Value != nil || b.Reason != "the evaluator gave no score: timeout: no answer within 1s" {
		t.Errorf("bad is %+v", b)
	}
	if seen.Question != "Ann met Bob." || seen.Criteria != "be kind" || seen.Candidate != `{"entities":[{"name":"Ann"}]}` || seen.Reference != `{"entities":[]}` || seen.Item.ID != "a" {
		t.Errorf("the evaluator saw %+v", seen)
	}
	if left := j.Undelivered(); len(left) != 3 || left[2].Name != "bad" || left[2].Value != nil || left[2].Reason == "" {
		t.Errorf("undelivered: %+v", left)
	}
}

// TestScorer_outOfRange checks that a score that no evaluator may give is none, as if it came from
// a program, and does not fail the item.
func TestScorer_outOfRange(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), -0.1, 7} {
		wrong := evaluatorFunc(func(context.Context, evaluator.Case) (evaluator.Verdict, error) {
			return evaluator.Verdict{Score: value}, nil
		})
		s, err := experiment.WithEvaluators(base{}, nil, experiment.Evaluated{Name: "wrong", Evaluator: wrong})
		noError(t, err)
		j, err := s.ForItem(item)
		noError(t, err)
		scored, err := j.Score(json.RawMessage(`{}`))
		if w, _ := outcome.Lookup(scored.Scores, "wrong"); err != nil || w.Value != nil || !strings.Contains(w.Reason, "not a score from 0 to 1") {
			t.Errorf("%g: %v, %+v", value, err, w)
		}
	}
}

// TestScorer_sharedCall checks that the call of an evaluator that remembers its verdicts is copied: items
// that are judged at once, and scores of one evaluator, share it.
func TestScorer_sharedCall(t *testing.T) {
	kept := evaluator.Verdict{Score: 1, Call: &outcome.Call{Kind: outcome.JudgingKind}}
	remembers := evaluatorFunc(func(context.Context, evaluator.Case) (evaluator.Verdict, error) { return kept, nil })
	s, err := experiment.WithEvaluators(base{}, nil, experiment.Evaluated{Name: "kind", Evaluator: remembers}, experiment.Evaluated{Name: "short", Evaluator: remembers})
	noError(t, err)
	j, err := s.ForItem(item)
	noError(t, err)
	scored, err := j.Score(json.RawMessage(`{}`))
	if err != nil || len(scored.Calls) != 2 || scored.Calls[0].Name != "kind" || scored.Calls[1].Name != "short" || kept.Call.Name != "" {
		t.Errorf("%v, %+v, kept %+v", err, scored.Calls, kept.Call)
	}
}

func TestScorer_baseFails(t *testing.T) {
	asked := false
	s, err := experiment.WithEvaluators(base{errors.New("no extraction")}, nil, experiment.Evaluated{Name: "x", Evaluator: evaluatorFunc(func(context.Context, evaluator.Case) (evaluator.Verdict, error) {
		asked = true
		return evaluator.Verdict{}, nil
	})})
	noError(t, err)
	j, err := s.ForItem(item)
	noError(t, err)
	if _, err := j.Score(nil); err == nil || asked {
		t.Errorf("%v, asked %v: what is not an output is not judged by others", err, asked)
	}
}

func TestNew_names(t *testing.T) {
	ok := evaluatorFunc(nil)
	_, err := experiment.WithEvaluators(base{}, []string{"entity_f1"},
		experiment.Evaluated{Name: "entity_f1", Evaluator: ok}, experiment.Evaluated{Name: "error", Evaluator: ok}, experiment.Evaluated{Name: "My judge", Evaluator: ok},
		experiment.Evaluated{Name: "twice", Evaluator: ok}, experiment.Evaluated{Name: "twice", Evaluator: ok}, experiment.Evaluated{Name: "nobody"})
	for _, want := range []string{`"entity_f1" is taken`, `"error" is taken`, `"My judge" is not of small letters`, `"twice" is taken`, `"nobody" has no evaluator`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestScorer_absent checks that an evaluator that cannot be reached at its first call stops the
// run, and that one that fails later leaves its score without a value.
func TestScorer_absent(t *testing.T) {
	answers := []error{nil, &evaluator.Fault{Kind: evaluator.Unreachable, Message: "gone"}}
	cost := 0.5
	flaky := evaluatorFunc(func(context.Context, evaluator.Case) (evaluator.Verdict, error) {
		err := answers[0]
		answers = answers[1:]
		return evaluator.Verdict{Score: 1, Reasoning: "It is right.", Hits: []string{"h", "g"}, Call: &outcome.Call{Kind: outcome.JudgingKind, CostUSD: &cost}}, err
	})
	ask := func() (experiment.Scored, error) {
		s, err := experiment.WithEvaluators(base{}, nil, experiment.Evaluated{Name: "flaky", Evaluator: flaky})
		noError(t, err)
		j, err := s.ForItem(item)
		noError(t, err)
		var scored experiment.Scored
		for len(answers) > 0 && err == nil {
			scored, err = j.(experiment.ContextItemScorer).ScoreContext(t.Context(), json.RawMessage(`{}`), nil)
			if f, _ := outcome.Lookup(scored.Scores, "flaky"); f.Value != nil && f.Comment != "It is right. (2 hits, 0 misses)" {
				t.Errorf("%+v", f)
			}
		}
		return scored, err
	}
	scored, err := ask()
	f, _ := outcome.Lookup(scored.Scores, "flaky")
	if err != nil || f.Value != nil || f.Reason != "the evaluator gave no score: unreachable: gone" {
		t.Errorf("%+v, %v", f, err)
	}
	if len(scored.Calls) != 1 || scored.Calls[0].Name != "flaky" {
		t.Errorf("the calls are %+v", scored.Calls)
	}
	answers = []error{&evaluator.Fault{Kind: evaluator.NotStarted, Message: "no such program"}}
	_, err = ask()
	var absent *experiment.EvaluatorUnavailableError
	if !errors.As(err, &absent) || absent.ExitCode() != 69 || !limit.StopsRun(err) {
		t.Errorf("never there: %v", err)
	}
	answers = []error{&pipeline.BudgetError{}}
	if _, err = ask(); !limit.StopsRun(err) {
		t.Errorf("a budget that is used up: %v", err)
	}
}
