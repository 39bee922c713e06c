// Package conformance tests whether an evaluator can be trusted. It evaluates labelled fixtures
// several times, and checks that every answer has the right form and that the scores are those
// that the labels demand.
//
// It cannot tell whether the fixtures are the right ones, and corrects no scores: it counts and
// names faults.
//
// The steps are:
//
//  1. Read reads a file of fixtures, and reports everything that is wrong in it.
//  2. Run evaluates every fixture several times.
//  3. Each fixture is judged: it is compatible if every answer was valid, and consistent if the scores are
//     stable and those that its label demands.
//  4. The Report adds rates with intervals, and the number of runs that would certify a flip rate.
//
// For example:
//
//	set, err := conformance.Read("fixtures.yaml")
//	report, err := conformance.Run(ctx, conformance.Config{Evaluator: judge, Fixtures: set.Fixtures, Runs: 5})
//	if !report.Passed() { … }
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/evaluator"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// Evaluator is what Run certifies. *evaluator.Evaluator and Builtin implement it.
type Evaluator interface {
	// Evaluate judges one case, within its own timeout. An unusable answer is an
	// *evaluator.Fault.
	Evaluate(ctx context.Context, c evaluator.Case) (evaluator.Verdict, error)
	// Command describes the evaluator for the report.
	Command() []string
}

// Config configures Run. Evaluator and Fixtures are required.
type Config struct {
	Evaluator Evaluator
	Fixtures  []Fixture
	// Warnings are the warnings of the fixtures, for the report.
	Warnings []string
	// Fingerprint is that of the evaluator, for the report; it may be empty.
	Fingerprint string

	// Runs is the number of evaluations of each fixture; 0 is 5.
	Runs int
	// MaxFlipRate is the allowed flip rate of pass and fail fixtures, in [0,1], and the allowed
	// share of their scores that the label does not allow.
	MaxFlipRate float64
	// ScoreTolerance is how far the score of a pass fixture may be below 1, and that of a fail
	// fixture above 0, in [0,1).
	ScoreTolerance float64
	// Concurrency is the number of concurrent evaluations; 0 is 4.
	Concurrency int
	// Started and Done, if not nil, are called before and after each evaluation, Done with its
	// error. They must be safe for concurrent use.
	Started func(fixture string)
	Done    func(fixture string, err error)
}

// answer is the result of one evaluation.
type answer struct {
	verdict evaluator.Verdict
	err     error
}

// Run evaluates every fixture Config.Runs times and judges the answers. Faults of the evaluator
// are part of the report. The error is that of ctx, or, if the evaluator was never available, its
// first fault (exit code 69), or that there is no fixture (64).
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg.Runs, cfg.Concurrency = cmp.Or(cfg.Runs, 5), cmp.Or(cfg.Concurrency, 4)
	if len(cfg.Fixtures) == 0 {
		return Report{}, cli.Usage("there is no fixture")
	}
	answers, err := collectAnswers(ctx, cfg)
	if err != nil {
		return Report{}, err
	}
	if fault := unavailableFault(answers); fault != nil {
		return Report{}, fmt.Errorf("the evaluator cannot be asked: %w", fault)
	}
	return newReport(cfg, answers), nil
}

// collectAnswers evaluates all fixtures and returns the answers by fixture and run.
func collectAnswers(ctx context.Context, cfg Config) ([][]answer, error) {
	answers := make([][]answer, len(cfg.Fixtures))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(cfg.Concurrency)
	for i, f := range cfg.Fixtures {
		answers[i] = make([]answer, cfg.Runs)
		for run := range cfg.Runs {
			group.Go(func() error {
				if inner.Err() == nil {
					answers[i][run] = cfg.evaluate(inner, f)
				}
				return inner.Err()
			})
		}
	}
	return answers, group.Wait()
}

// evaluate evaluates a fixture once.
func (cfg Config) evaluate(ctx context.Context, f Fixture) (a answer) {
	if cfg.Started != nil {
		cfg.Started(f.ID)
	}
	a.verdict, a.err = cfg.Evaluator.Evaluate(ctx, f.Case)
	if cfg.Done != nil && ctx.Err() == nil {
		cfg.Done(f.ID, a.err)
	}
	return a
}

// unavailableFault returns the first fault if the evaluator was unavailable in all evaluations,
// otherwise nil.
func unavailableFault(answers [][]answer) error {
	for _, runs := range answers {
		for _, a := range runs {
			if fault, ok := errors.AsType[*evaluator.Fault](a.err); !ok || !fault.Unavailable() {
				return nil
			}
		}
	}
	return answers[0][0].err
}

// confidence is the confidence level of all intervals of a report.
const confidence = 0.95

// Statistics are the results over all fixtures.
type Statistics struct {
	Confidence float64 `json:"confidence"`
	ValidRuns  int     `json:"valid_runs"`
	// Faults is the number of invalid runs by kind.
	Faults map[string]int `json:"faults"`

	// FlipRate is the share of comparisons with another grade. A comparison is that of a valid
	// run of a pass or fail fixture with the first valid run of that fixture. Divisor explains
	// that in words, since the flip rates of fixtures are divided by their valid runs.
	FlipRate Rate   `json:"flip_rate"`
	Divisor  string `json:"flip_rate_divisor"`
	// Agreement is the share of the valid runs of pass and fail fixtures whose grade equals the
	// label.
	Agreement Rate `json:"agreement"`
	// FalsePass is the share of the valid runs of fail fixtures that passed, FalseFail that of
	// pass fixtures that failed, and Borderline that of both with the grade borderline.
	FalsePass  Rate `json:"false_pass"`
	FalseFail  Rate `json:"false_fail"`
	Borderline Rate `json:"borderline"`
	// BoundViolations is the share of scores that their labels do not allow.
	BoundViolations Rate `json:"bound_violations"`
	// MeanVariance and MaxVariance are over the fixtures with valid runs; null if there are none.
	MeanVariance *float64 `json:"mean_variance"`
	MaxVariance  *float64 `json:"max_variance"`

	Certification Certification `json:"certification"`
	// CostUSD is the cost of a judging model; null if it is unknown for any run.
	CostUSD *float64 `json:"cost_usd"`
}

