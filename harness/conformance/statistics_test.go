package conformance_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"extraction-experiment/evaluator"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// fixedVerdicts returns its verdicts and errors in order, whatever the case.
type fixedVerdicts struct {
	n    int
	list []evaluator.Verdict
	errs map[int]error
}

func (v *fixedVerdicts) Evaluate(context.Context, evaluator.Case) (evaluator.Verdict, error) {
	i := v.n
	v.n++
	return v.list[i], v.errs[i]
}

func (v *fixedVerdicts) Command() []string { return []string{"judge"} }

// TestRun_statistics compares statistics with a calculation by hand. Three fixtures have four
// runs each:
//
//	pass       1, 1, 1, 1          variance 0
//	fail       0, 0, 1, 0          mean 1/4, variance 1/4 · 3/4 = 0.1875; one flip
//	ambiguous  0.5, 0.5, 0.5, 0.9  mean 0.6, variance (3·0.01 + 0.09)/4 = 0.03; 0.9 is too high
//
// The mean of the variances is 0.2175/3 = 0.0725. Flips are counted over 3 + 3 comparisons. With
// one flip, the smallest n with (1-r)^n + n·r·(1-r)^(n-1) of at most 0.05 is 22 for r = 0.2
// (0.0480; 21 gives 0.0576), 46 for 0.1, 93 for 0.05 and 473 for 0.01. Two fixtures share these,
// and each needs one run more.
func TestRun_statistics(t *testing.T) {
	bounds := &conformance.Bounds{Low: 0.2, High: 0.8}
	fixtures := []conformance.Fixture{fixture("p", conformance.Pass, nil), fixture("f", conformance.Fail, nil), fixture("a", conformance.Ambiguous, bounds)}
	judge := &fixedVerdicts{}
	for _, score := range []float64{1, 1, 1, 1, 0, 0, 1, 0, 0.5, 0.5, 0.5, 0.9} {
		judge.list = append(judge.list, evaluator.Verdict{Score: score})
	}
	var started, done atomic.Int64
	cfg := conformance.Config{
		Evaluator: judge, Fixtures: fixtures, Runs: 4, Concurrency: 1, MaxFlipRate: 0.2,
		Started: func(string) { started.Add(1) }, Done: func(string, error) { done.Add(1) },
	}
	r, err := conformance.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Statistics
	if started.Load() != 12 || done.Load() != 12 || s.Confidence != 0.95 || s.Divisor == "" {
		t.Errorf("%d started, %d done, %+v", started.Load(), done.Load(), s)
	}
	if math.Abs(*s.MeanVariance-0.0725) > 1e-15 || math.Abs(*s.MaxVariance-0.1875) > 1e-15 {
		t.Errorf("variances: mean %v, largest %v", *s.MeanVariance, *s.MaxVariance)
	}
	if s.FlipRate.Count != 1 || s.FlipRate.Of != 6 || s.BoundViolations.Count != 2 || s.BoundViolations.Of != 12 {
		t.Errorf("%+v", s)
	}
	want := []conformance.Needed{{FlipRate: 0.2, Comparisons: 22, Runs: 12}, {FlipRate: 0.1, Comparisons: 46, Runs: 24}, {FlipRate: 0.05, Comparisons: 93, Runs: 48}, {FlipRate: 0.01, Comparisons: 473, Runs: 238}}
	if !slices.Equal(s.Certification.Needed, want) {
		t.Errorf("needed: %+v, want %+v", s.Certification.Needed, want)
	}
	if got := r.Fixtures[2].Reasons; !slices.Equal(got, []string{"1 of 4 scores are not from 0.2 to 0.8"}) || r.Fixtures[2].Pass {
		t.Errorf("%q", got)
	}
	if !r.Compatible || r.Consistent || r.Pass {
		t.Errorf("%+v", r)
	}
	// The allowed rate is the first of the list, and occurs once.
	for own, want := range map[float64][]float64{0: {0.1, 0.05, 0.01}, 1: {0.1, 0.05, 0.01}, 0.05: {0.05, 0.1, 0.01}} {
		judge.n, cfg.MaxFlipRate = 0, own
		r, err := conformance.Run(t.Context(), cfg)
		got := cli.Each(r.Statistics.Certification.Needed, func(n conformance.Needed) float64 { return n.FlipRate })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("allowed %v: %v, %v; want %v", own, got, err, want)
		}
	}
	// If all fixtures are ambiguous, no number of runs certifies a flip rate.
	judge.n, cfg.Fixtures = 0, []conformance.Fixture{fixture("a", conformance.Ambiguous, nil)}
	if r, err := conformance.Run(t.Context(), cfg); err != nil || r.Statistics.Certification.FlipRate != nil || len(r.Statistics.Certification.Needed) != 0 {
		t.Errorf("%+v, %v", r.Statistics.Certification, err)
	}
}

