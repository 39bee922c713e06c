// Package conformance says whether an evaluator is fit to be trusted: it asks
// it several times about labelled fixtures, and checks that every answer has
// the right form and that the scores are those that the labels demand.
//
// It does not say whether the fixtures are the right ones, and it improves no
// score: what misbehaves is counted and named.
//
// The steps are
//
//  1. Read reads a file of fixtures, and names everything that is wrong in it;
//  2. Run asks the evaluator about every fixture, several times;
//  3. each fixture is judged (compatible: every answer was valid; consistent:
//     the scores are what its label demands, and stable);
//  4. the Report adds what a judge must know: rates with intervals, and how
//     many runs would certify a rate of flips.
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
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// Evaluator is what is certified; *evaluator.Evaluator and Builtin are.
type Evaluator interface {
	// Evaluate judges one case, within a time of its own. An answer that
	// cannot be used is an *evaluator.Fault.
	Evaluate(ctx context.Context, c evaluator.Case) (evaluator.Verdict, error)
	// Command says who is asked.
	Command() []string
}

// Config says what to certify. Evaluator and Fixtures are needed.
type Config struct {
	Evaluator Evaluator
	Fixtures  []Fixture
	// Warnings of the fixtures are handed on to the report.
	Warnings []string
	// Fingerprint of the evaluator, for the report; may be empty.
	Fingerprint string

	// Runs is how often each fixture is evaluated; 0 means 5.
	Runs int
	// MaxFlipRate is the allowed flip rate of pass and fail fixtures, in [0,1], and
	// the share of their scores that may be others than the label demands.
	MaxFlipRate float64
	// ScoreTolerance is how far the score of a pass fixture may lie below 1,
	// and that of a fail fixture above 0, in [0,1).
	ScoreTolerance float64
	// Concurrency is how many evaluations go on at once; 0 means 4.
	Concurrency int
	// Started and Done, if set, are called before and after each evaluation, Done
	// with its error; both must be safe for concurrent use.
	Started func(fixture string)
	Done    func(fixture string, err error)
}

// answer is what one evaluation came to.
type answer struct {
	verdict evaluator.Verdict
	err     error
}

// Run evaluates every fixture Config.Runs times and judges the answers. Faults
// of the evaluator are part of the report, not errors. The error is that of ctx, or, where the evaluator could never
// be asked at all, its first fault (exit code 69).
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg.Runs, cfg.Concurrency = cmp.Or(cfg.Runs, 5), cmp.Or(cfg.Concurrency, 4)
	answers, err := ask(ctx, cfg)
	if err != nil {
		return Report{}, err
	}
	if fault := neverAsked(answers); fault != nil {
		return Report{}, fmt.Errorf("the evaluator cannot be asked: %w", fault)
	}
	return newReport(cfg, answers), nil
}

