package experiment

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// outcome is that of the unit, begun at that time, before anything is known.
func (u *Unit) outcome(began time.Time) outcome.Outcome {
	return outcome.Outcome{Item: u.ID, Seq: u.from.Seq, Trial: u.Trial, Attempt: u.Attempt, Started: began.UTC()}
}

// outcomeOf makes the outcome of a unit of what came of it. It never fails: whatever went
// wrong is the outcome.
//
// Its second result is an error that stops the run instead: one for which the output
// could not be judged, see limit.StopsRun.
func outcomeOf(ctx context.Context, u *Unit, done Done) (outcome.Outcome, error) {
	o := u.outcome(done.Started)
	o.NothingExpected = nothingExpected(u.judge)
	o.Ended = o.Started.Add(done.Took)
	o.Latency = max(0, done.Took-outcome.WaitsOf(done.Calls).Sum())
	o.Output, o.Calls, o.Warnings, o.Worker = done.Output, done.Calls, done.Warnings, done.Worker
	for _, call := range done.Calls {
		o.Usage, o.Assumed = o.Usage.Add(call.Usage), o.Assumed.Add(call.Assumed)
		if call.Cached {
			o.FromCache++
		}
	}
	o.CostUSD = cost(done.Calls)
	if done.Err != nil {
		return fail(o, u.judge, outcome.FailureOf(done.Err, outcome.Provider)), nil
	}
	return judged(ctx, o, u.judge, done.Decoded)
}

// judged scores the output of an outcome. The error is one that stops the run.
func judged(ctx context.Context, o outcome.Outcome, judge Judge, decoded any) (outcome.Outcome, error) {
	scored, err := guard(func() (Scored, error) { return score(ctx, judge, o.Output, decoded) })
	switch {
	case limit.StopsRun(err):
		return o, err
	case err != nil:
		return fail(o, judge, outcome.FailureOf(err, outcome.Internal)), nil
	}
	o.Scores = append(scored.Scores, errorScore(nil))
	o.Groups, o.Counts, o.Explanation = scored.Groups, outcome.CountsOf(scored.Counts), scored.Explanation
	o.Causes = scored.Causes
	o.Calls, o.Judging = append(o.Calls, scored.Calls...), outcome.JudgingOf(scored.Calls)
	for _, w := range scored.Warnings {
		if !slices.Contains(o.Warnings, w) {
			o.Warnings = append(o.Warnings, w)
		}
	}
	return o, nil
}

// guard turns a panic of f into a failure of class internal, with the place.
func guard[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &outcome.Failure{Class: outcome.Internal, Message: fmt.Sprintf("panic: %v\n%s", p, place())}
		}
	}()
	return f()
}

// place returns the innermost few frames below the panic.
func place() string {
	lines := strings.Split(string(debug.Stack()), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") && i+2 < len(lines) {
			lines = lines[i+2:]
			break
		}
	}
	return strings.Join(lines[:min(len(lines), 6)], "\n")
}

func fail(o outcome.Outcome, judge Judge, f outcome.Failure) outcome.Outcome {
	o.Class, o.Failure = f.Class, &f
	if judge != nil {
		o.Scores = judge.Undelivered()
	}
	o.Scores = append(o.Scores, errorScore(&f))
	return o
}

// errorScore says whether the item failed; its mean is the failure rate.
func errorScore(f *outcome.Failure) outcome.Score {
	s := outcome.Score{Name: outcome.ErrorScore, Boolean: true, Value: new(float64), Ratio: &outcome.Ratio{Den: 1}}
	if f != nil {
		*s.Value, s.Ratio.Num, s.Comment = 1, 1, string(f.Class)+": "+f.Message
	}
	return s
}

// cost sums what the model calls cost; it is unknown as soon as one of them is.
func cost(calls []outcome.Call) *float64 {
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