// Rate is Count / Of with its exact (Clopper-Pearson) interval at the confidence of the report.
// Value, Lower and Upper are null if Of is 0. The interval assumes independent runs. Runs of the
// same fixture resemble each other, so with few fixtures it is too narrow.
type Rate struct {
	Count int      `json:"count"`
	Of    int      `json:"of"`
	Value *float64 `json:"value"`
	Lower *float64 `json:"lower"`
	Upper *float64 `json:"upper"`
}

func (r *Rate) add(count, of int) { r.Count, r.Of = r.Count+count, r.Of+of }

// addIf counts one of the cases that the rate is about, and whether it is a hit.
func (r *Rate) addIf(about, hit bool) {
	if about {
		r.Of++
	}
	if about && hit {
		r.Count++
	}
}

// finish sets the value and its interval.
func (r *Rate) finish() {
	if lo, hi, ok := stats.BinomialInterval(r.Count, r.Of, confidence); ok {
		r.Value, r.Lower, r.Upper = new(float64(r.Count)/float64(r.Of)), &lo, &hi
	}
}

// Certification is the flip rate that the runs certify, and the numbers of runs for smaller ones.
type Certification struct {
	// FlipRate is the upper end of the one-sided interval of the flip rate; null without
	// comparisons.
	FlipRate *float64 `json:"flip_rate"`
	Needed   []Needed `json:"needed"`
}

// Needed is the number of comparisons, and of runs of each pass and fail fixture, that certify a
// flip rate if no further flip occurs.
type Needed struct {
	FlipRate    float64 `json:"flip_rate"`
	Comparisons int     `json:"comparisons"`
	Runs        int     `json:"runs"` // of each fixture
}

// tally accumulates the statistics over all fixtures.
type tally struct {
	Statistics
	unambiguous            int // fixtures
	variance               stats.Moments
	cost                   stats.Sum
	costKnown, costUnknown int
}

func (t *tally) add(r FixtureResult, answers []answer) {
	pass, fail := r.Label == Pass, r.Label == Fail
	for _, a := range answers {
		if fault, ok := errors.AsType[*evaluator.Fault](a.err); ok {
			t.Faults[string(fault.Kind)]++
		} else if a.err != nil {
			t.Faults["other"]++
		} else {
			grade := evaluator.GradeOf(a.verdict.Score)
			t.Agreement.addIf(pass || fail, string(grade) == string(r.Label))
			t.FalsePass.addIf(fail, grade == evaluator.Pass)
			t.FalseFail.addIf(pass, grade == evaluator.Fail)
			t.Borderline.addIf(pass || fail, grade == evaluator.Borderline)
		}
		switch call := cmp.Or(a.verdict.Call, &outcome.Call{}); {
		case a.err != nil && call.Usage.Total() == 0: // not billed; unusable answers with usage are
		case call.CostUSD != nil && t.cost.Add(*call.CostUSD):
			t.costKnown++
		default:
			t.costUnknown++
		}
	}
	t.ValidRuns += len(r.Scores)
	t.BoundViolations.add(r.Violations, len(r.Scores))
	if r.Variance != nil {
		t.variance.Add(*r.Variance)
	}
	if pass || fail {
		t.unambiguous++
		t.FlipRate.add(r.Flips, max(0, len(r.Scores)-1))
	}
}

func (t *tally) statistics(cfg Config) Statistics {
	s := t.Statistics
	s.Confidence = confidence
	s.Divisor = "comparisons with the first valid run of a pass or fail fixture; a fixture's own flip_rate is divided by its valid runs"
	rates := []*Rate{&s.FlipRate, &s.Agreement, &s.FalsePass, &s.FalseFail, &s.Borderline, &s.BoundViolations}
	for _, r := range rates {
		r.finish()
	}
	s.Certification = t.certification(cfg)
	s.MeanVariance = t.variance.MeanOrNil()
	if _, top, ok := t.variance.Range(); ok {
		s.MaxVariance = &top
	}
	if t.costKnown > 0 && t.costUnknown == 0 {
		s.CostUSD = new(t.cost.Value())
	}
	return s
}

func (t *tally) certification(cfg Config) Certification {
	c := Certification{Needed: []Needed{}}
	if hi, ok := stats.UpperRate(t.FlipRate.Count, t.FlipRate.Of, confidence); ok {
		c.FlipRate = &hi
	}
	rates := []float64{0.1, 0.05, 0.01}
	if own := cfg.MaxFlipRate; own > 0 && own < 1 {
		rates = append([]float64{own}, slices.DeleteFunc(rates, func(rate float64) bool { return rate == own })...)
	}
	for _, rate := range rates {
		if n, ok := stats.TrialsNeeded(t.FlipRate.Count, rate, confidence); ok && t.unambiguous > 0 {
			perFixture := (n+t.unambiguous-1)/t.unambiguous + 1 // the first run is not compared
			c.Needed = append(c.Needed, Needed{rate, n, perFixture})
		}
	}
	return c
}

// String formats the rate: "3.3 % (1 of 30, 0.1 % to 17.2 %)".
func (r Rate) String() string {
	if r.Value == nil {
		return "none (nothing to count)"
	}
	return fmt.Sprintf("%.1f %% (%d of %d, %.1f %% to %.1f %%)", *r.Value*100, r.Count, r.Of, *r.Lower*100, *r.Upper*100)
}