// ask collects the answers, by fixture and run.
func ask(ctx context.Context, cfg Config) ([][]answer, error) {
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

// evaluate asks once about a fixture.
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

// neverAsked returns the first fault if all answers are faults of an evaluator
// that was not there.
func neverAsked(answers [][]answer) error {
	for _, runs := range answers {
		for _, a := range runs {
			if fault, ok := errors.AsType[*evaluator.Fault](a.err); !ok || !fault.Unavailable() {
				return nil
			}
		}
	}
	return answers[0][0].err
}

// confidence of all intervals of a report.
const confidence = 0.95

// Statistics are what the runs say about the evaluator as a whole.
type Statistics struct {
	Confidence float64 `json:"confidence"`
	ValidRuns  int     `json:"valid_runs"`
	// Faults counts the invalid runs by kind.
	Faults map[string]int `json:"faults"`

	// FlipRate is over the comparisons of a run of a pass or fail fixture with
	// the first valid run of that fixture; Divisor says so. The flip rates of
	// the fixtures are divided by their runs.
	FlipRate Rate   `json:"flip_rate"`
	Divisor  string `json:"flip_rate_divisor"`
	// Agreement is the share of the runs of pass and fail fixtures whose grade
	// is that of the label.
	Agreement Rate `json:"agreement"`
	// FalsePass is the share of the runs of fail fixtures that passed,
	// FalseFail that of pass fixtures that failed; Borderline that of the runs
	// of both that were neither.
	FalsePass  Rate `json:"false_pass"`
	FalseFail  Rate `json:"false_fail"`
	Borderline Rate `json:"borderline"`
	// BoundViolations is the share of scores that their labels do not allow.
	BoundViolations Rate `json:"bound_violations"`
	// MeanVariance and MaxVariance are over the fixtures; null without any.
	MeanVariance *float64 `json:"mean_variance"`
	MaxVariance  *float64 `json:"max_variance"`

	Certification Certification `json:"certification"`
	// CostUSD sums what a judging model cost; null where it is not known.
	CostUSD *float64 `json:"cost_usd"`
}

// Rate is Count / Of with its exact (Clopper-Pearson) interval at the confidence of the report;
// all null where Of is 0. The interval takes runs as independent; repetitions
// of one fixture resemble each other, so that few fixtures say less than it
// seems.
type Rate struct {
	Count int      `json:"count"`
	Of    int      `json:"of"`
	Value *float64 `json:"value"`
	Lower *float64 `json:"lower"`
	Upper *float64 `json:"upper"`
}

func newRate(count, of int) Rate {
	r := Rate{Count: count, Of: of}
	if lo, hi, ok := stats.BinomialInterval(count, of, confidence); ok {
		r.Value, r.Lower, r.Upper = new(float64(count)/float64(of)), &lo, &hi
	}
	return r
}

// Certification says which flip rate the runs show, and how many would show a
// smaller one.
type Certification struct {
	// FlipRate is the largest one that remains possible (one-sided); null
	// without a comparison.
	FlipRate *float64 `json:"flip_rate"`
	Needed   []Needed `json:"needed"`
}

// Needed is how many comparisons, and so many runs of each pass and fail
// fixture, certify a flip rate if no further flip is seen.
type Needed struct {
	FlipRate    float64 `json:"flip_rate"`
	Comparisons int     `json:"comparisons"`
	Runs        int     `json:"runs"` // of each fixture
}

// tally counts over all fixtures.
type tally struct {
	Statistics
	violations, flips, comparisons, unambiguous int
	grades                                      map[graded]int
	runs                                        map[Label]int // that were valid
	variance                                    stats.Moments
	cost                                        stats.Sum
	costKnown, costUnknown                      int
}

// graded is a grade of a run of a fixture with a label.
type graded struct {
	label Label
	grade evaluator.Grade
}

func (t *tally) add(r FixtureResult, answers []answer) {
	for _, a := range answers {
		if a.err != nil {
			t.Faults[kindOf(a.err)]++
		} else {
			t.grades[graded{r.Label, evaluator.GradeOf(a.verdict.Score)}]++
			t.runs[r.Label]++
		}
		switch call := cmp.Or(a.verdict.Call, &outcome.Call{}); {
		case a.err != nil && call.Usage.Total() == 0: // else an answer that is of no use is paid for too
		case call.CostUSD != nil && t.cost.Add(*call.CostUSD):
			t.costKnown++
		default:
			t.costUnknown++
		}
	}
	t.ValidRuns += len(r.Scores)
	t.violations += r.Violations
	if r.Variance != nil {
		t.variance.Add(*r.Variance)
	}
	if r.Label != Ambiguous {
		t.unambiguous++
		t.flips += r.Flips
		t.comparisons += max(0, len(r.Scores)-1)
	}
}

func (t *tally) statistics(cfg Config) Statistics {
	rate := func(of int, grades ...graded) Rate {
		n := 0
		for _, g := range grades {
			n += t.grades[g]
		}
		return newRate(n, of)
	}
	s, both := t.Statistics, t.runs[Pass]+t.runs[Fail]
	s.Confidence = confidence
	s.FlipRate = newRate(t.flips, t.comparisons)
	s.Divisor = "comparisons with the first valid run of a pass or fail fixture; a fixture's own flip_rate is divided by its valid runs"
	s.Agreement = rate(both, graded{Pass, evaluator.Pass}, graded{Fail, evaluator.Fail})
	s.FalsePass = rate(t.runs[Fail], graded{Fail, evaluator.Pass})
	s.FalseFail = rate(t.runs[Pass], graded{Pass, evaluator.Fail})
	s.Borderline = rate(both, graded{Pass, evaluator.Borderline}, graded{Fail, evaluator.Borderline})
	s.BoundViolations = newRate(t.violations, t.ValidRuns)
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
	if hi, ok := stats.UpperRate(t.flips, t.comparisons, confidence); ok {
		c.FlipRate = &hi
	}
	rates := []float64{0.1, 0.05, 0.01}
	if own := cfg.MaxFlipRate; own > 0 && own < 1 {
		rates = append([]float64{own}, slices.DeleteFunc(rates, func(rate float64) bool { return rate == own })...)
	}
	for _, rate := range rates {
		if n, ok := stats.TrialsNeeded(t.flips, rate, confidence); ok && t.unambiguous > 0 {
			perFixture := (n+t.unambiguous-1)/t.unambiguous + 1 // the first run compares with nothing
			c.Needed = append(c.Needed, Needed{rate, n, perFixture})
		}
	}
	return c
}

// String writes the rate for a person: "3.3 % (1 of 30, 0.1 % to 17.2 %)".
func (r Rate) String() string {
	if r.Value == nil {
		return "none (nothing to count)"
	}
	return fmt.Sprintf("%.1f %% (%d of %d, %.1f %% to %.1f %%)", *r.Value*100, r.Count, r.Of, *r.Lower*100, *r.Upper*100)
}
