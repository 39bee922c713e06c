package experiment

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// newOutcome returns an outcome with the identity of the unit and its start only.
func (u *Unit) newOutcome(started time.Time) outcome.Outcome {
	return outcome.Outcome{Item: u.ID, Seq: u.stored.Seq, Trial: u.Trial, Attempt: u.Attempt, Started: started.UTC()}
}

// outcomeOf makes the outcome of a unit from the result of its task. Whatever went wrong is
// part of the outcome. The error is only one that prevented judging and stops the run, see
// limit.StopsRun.
func outcomeOf(ctx context.Context, u *Unit, done Done) (outcome.Outcome, error) {
	o := u.newOutcome(done.Started)
	o.NothingExpected = u.scorer.nothingExpected
	o.Ended = o.Started.Add(done.Took)
	o.Latency = max(0, done.Took-outcome.WaitsOf(done.Calls).Sum())
	o.Calls, o.Warnings, o.Worker = done.Calls, done.Warnings, done.Worker
	for _, call := range done.Calls {
		o.Usage, o.Assumed = o.Usage.Add(call.Usage.Bounded()), o.Assumed.Add(call.Assumed.Bounded())
		if call.Cached {
			o.FromCache++
		}
	}
	o.CostUSD = totalCost(done.Calls)
	var notJSON error
	if len(done.Output) > 0 {
		o.Output, notJSON = textutil.CompactJSON(done.Output)
	}
	switch {
	case done.Err != nil:
		return withFailure(o, u.scorer.ItemScorer, outcome.FailureOf(done.Err, outcome.Provider)), nil
	case notJSON != nil: // before a judging model is asked
		invalid := outcome.Failure{Class: outcome.InvalidOutput, Message: "its output is not JSON: " + notJSON.Error()}
		return withFailure(o, u.scorer.ItemScorer, invalid), nil
	}
	return scoreOutcome(ctx, o, u.scorer.ItemScorer, done.Decoded)
}

// scoreOutcome judges the output of an outcome. The error is one that stops the run.
func scoreOutcome(ctx context.Context, o outcome.Outcome, scorer ItemScorer, decoded any) (outcome.Outcome, error) {
	scored, err := recoverPanic(func() (Scored, error) { return score(ctx, scorer, o.Output, decoded) })
	switch {
	case limit.StopsRun(err):
		return o, err
	case err != nil:
		return withFailure(o, scorer, outcome.FailureOf(err, outcome.Internal)), nil
	}
	if err := checkScores(scored.Scores); err != nil {
		invalid := outcome.Failure{Class: outcome.Internal, Message: "the scorer returned " + err.Error()}
		return withFailure(o, scorer, invalid), nil
	}
	o.Scores = append(slices.Clip(scored.Scores), errorScore(nil)) // never into memory that the scorer shares
	o.Groups, o.Counts, o.Explanation = scored.Groups, outcome.CountsOf(scored.Counts), scored.Explanation
	o.Causes = scored.Causes
	o.Calls, o.Judging = append(slices.Clip(o.Calls), scored.Calls...), outcome.JudgingOf(scored.Calls)
	for _, w := range scored.Warnings {
		if !slices.Contains(o.Warnings, w) {
			o.Warnings = append(slices.Clip(o.Warnings), w)
		}
	}
	return o, nil
}

// checkScores returns an error for scores that Langfuse and summaries could not tell apart or hold.
func checkScores(scores []outcome.Score) error {
	for i, s := range scores {
		switch {
		case s.Name == "" || s.Name == outcome.ErrorScore || !utf8.ValidString(s.Name):
			return fmt.Errorf("a score with the name %q, which it cannot have", s.Name)
		case slices.ContainsFunc(scores[:i], func(other outcome.Score) bool { return other.Name == s.Name }):
			return fmt.Errorf("the score %s twice", s.Name)
		case s.Boolean && s.Value != nil && *s.Value != 0 && *s.Value != 1:
			return fmt.Errorf("%g for %s, which is boolean: 0 or 1", *s.Value, s.Name)
		case s.Weight != nil && !(*s.Weight >= 0 && *s.Weight <= math.MaxFloat64):
			return fmt.Errorf("the weight %g for %s: a weight is at least 0", *s.Weight, s.Name)
		}
	}
	return nil
}

// replaceInvalid returns the failure in place of an outcome that a run file cannot hold. It
// keeps what was used.
func replaceInvalid(o outcome.Outcome, scorer ItemScorer, invalid error) outcome.Outcome {
	f := outcome.Failure{Class: outcome.Internal, Message: invalid.Error()}
	o.Output, o.Explanation, o.Calls = nil, nil, nil
	o.Groups, o.Causes, o.Counts = nil, nil, nil
	if !isCost(o.CostUSD) {
		o.CostUSD = nil
	}
	if j := o.Judging; j != nil && !isCost(j.CostUSD) {
		o.Judging = nil
	}
	return withFailure(o, scorer, f)
}

// isCost reports whether a cost is unknown or a finite number that is not negative.
func isCost(usd *float64) bool { return usd == nil || *usd >= 0 && *usd <= math.MaxFloat64 }

// recoverPanic turns a panic of f, or of the text of its error, into a failure of class internal
// that has the location.
func recoverPanic[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &outcome.Failure{Class: outcome.Internal, Message: fmt.Sprintf("panic: %v\n%s", p, panicLocation())}
		}
	}()
	if result, err = f(); err != nil {
		_ = err.Error() // here, where a panic can be recovered: the error may be a nil pointer
	}
	return result, err
}

// panicLocation returns the innermost three frames below the panic.
func panicLocation() string {
	_, stack, _ := strings.Cut(string(debug.Stack()), "\npanic(")
	lines := strings.Split(stack, "\n") // the first two are those of panic itself
	return strings.Join(lines[min(2, len(lines)):min(8, len(lines))], "\n")
}

func withFailure(o outcome.Outcome, scorer ItemScorer, f outcome.Failure) outcome.Outcome {
	o.Class, o.Failure, o.Scores = f.Class, &f, nil
	if scorer != nil {
		var err error
		if o.Scores, err = recoverPanic(func() ([]outcome.Score, error) { return undelivered(scorer) }); err != nil {
			o.Scores, o.Warnings = nil, append(slices.Clip(o.Warnings), "its scores are unknown: the scorer returned "+err.Error())
		}
	}
	o.Scores = append(o.Scores, errorScore(&f))
	return o
}

// undelivered returns the scores of a failed item. A value would count as that of a scored one.
func undelivered(scorer ItemScorer) ([]outcome.Score, error) {
	scores := slices.Clone(scorer.Undelivered())
	for i := range scores {
		scores[i].Value = nil
	}
	return scores, checkScores(scores)
}

// errorScore returns the score that is 1 for a failed item and 0 otherwise; its mean is the
// failure rate.
func errorScore(f *outcome.Failure) outcome.Score {
	s := outcome.Score{Name: outcome.ErrorScore, Boolean: true, Value: new(float64), Ratio: &outcome.Ratio{Den: 1}}
	if f != nil {
		*s.Value, s.Ratio.Num, s.Comment = 1, 1, string(f.Class)+": "+f.Message
	}
	return s
}

// totalCost sums the cost of the model calls. It is nil if the cost of one of them is unknown.
func totalCost(calls []outcome.Call) *float64 {
	var sum float64
	for _, call := range calls {
		if call.Kind != "generation" {
			continue
		}
		if call.CostUSD == nil {
			return nil
		}
		sum += *call.CostUSD
	}
	return &sum
}
