package compare_test

import (
	"context"
	"fmt"
	"iter"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"
)

// memory is a complete run in memory: one score for each item.
type memory struct {
	name   string
	scores []float64
}

func (m memory) Where() string { return m.name }

func (m memory) Header(context.Context) (outcome.Header, error) {
	return outcome.Header{
		Name: m.name, Dataset: outcome.Dataset{Name: "capitals", Fingerprint: "f00d"}, Trials: 1,
		Scorer: outcome.Scorer{Version: "1", Primary: "correct"},
	}, nil
}

func (m memory) Footer(context.Context) (outcome.Footer, bool, error) {
	return outcome.Footer{Status: outcome.Complete, Planned: len(m.scores)}, true, nil
}

func (m memory) Items(context.Context) iter.Seq2[compare.Item, error] {
	return func(yield func(compare.Item, error) bool) {
		for i := range m.scores {
			if !yield(compare.Item{ID: fmt.Sprintf("item-%02d", i), Hash: "the same"}, nil) {
				return
			}
		}
	}
}

func (m memory) Outcomes(context.Context) iter.Seq2[outcome.Outcome, error] {
	return func(yield func(outcome.Outcome, error) bool) {
		for i, v := range m.scores {
			scores := []outcome.Score{{Name: "correct", Value: &v}}
			if !yield(outcome.Outcome{Item: fmt.Sprintf("item-%02d", i), Trial: 1, Attempt: 1, Scores: scores}, nil) {
				return
			}
		}
	}
}

// Two runs are compared. Those in files are opened by experiment.OpenRun.
func Example() {
	base := memory{"base", []float64{0.2, 0.4, 0.1, 0.5, 0.3, 0.2, 0.6, 0.3, 0.4, 0.5}}
	candidate := memory{"candidate", []float64{0.6, 0.7, 0.5, 0.9, 0.8, 0.5, 0.9, 0.8, 0.8, 0.8}}
	result, err := compare.Config{}.Compare(context.Background(), base, candidate)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := result.Err(); err != nil { // the runs cannot be compared, or a rule of a gate fails
		fmt.Println(err)
		return
	}
	score := result.Candidates[0].Primary()
	fmt.Printf("%s is %s by %.2f (%.2f to %.2f)\n", score.Name, score.Verdict, *score.Difference, score.CI95[0], score.CI95[1])
	// Output: correct is better by 0.38 (0.32 to 0.44)
}