// TestRun_cost checks that the cost is the sum over all answers, unknown if that of any answer
// is, usable or not, and that an evaluator that never answered costs nothing.
func TestRun_cost(t *testing.T) {
	paid := func(usd float64) *outcome.Call { return &outcome.Call{CostUSD: &usd, Usage: outcome.Usage{Input: 5}} }
	unknown := &outcome.Call{Usage: outcome.Usage{Input: 5}}
	bad, gone := &evaluator.Fault{Kind: evaluator.BadVerdict, Message: "no score"}, errors.New("gone")
	for name, tt := range map[string]struct {
		calls []*outcome.Call
		errs  map[int]error
		want  any // nil if unknown, or the sum
	}{
		"known":                    {[]*outcome.Call{paid(0.25), paid(0.5)}, nil, 0.75},
		"one unknown":              {[]*outcome.Call{paid(0.25), unknown}, nil, nil},
		"one of no use, paid":      {[]*outcome.Call{paid(0.25), paid(0.5)}, map[int]error{1: bad}, 0.75},
		"one of no use, unknown":   {[]*outcome.Call{paid(0.25), unknown}, map[int]error{1: bad}, nil},
		"one that never came":      {[]*outcome.Call{paid(0.25), nil}, map[int]error{1: gone}, 0.25},
		"no judging model":         {[]*outcome.Call{nil, nil}, nil, nil},
		"nothing known, one fault": {[]*outcome.Call{unknown, nil}, map[int]error{1: gone}, nil},
		"more dollars than finite": {[]*outcome.Call{paid(0.25), paid(math.Inf(1))}, nil, nil},
	} {
		judge := &fixedVerdicts{errs: tt.errs, list: cli.Each(tt.calls, func(call *outcome.Call) evaluator.Verdict {
			return evaluator.Verdict{Score: 1, Call: call}
		})}
		r, err := conformance.Run(t.Context(), conformance.Config{Evaluator: judge, Fixtures: []conformance.Fixture{fixture("p", conformance.Pass, nil)}, Runs: 2, Concurrency: 1})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got any
		if usd := r.Statistics.CostUSD; usd != nil {
			got = *usd
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		if tt.errs[1] != nil && (r.Compatible || r.Pass || r.Statistics.Faults[map[bool]string{true: "other", false: "bad_verdict"}[tt.errs[1] == gone]] != 1) {
			t.Errorf("%s: %+v", name, r.Statistics.Faults)
		}
	}
}

// TestRun_demanded checks the reasons for scores that the label does not allow.
func TestRun_demanded(t *testing.T) {
	for _, tt := range []struct {
		label     conformance.Label
		tolerance float64
		score     float64
		want      string
	}{
		{conformance.Pass, 0, 0.5, "2 of 2 scores are not 1"},
		{conformance.Fail, 0, 0.5, "2 of 2 scores are not 0"},
		{conformance.Pass, 0.2, 0.5, "2 of 2 scores are not at least 0.8"},
		{conformance.Fail, 0.2, 0.5, "2 of 2 scores are not at most 0.2"},
	} {
		cfg := conformance.Config{Fixtures: []conformance.Fixture{fixture("x", tt.label, nil)}, Runs: 2, ScoreTolerance: tt.tolerance}
		r := mustRun(t, cfg, func(string, int64) (float64, error) { return tt.score, nil })
		if got := r.Fixtures[0].Reasons; !slices.Equal(got, []string{tt.want}) || r.Pass || r.Consistent {
			t.Errorf("%+v: %q", tt, got)
		}
	}
	none := mustRun(t, conformance.Config{Fixtures: []conformance.Fixture{fixture("x", conformance.Pass, nil), fixture("y", conformance.Pass, nil)}, Runs: 1}, func(candidate string, _ int64) (float64, error) {
		if candidate == "x" {
			return 0, errors.New("gone")
		}
		return 1, nil
	})
	if got := none.Fixtures[0].Reasons; !slices.Equal(got, []string{"no run was valid"}) || none.Pass || none.Consistent || none.Compatible {
		t.Errorf("%q, %+v", got, none)
	}
}

// TestRate_String formats 1 of 30 with its Clopper-Pearson interval, 0.0008 to 0.1722.
func TestRate_String(t *testing.T) {
	value, lower, upper := 1.0/30, 0.000843, 0.17217
	if got := (conformance.Rate{Count: 1, Of: 30, Value: &value, Lower: &lower, Upper: &upper}).String(); got != "3.3 % (1 of 30, 0.1 % to 17.2 %)" {
		t.Error(got)
	}
	if got := (conformance.Rate{}).String(); got != "none (nothing to count)" {
		t.Error(got)
	}
}
