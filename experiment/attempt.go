package experiment

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
)

// attempt makes the outcome of one item. It never fails: whatever goes wrong
// is the outcome.
//
// Its second result is an error that stops the run instead: one for which the
// task could not be tried, or the output not be judged, see limit.StopsRun.
func (r *runner) attempt(ctx context.Context, item unit, trial int) (outcome.Outcome, error) {
	o := outcome.Outcome{Item: item.ID, Seq: item.Seq, Trial: trial, Attempt: item.attempt, Started: r.cfg.Now().UTC()}
	judge, err := guard(func() (Judge, error) { return r.cfg.Scorer.Judge(item.Item.Item) })
	if err != nil {
		o.Ended = r.cfg.Now().UTC()
		return fail(o, nil, outcome.FailureOf(err, outcome.Item)), nil
	}
	o.NothingExpected = nothingExpected(judge)
	began := r.cfg.Now()
	o.Started = began.UTC()
	result, err := r.do(ctx, item, trial, decoded(judge))
	if limit.StopsRun(err) {
		return o, err
	}
	took := r.cfg.Now().Sub(began)
	o.Ended = o.Started.Add(took)
	o.Latency = max(0, took-outcome.WaitsOf(result.Calls).Sum())
	o.Output, o.Calls, o.Warnings = result.Output, result.Calls, result.Warnings
	for _, call := range result.Calls {
		o.Usage, o.Assumed = o.Usage.Add(call.Usage), o.Assumed.Add(call.Assumed)
		if call.Cached {
			o.FromCache++
		}
	}
	o.CostUSD = cost(result.Calls)
	if err != nil {
		return fail(o, judge, outcome.FailureOf(err, outcome.Provider)), nil
	}
	return judged(ctx, o, judge, result.Decoded)
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
	o.Groups, o.Counts, o.Explanation = scored.Groups, scored.Counts, scored.Explanation
	o.Causes = scored.Causes
	o.Calls, o.Judging = append(o.Calls, scored.Calls...), outcome.JudgingOf(scored.Calls)
	for _, w := range scored.Warnings {
		if !slices.Contains(o.Warnings, w) {
			o.Warnings = append(o.Warnings, w)
		}
	}
	return o, nil
}

// do calls the task within the time that an item has, which stands still while
// a model's limits make it wait.
func (r *runner) do(ctx context.Context, item unit, trial int, decoded any) (TaskResult, error) {
	inner, cancel := limit.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	result, err := guard(func() (TaskResult, error) {
		return r.cfg.Task.Do(inner, Item{ID: item.ID, Input: item.Input, Metadata: item.Metadata, Trial: trial, Attempt: item.attempt, Decoded: decoded})
	})
	if err != nil && errors.Is(inner.Err(), context.DeadlineExceeded) && ctx.Err() == nil && !limit.StopsRun(err) {
		err = &outcome.Failure{Class: outcome.Timeout, Message: fmt.Sprintf("no result within %s (--timeout)", r.cfg.Timeout)}
	}
	return result, err
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
