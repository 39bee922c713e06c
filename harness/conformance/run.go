package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/evaluator"
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

func (cfg Config) complete() (Config, error) {
	var problems []error
	if cfg.Evaluator == nil || len(cfg.Fixtures) == 0 {
		problems = append(problems, errors.New("conformance: an evaluator and at least one fixture are needed"))
	}
	if cfg.Runs < 0 || cfg.Concurrency < 0 {
		problems = append(problems, fmt.Errorf("conformance: %d runs of which %d at once are impossible", cfg.Runs, cfg.Concurrency))
	}
	if !(cfg.MaxFlipRate >= 0 && cfg.MaxFlipRate <= 1) {
		problems = append(problems, fmt.Errorf("conformance: a flip rate of %v is impossible: it is from 0 to 1", cfg.MaxFlipRate))
	}
	if !(cfg.ScoreTolerance >= 0 && cfg.ScoreTolerance < 1) {
		problems = append(problems, fmt.Errorf("conformance: a tolerance of %v is impossible: it is at least 0 and less than 1", cfg.ScoreTolerance))
	}
	cfg.Runs = cmp.Or(cfg.Runs, 5)
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 4)
	return cfg, errors.Join(problems...)
}

// answer is what one evaluation came to.
type answer struct {
	verdict evaluator.Verdict
	err     error
}

// Run evaluates every fixture Config.Runs times and judges the answers. Faults
// of the evaluator are part of the report, not errors. The error joins what is
// wrong with the Config, or is that of ctx, or, where the evaluator could never
// be asked at all, its first fault (exit code 69).
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return Report{}, err
	}
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
				if inner.Err() != nil {
					return inner.Err()
				}
				if cfg.Started != nil {
					cfg.Started(f.ID)
				}
				a := &answers[i][run]
				a.verdict, a.err = cfg.Evaluator.Evaluate(inner, f.Case)
				if inner.Err() != nil {
					return inner.Err()
				}
				if cfg.Done != nil {
					cfg.Done(f.ID, a.err)
				}
				return nil
			})
		}
	}
	return answers, group.Wait()
}

// neverAsked returns the first fault if all answers are faults of an evaluator
// that was not there.
func neverAsked(answers [][]answer) error {
	for _, runs := range answers {
		for _, a := range runs {
			var fault *evaluator.Fault
			if a.err == nil || !errors.As(a.err, &fault) || !fault.Unavailable() {
				return nil
			}
		}
	}
	return answers[0][0].err
}
